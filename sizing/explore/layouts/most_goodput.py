"""The layouts of the max goodput: which of those that fit are asked of the storage, and what it leaves unknown."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from sizing.explore.layouts.layouts_report import FoundLayout
from sizing.explore.layouts.objectives import ranking
from sizing.explore.layouts.search import Search, Weighed
from sizing.units import counted_text, seconds_text

MAX_ASKED_OF_STORAGE = 200
"""Of the layouts of the shortest steps, for which goodput is computed: no other catches up with its saves."""


def of_max_goodput(search: Search, fitting: Sequence[Weighed], *, num: int) -> list[FoundLayout]:
    """Asked in the order of their steps, until no other could be shown even if its saves and failures took nothing."""
    found: list[FoundLayout] = []
    for each in sorted(fitting, key=ranking("step-time"))[: max(MAX_ASKED_OF_STORAGE, num)]:
        if len(found) >= num and (each.tokens_per_second or 0.0) < (found[num - 1].effective_tokens_per_second or 0.0):
            break
        bisect.insort(found, search.found(each), key=ranking("goodput"))
    return found[:num]


def unknown_goodput(search: Search, layouts: Sequence[FoundLayout]) -> Iterator[str]:
    """Why layouts that were to be ranked by goodput are ranked by the time of a step."""
    unknown = [each for each in layouts if each.effective_tokens_per_second is None]
    if search.objective != "goodput" or not unknown:
        return
    which = f"Goodput of {counted_text(len(unknown), 'layout')} not known, and they are ranked by the time of a step"
    if any(each.stall_seconds is None for each in unknown):
        yield f"{which}: the storage has no write rate. Give storage.profile.write_bytes_per_second"
    else:
        interval = seconds_text(search.scenario.checkpoint.interval_seconds)
        yield (
            f"{which}: a checkpoint takes longer than the interval of {interval}, so training never advances. "
            "Raise checkpoint.interval_seconds"
        )
