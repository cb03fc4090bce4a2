"""The end of a run whose data came back other than it was written."""

from __future__ import annotations

from collections.abc import Sequence

from io_bench.errors import RunFailed
from io_bench.ranks.process_group import ProcessGroup
from sizing.storage.corruption import Corruption


def raise_where_corrupt(corruption: Sequence[Corruption] | None, group: ProcessGroup) -> None:
    """Raise RunFailed on all ranks alike where rank 0 knows of any: once the result is kept."""
    sentence = group.told(_sentence(corruption or ()), doing="verifying")
    if sentence:
        raise RunFailed(sentence)


def _sentence(corruption: Sequence[Corruption]) -> str:
    if not corruption:
        return ""
    more = f" (And {len(corruption) - 1} similar in the result.)" if len(corruption) > 1 else ""
    return f"{corruption[0].sentence}{more}"
