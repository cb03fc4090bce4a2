"""The clock: all ranks start together, and each says when it was done.

They agree on an instant by rank 0's clock, which each node knows to a fraction of a millisecond (`ranks.clock`), and
count from it: a late starter's lateness is in its figure.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from io_bench.host.threads import ThreadTime, ThreadWatch
from io_bench.ranks.writers import Writers
from io_bench.repetition.counters import Reading

_Result = TypeVar("_Result")
_DIGITS = 6
"""Of seconds that counters give: none is kept more often than every microsecond."""


@dataclass(frozen=True, slots=True)
class Strain:
    """What one rank had to wait for on its own node, in seconds.

    `running_seconds` and `delay_seconds` are of the thread that needed a CPU for most of the time: with one, and
    without; None where the kernel does not count it. In `throttled_seconds` a control group had used up its CPU time.
    `link_seconds` is what the busiest network adapter of the node needs for its bytes at the rate of its link; None
    where no adapter has a rate, and for all but the first rank of a node.
    """

    running_seconds: float | None = None
    delay_seconds: float | None = None
    throttled_seconds: float = 0.0
    link_seconds: float | None = None

    @classmethod
    def of(cls, busiest: ThreadTime | None, counted: Reading) -> Strain:
        """From what was counted meanwhile. Short numbers: those of all ranks pass rank 0."""
        link_seconds = max(counted.link_seconds.values(), default=None)
        return cls(
            round(busiest.running_seconds, _DIGITS) if busiest else None,
            round(busiest.delay_seconds, _DIGITS) if busiest else None,
            round(max(counted.throttled_seconds.values(), default=0.0), _DIGITS),
            None if link_seconds is None else round(link_seconds, _DIGITS),
        )

    @property
    def ready_seconds(self) -> float | None:
        """For so long the busiest thread needed a CPU."""
        if self.running_seconds is None or self.delay_seconds is None:
            return None
        return self.running_seconds + self.delay_seconds


@dataclass(frozen=True, slots=True)
class Timing:
    """One operation of one repetition, with one entry per writer.

    `rank_seconds` to the end of each; `start_spread_seconds` from the first start to the last, each by the clock of its
    node, which may be off that of rank 0 by `clock_error_seconds`; `cpu_seconds`, `counted_bytes` and `strains` are
    what the kernel counted meanwhile, and a little before and after.
    """

    rank_seconds: tuple[float, ...]
    start_spread_seconds: float
    cpu_seconds: tuple[float, ...] = ()
    counted_bytes: tuple[Mapping[str, int], ...] = ()
    clock_error_seconds: float = 0.0
    strains: tuple[Strain, ...] = ()

    @property
    def seconds(self) -> float:
        """From the common start to the end of the slowest."""
        return max(self.rank_seconds)

    @property
    def slowest(self) -> int:
        """The index of the slowest."""
        return self.rank_seconds.index(self.seconds)


@dataclass(frozen=True, slots=True)
class Timed(Generic[_Result]):
    """What an operation returned on this rank. On rank 0 the `timing` of all writers, and what each said of it."""

    result: _Result
    timing: Timing | None
    reports: tuple[Any, ...]


def timed(
    action: Callable[[], _Result],
    writers: Writers,
    *,
    doing: str,
    read: Callable[[], Reading],
    report: Callable[[_Result], Any] = lambda _: None,
) -> Timed[_Result]:
    """`action`, run on all ranks at once, with the time that each writer took.

    Args: `read` reads the counters, before and after; `report` is what a rank says of what its action returned, as
    JSON. Raises what `action` raises, and what ProcessGroup.gathered raises for peers.
    """
    group = writers.group
    start = group.start(doing=doing)
    before = read()
    with ThreadWatch() as watch:
        time.sleep(max(0.0, start.instant - group.now()))
        started = group.now()
        result = action()
        ended = group.now()
    counted = read().since(before)
    row = [ended - start.instant, started - start.instant, start.error_seconds, counted.cpu_seconds, counted.num_bytes]
    strain = dataclasses.astuple(Strain.of(watch.busiest, counted))
    rows = writers.gathered([*row, strain, report(result)], doing=doing)
    return Timed(result, _timing(rows) if rows else None, tuple(row[-1] for row in rows))


def _timing(rows: list[list[Any]]) -> Timing:
    seconds, late_seconds, errors, cpu_seconds, counted_bytes, strains, _ = zip(*rows, strict=True)
    return Timing(
        seconds,
        max(late_seconds) - min(late_seconds),
        cpu_seconds,
        counted_bytes,
        clock_error_seconds=max(errors),
        strains=tuple(Strain(*strain) for strain in strains),
    )
