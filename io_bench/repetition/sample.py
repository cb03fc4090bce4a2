"""One repetition: write a checkpoint, drop it from the page cache, restore it, compare it, all ranks together."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

from io_bench.engines import EnginePlan, IoReport
from io_bench.planning.plan import Plan
from io_bench.repetition.counters import Reading, reading
from io_bench.repetition.part import Part
from io_bench.repetition.stopwatch import Timing, timed
from io_bench.terminal import StepProgress
from sizing.storage.measurement import Operation

_NULL_SINK_REPETITIONS = 3
"""The fastest counts, and memory is steadier than storage."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one repetition gave, with one entry per writer.

    `rank_bytes` are on disk. `written_pages` were in the page cache after a direct write: 0 where it was one.
    `resident_pages` were there when the restore began: 0 for a cold read. `moved_bytes` were written and read, those
    included that were read again to be compared; `elapsed_seconds` is all of it, from the payload to the comparison.
    """

    write: Timing
    restore: Timing
    write_reports: tuple[IoReport, ...]
    restore_reports: tuple[IoReport, ...]
    rank_bytes: tuple[int, ...]
    written_pages: tuple[int, ...]
    resident_pages: tuple[int, ...]
    moved_bytes: int
    elapsed_seconds: float


@dataclass(frozen=True, slots=True)
class Bench:
    """What stays the same from one repetition of a configuration to the next, on one rank."""

    plan: Plan
    part: Part
    directory: Path | None
    progress: StepProgress

    def sample(self, repetition: int) -> Sample:
        """Write and restore once. The files stay until the next repetition. Raises as Part, and as ProcessGroup."""
        writers, source, begun = self.plan.writers, self._source, time.monotonic()
        written = writers.exchange(self.part.begin(repetition), doing="generating the payload")
        self.progress.begin("writing")
        write_report, write = timed(self.part.write, writers, doing="writing", read=lambda: self._reading("write"))
        rank_bytes = writers.exchange(self.part.num_bytes(), doing="counting bytes on disk")
        self.progress.end(sum(rank_bytes) / write.seconds)
        left_pages = self.part.resident_pages() if write_report.is_direct else 0
        written_pages = writers.exchange(left_pages, doing="counting cached pages")
        resident_pages = writers.exchange(self.part.drop(source), doing="dropping the page cache")
        self.progress.begin("restoring")
        restore_report, restore = timed(
            lambda: self.part.restore(source), writers, doing="restoring", read=lambda: self._reading("restore")
        )
        self.progress.end(sum(rank_bytes) / restore.seconds)
        self.part.check(source, written[self.plan.source_index])
        return Sample(
            write,
            restore,
            self._reports(write_report),
            self._reports(restore_report),
            tuple(rank_bytes),
            tuple(written_pages),
            tuple(resident_pages),
            moved_bytes=self.plan.num_passes * sum(rank_bytes),
            elapsed_seconds=time.monotonic() - begun,
        )

    def null_sink(self) -> Timing:
        """How long the last payload takes when the writes are discarded: the best of three, as the client could."""
        return min((self._discarded() for _ in range(_NULL_SINK_REPETITIONS)), key=lambda timing: timing.seconds)

    def snapshot(self) -> Timing | None:
        """How long the last payload takes from GPUs to host memory; None where it is in host memory already."""
        writers, plan = self.plan.writers, self.plan
        if not plan.device.is_gpu or any(each.is_streamed for each in plan.engine_plans):
            return None
        copy = self.part.snapshot()
        return timed(copy, writers, doing="copying to host memory", read=lambda: self._reading("write"))[1]

    def _discarded(self) -> Timing:
        writers = self.plan.writers
        return timed(self.part.discard, writers, doing="discarding", read=lambda: self._reading("write"))[1]

    @property
    def _source(self) -> EnginePlan:
        return self.plan.engine_plans[self.plan.source_index]

    def _reading(self, operation: Operation) -> Reading:
        return reading(operation, self.directory, is_first_of_node=self.plan.writers.is_first_of_node)

    def _reports(self, report: IoReport) -> tuple[IoReport, ...]:
        rows = self.plan.writers.exchange(dataclasses.asdict(report), doing="reporting")
        return tuple(IoReport(**row | {"notices": tuple(row["notices"])}) for row in rows)
