"""One operation in all repetitions that count, as the figures of a measurement are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from io_bench.engines import IoReport
from io_bench.planning.plan import Plan
from io_bench.repetition.repeating import Samples
from io_bench.repetition.sample import Sample, steadiness_of
from io_bench.repetition.steadiness import Steadiness
from io_bench.repetition.stopwatch import Timing
from sizing.storage.measurement import Operation, median_bytes_per_second


@dataclass(frozen=True)
class Series:
    """The writes, or the restores."""

    samples: Samples
    operation: Operation

    @property
    def plan(self) -> Plan:
        """What was to be done in each."""
        return self.samples.plan

    @property
    def is_write(self) -> bool:
        """Whether it is the writes."""
        return self.operation == "write"

    @cached_property
    def timings(self) -> list[Timing]:
        """Of each repetition."""
        return [self.timing_of(sample) for sample in self.samples.kept]

    @cached_property
    def reports(self) -> list[tuple[IoReport, ...]]:
        """Of each repetition and rank."""
        return [sample.write_reports if self.is_write else sample.restore_reports for sample in self.samples.kept]

    @property
    def rank_bytes(self) -> tuple[int, ...]:
        """On disk, of each rank."""
        return self.samples.kept[-1].rank_bytes

    @property
    def seconds(self) -> list[float]:
        """To the end of the slowest rank."""
        return [timing.seconds for timing in self.timings]

    @property
    def rank_seconds(self) -> list[list[float]]:
        """To the end of each rank."""
        return [list(timing.rank_seconds) for timing in self.timings]

    @property
    def bytes_per_second(self) -> float:
        """Of all ranks together."""
        return median_bytes_per_second(sum(self.rank_bytes), self.seconds)

    @cached_property
    def steadiness(self) -> Steadiness:
        """Over all that was moved, the warm-up included."""
        return steadiness_of([self.samples.warm_up, *self.samples.kept], self.operation)

    def timing_of(self, sample: Sample) -> Timing:
        """Of one repetition."""
        return sample.write if self.is_write else sample.restore
