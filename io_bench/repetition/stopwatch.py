"""The clock: all ranks start together, and each says when it was done.

On one host the ranks share the monotonic clock, so they agree on a start time a little after a barrier and
all count from it: a late starter's lateness is in its figure. Between hosts no clock is shared to that
precision: each rank counts from its own start, and the spread of the starts is recorded, by wall clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from io_bench.ranks.writers import Writers
from io_bench.repetition.counters import Reading

# More than a rank needs to hear of the agreed time: it may have slept 50 ms between two questions.
LEAD_SECONDS = 0.1

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Timing:
    """One operation of one repetition, with one entry per writer.

    `rank_seconds` to the end of each; `start_spread_seconds` from the first start to the last; `cpu_seconds` and
    `counted_bytes` are what the kernel counted meanwhile, and a little before and after.
    """

    rank_seconds: tuple[float, ...]
    start_spread_seconds: float
    cpu_seconds: tuple[float, ...] = ()
    counted_bytes: tuple[Mapping[str, int], ...] = ()

    @property
    def seconds(self) -> float:
        """From the common start to the end of the slowest."""
        return max(self.rank_seconds)


def timed(
    action: Callable[[], _Result], writers: Writers, *, doing: str, read: Callable[[], Reading]
) -> tuple[_Result, Timing]:
    """What `action` returns, run on all ranks at once, and the time that each writer took.

    Args: `read` reads the counters, before and after. Raises what `action` raises, and what
    ProcessGroup.exchange raises for peers.
    """
    group = writers.group
    shares_clock = len(group.nodes) == 1
    group.exchange(None, doing=f"preparing for {doing}")
    before = read()
    agreed = group.exchange(time.monotonic() + LEAD_SECONDS, doing=f"agreeing when to start {doing}")[0]
    if shares_clock:
        time.sleep(max(0.0, agreed - time.monotonic()))
    started, started_wall = time.monotonic(), time.time()
    result = action()
    ended = time.monotonic()
    counted = read().since(before)
    seconds = ended - (agreed if shares_clock else started)
    start = started if shares_clock else started_wall
    rows = writers.exchange([seconds, start, counted.cpu_seconds, counted.num_bytes], doing=doing)
    all_seconds, starts, cpu_seconds, counted_bytes = zip(*rows, strict=True)
    return result, Timing(all_seconds, max(starts) - min(starts), cpu_seconds, counted_bytes)
