"""The clock: all ranks start together, and each says when it was done.

On one host the ranks share the monotonic clock, so they agree on a start time a little after a barrier and
all count from it: a late starter's lateness is in its figure. Between hosts no clock is shared to that
precision: each rank counts from its own start, and the spread of the starts is recorded, by wall clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from io_bench.process_group import ProcessGroup

# More than a rank needs to hear of the agreed time: it may have slept 50 ms between two questions.
LEAD_SECONDS = 0.1

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Timing:
    """One operation of one repetition: seconds to the end of each rank, and how far apart they started."""

    rank_seconds: tuple[float, ...]
    start_spread_seconds: float


def timed(action: Callable[[], _Result], group: ProcessGroup, *, doing: str) -> tuple[_Result, Timing]:
    """What `action` returns, run on all ranks at once, and the time that each took.

    Raises what `action` raises, and what ProcessGroup.exchange raises for peers.
    """
    shares_clock = len(group.nodes) == 1
    group.exchange(None, doing=f"preparing for {doing}")
    agreed = group.exchange(time.monotonic() + LEAD_SECONDS, doing=f"agreeing when to start {doing}")[0]
    if shares_clock:
        time.sleep(max(0.0, agreed - time.monotonic()))
    started, started_wall = time.monotonic(), time.time()
    result = action()
    ended = time.monotonic()
    seconds = ended - (agreed if shares_clock else started)
    rows = group.exchange([seconds, started if shares_clock else started_wall], doing=doing)
    starts = [start for _, start in rows]
    return result, Timing(tuple(seconds for seconds, _ in rows), max(starts) - min(starts))
