"""One repetition: write a checkpoint, drop it from the page cache, restore it, compare it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from io_bench.engines import Engine, IoReport, Restored
from io_bench.errors import RunFailed, explained_io_errors
from io_bench.payload import ResidentPayload, checksum
from io_bench.plan import RunPlan
from io_bench.process_group import ProcessGroup
from io_bench.run_files import RunFiles
from io_bench.stopwatch import Timing, timed
from io_bench.terminal import RunProgress


@dataclass(frozen=True, slots=True)
class Sample:
    """What one repetition gave, with one entry per rank.

    `rank_bytes` are on disk. `resident_pages` were in memory when the restore began: 0 for a cold read.
    """

    write: Timing
    restore: Timing
    write_reports: tuple[IoReport, ...]
    restore_reports: tuple[IoReport, ...]
    rank_bytes: tuple[int, ...]
    resident_pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bench:
    """What stays the same from one repetition to the next."""

    plan: RunPlan
    engine: Engine
    payload: ResidentPayload
    files: RunFiles
    group: ProcessGroup
    progress: RunProgress

    def sample(self, repetition: int) -> Sample:
        """Write and restore once, on all ranks. The files stay until the next repetition.

        Raises RunFailed where what was restored is not what was written, InvalidInput where the target
        is full, RunFailed for other errors of input and output.
        """
        with explained_io_errors("removing the previous checkpoint", rank=self.group.rank):
            self.files.remove_created()
        self.payload.refill(repetition)
        written = checksum(self.payload.state)
        written_report, write = self._timed_write()
        rank_bytes = self.group.exchange(self._bytes_on_disk(), doing="counting bytes on disk")
        self.progress.end(sum(rank_bytes) / max(write.rank_seconds))
        resident_pages = self.group.exchange(self._drop_from_page_cache(), doing="dropping cached pages")
        restored, restore = self._timed_restore()
        self.progress.end(sum(rank_bytes) / max(restore.rank_seconds))
        if restored.state is None or checksum(restored.state) != written:
            raise RunFailed(
                f"Verification failed: what rank {self.group.rank} restored from {self._names()} in "
                f"repetition {repetition} is not what it wrote. Do not trust this storage with checkpoints."
            )
        return Sample(
            write,
            restore,
            self._reports_of_ranks(written_report),
            self._reports_of_ranks(restored.report),
            tuple(rank_bytes),
            tuple(resident_pages),
        )

    def _timed_write(self) -> tuple[IoReport, Timing]:
        def write() -> IoReport:
            with explained_io_errors(f"writing {self._names()}", rank=self.group.rank):
                return self.engine.write(self.payload, self.files, self.plan.engine_plan)

        self.plan.device.synchronize()
        self.progress.begin("writing")
        return timed(write, self.group, doing="writing")

    def _timed_restore(self) -> tuple[Restored, Timing]:
        def restore() -> Restored:
            with explained_io_errors(f"reading {self._names()}", rank=self.group.rank):
                restored = self.engine.restore(self.files, self.plan.engine_plan, self.plan.device)
            self.plan.device.synchronize()
            return restored

        self.progress.begin("restoring")
        return timed(restore, self.group, doing="restoring")

    def _reports_of_ranks(self, report: IoReport) -> tuple[IoReport, ...]:
        rows = self.group.exchange(dataclasses.asdict(report), doing="reporting")
        return tuple(IoReport(**row | {"notices": tuple(row["notices"])}) for row in rows)

    def _bytes_on_disk(self) -> int:
        with explained_io_errors(f"looking at {self._names()}", rank=self.group.rank):
            return self.engine.bytes_on_disk(self.files, self.plan.engine_plan)

    def _drop_from_page_cache(self) -> int:
        """Pages of this rank's files that stay in memory."""
        with explained_io_errors(f"dropping {self._names()} from memory", rank=self.group.rank):
            return sum(map(self.files.drop_from_memory, self.plan.engine_plan.files))

    def _names(self) -> str:
        return ", ".join(map(self.files.location, self.plan.engine_plan.files))
