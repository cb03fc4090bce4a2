"""The clock: all ranks start together, and each says when it was done.

They agree on an instant by rank 0's clock, which each node knows to a fraction of a millisecond (`ranks.clock`), and
count from it: a late starter's lateness is in its figure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from io_bench import interruption
from io_bench.engines import IoReport
from io_bench.host import ThreadWatch
from io_bench.measure.counters import read_counters
from io_bench.ranks.process_group import Writers
from sizing.storage.measurement import Operation

_DIGITS = 6
"""Decimals of seconds that counters give: none is kept more often than every microsecond."""


@dataclass(frozen=True, slots=True)
class RankSample:
    """Measurements of one rank in one write or restore, by name, from the stopwatch to the result document.

    `seconds` count from the common start to the end of this rank and `late_seconds` to its own start, by the clock of
    its node, which may be off that of rank 0 by `clock_error_seconds`. `cpu_seconds` are what the kernel counted
    meanwhile, and a little before and after; `counted_bytes` what it counted until all ranks of the node had ended. The
    thread that needed a CPU for most of the time had one for `running_seconds` and waited for one for `delay_seconds`;
    both are None where the kernel does not count them. In `throttled_seconds` a control group had used up its CPU time.
    `link_seconds` is what the busiest network adapter of the node needs for these bytes at the rate of its link; None
    where no adapter has a rate, and for all but the first rank of a node. `report` is what the engine says. `num_bytes`
    were written to files, or read from them. `resident_pages` were in the page cache after a direct write, or when a
    restore began: 0 where it was bypassed. `deletion_seconds` is the removal that belongs to a save; None where nothing
    had to go.
    """

    seconds: float
    late_seconds: float = 0.0
    clock_error_seconds: float = 0.0
    cpu_seconds: float = 0.0
    counted_bytes: Mapping[str, int] = field(default_factory=dict)
    running_seconds: float | None = None
    delay_seconds: float | None = None
    throttled_seconds: float = 0.0
    link_seconds: float | None = None
    report: IoReport = field(default_factory=IoReport)
    num_bytes: int = 0
    resident_pages: int = 0
    deletion_seconds: float | None = None

    @classmethod
    def of(cls, row: Any) -> RankSample:
        """Read the sample that another rank has packed."""
        return _codec().validate_python(row)

    def packed(self) -> Any:
        """The sample as JSON, to be sent to rank 0: by name, without what has its default."""
        return _codec().dump_python(self, mode="json", exclude_defaults=True)

    @property
    def ready_seconds(self) -> float | None:
        """Time in which the busiest thread needed a CPU, with or without having one; None where it is not known."""
        if self.running_seconds is None or self.delay_seconds is None:
            return None
        return self.running_seconds + self.delay_seconds


@functools.cache
def _codec() -> TypeAdapter[RankSample]:
    return TypeAdapter(RankSample)


@dataclass(frozen=True, slots=True)
class OperationSample:
    """One write or restore of one repetition: the samples of all ranks that took part, in their order."""

    ranks: tuple[RankSample, ...]

    @property
    def seconds(self) -> float:
        """Seconds from the common start to the end of the slowest rank."""
        return max(rank.seconds for rank in self.ranks)

    @property
    def slowest(self) -> int:
        """The index of the slowest rank."""
        return [rank.seconds for rank in self.ranks].index(self.seconds)

    @property
    def start_spread_seconds(self) -> float:
        """Seconds from the first start of a rank to the last."""
        late_seconds = [rank.late_seconds for rank in self.ranks]
        return max(late_seconds) - min(late_seconds)

    @property
    def rank_bytes(self) -> tuple[int, ...]:
        """Bytes that each rank wrote or read."""
        return tuple(rank.num_bytes for rank in self.ranks)

    @property
    def bytes_per_second(self) -> float:
        """Bytes of all ranks over the time of the slowest."""
        return sum(self.rank_bytes) / self.seconds


def time_operation(
    action: Callable[[], IoReport | None],
    operation: Operation,
    writers: Writers,
    *,
    directory: Path | None,
    doing: str,
) -> RankSample:
    """Run `action` on all ranks at once, and measure this one.

    It returns once all ranks of this node have ended. Args: `operation` and `directory`, where the target is one, say
    which counters to read before and after. Raises what `action` raises, and what ProcessGroup.start raises for peers.
    """
    group = writers.group
    start = group.start(doing=doing)
    read = functools.partial(read_counters, operation, directory, is_first_of_node=writers.is_first_of_node)
    before = read()
    with ThreadWatch() as watch:
        interruption.sleep(max(0.0, start.instant - group.now()))
        started = group.now()
        report = action()
        ended = group.now()
    counted, busiest = read().since(before), watch.busiest
    # The counters of a node count for all of its ranks, so for as long as any of them moves data.
    group.gather_on_node(None, doing=doing)
    until_all_ended = read().since(before)
    link_seconds = max(until_all_ended.link_seconds.values(), default=None)
    return RankSample(
        seconds=ended - start.instant,
        late_seconds=started - start.instant,
        clock_error_seconds=start.error_seconds,
        cpu_seconds=counted.cpu_seconds,
        counted_bytes=until_all_ended.num_bytes,
        # Short numbers: those of all ranks pass rank 0.
        running_seconds=round(busiest.running_seconds, _DIGITS) if busiest else None,
        delay_seconds=round(busiest.delay_seconds, _DIGITS) if busiest else None,
        throttled_seconds=round(max(counted.throttled_seconds.values(), default=0.0), _DIGITS),
        link_seconds=None if link_seconds is None else round(link_seconds, _DIGITS),
        report=report or IoReport(),
    )


def gather_samples(own: RankSample, ranks: Writers, *, doing: str) -> OperationSample | None:
    """Gather the samples of all `ranks` on rank 0; None on the others. Raises as ProcessGroup."""
    rows = ranks.gather(None if ranks.index is None else own.packed(), doing=doing)
    return OperationSample(tuple(map(RankSample.of, rows))) if rows else None
