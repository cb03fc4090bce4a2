"""One repetition: write a checkpoint, drop it from the page cache, restore it, compare it, all ranks together."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from io_bench import interruption
from io_bench.engines import IoReport
from io_bench.measure.corruption import gather_corruption
from io_bench.measure.plan import MeasurementPlan
from io_bench.measure.rank_roles import RankRole
from io_bench.measure.steadiness import DISTURBED_FRACTION, Pieces, Steadiness, pieces_of, steadiness
from io_bench.measure.stopwatch import OperationSample, RankSample, gather_samples, time_operation
from io_bench.terminal import StepProgress
from io_bench.workloads.background_kinds import MIN_ALONE_SECONDS
from io_bench.workloads.background_load import BackgroundLoad
from io_bench.workloads.restores import RESTORES
from sizing.storage.measurement import Operation
from sizing.storage.run_events import Corruption

MAX_FSYNC_FRACTION = 0.10
"""Max part of a write that fsync may take for its requests to show the storage: beyond it, memory took the bytes."""
_NULL_SINK_REPETITIONS = 3
"""The fastest counts, and memory is steadier than storage."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The background load and a save, each measured without the other; the load in its units over all writers."""

    background_rate: float
    save_seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """The write and the restore of one repetition, on rank 0.

    `moved_bytes` were written and read, those included that were read again to be compared; `elapsed_seconds` is all
    of it, from the payload to the comparison. `corruption` is what did not come back as it was written. `alone` is
    there where something ran beside the save. `as_saved_seconds` are those of a restore by the ranks that saved, where
    others restore too.
    """

    write: OperationSample
    restore: OperationSample
    moved_bytes: int
    elapsed_seconds: float
    corruption: tuple[Corruption, ...] = ()
    alone: Alone | None = None
    as_saved_seconds: float | None = None

    def of(self, operation: Operation) -> OperationSample:
        """The write or the restore."""
        return self.write if operation == "write" else self.restore


def pieces(operation: OperationSample) -> Pieces:
    """Cut a write or a restore into pieces, where requests show how it went.

    Requests of a buffered write show how memory took the bytes; the storage took them until fsync returned.
    """
    reports = [rank.report for rank in operation.ranks]
    waited = max((report.phase_seconds.get("fsync", 0.0) for report in reports), default=0.0)
    requests = [report.requests for report in reports] if waited < MAX_FSYNC_FRACTION * operation.seconds else []
    cut = pieces_of(requests, total_bytes=sum(operation.rank_bytes), seconds=operation.seconds)
    without_cpu = max(max(rank.delay_seconds or 0.0, rank.throttled_seconds) for rank in operation.ranks)
    return replace(cut, is_disturbed=without_cpu > DISTURBED_FRACTION * operation.seconds)


def steadiness_of(samples: Sequence[Sample], operation: Operation) -> Steadiness:
    """Whether the writes or the restores of all samples kept their rate, in the order in which they ran."""
    return steadiness([pieces(sample.of(operation)) for sample in samples])


@dataclass(frozen=True, slots=True)
class Bench:
    """The plan, the role and the background load of one rank, the same for all repetitions of a configuration."""

    plan: MeasurementPlan
    role: RankRole
    directory: Path | None
    progress: StepProgress
    background: BackgroundLoad | None = None

    def sample(self, repetition: int) -> Sample | None:
        """Write and restore once; on rank 0 the sample. The files stay until the next repetition.

        Raises as RankRole, and as ProcessGroup.
        """
        interruption.heed()
        group, started, source = self.plan.writers.group, time.monotonic(), self.plan.source_plan
        alone = self._measure_alone(repetition) if self.plan.configuration.beside else None
        checksum = self._checksum_of_source(self.role.begin(repetition))
        self.progress.begin("writing")
        save = self.background.beside if self.background else (lambda action: action())
        own_write = self._time(lambda: save(self.role.write), "write", doing="writing")
        group.meet(doing="writing")
        # Whichever comes first may leave more in the caches of storage: it is one, then the other.
        is_resharded, is_first = self.plan.restoring is not None, repetition % 2 == 0
        as_saved_seconds = self._time_as_saved() if is_resharded and is_first else None
        self.role.settle()
        own_write = replace(
            own_write,
            num_bytes=self.role.num_bytes(),
            resident_pages=self.role.resident_pages() if own_write.report.is_direct else 0,
            deletion_seconds=self.role.deletion_seconds,
        )
        stayed_pages = self.role.drop(source)
        write = gather_samples(own_write, self.plan.writers, doing="dropping the page cache")
        if write:
            self.progress.end(write.bytes_per_second)
        self.progress.begin("restoring")
        own_restore = self._time(lambda: self.role.restore(source), "restore", doing="restoring")
        own_restore = replace(own_restore, resident_pages=stayed_pages)
        restore = gather_samples(own_restore, self.plan.readers, doing="restoring")
        if write and restore:
            num_bytes = self._count_read_bytes(write, restore)
            restore = OperationSample(
                tuple(replace(rank, num_bytes=each) for rank, each in zip(restore.ranks, num_bytes, strict=True))
            )
            self.progress.end(restore.bytes_per_second)
        group.broadcast(None, doing="restoring")
        as_saved_seconds = self._time_as_saved() if is_resharded and not is_first else as_saved_seconds
        evidence = self.role.check(source, checksum)
        corruption = gather_corruption(
            evidence, self.role, names=source.files, repetition=repetition, writers=self.plan.readers
        )
        if write is None or restore is None:
            return None
        return Sample(
            write,
            restore,
            moved_bytes=self._count_moved_bytes(repetition, sum(write.rank_bytes), sum(restore.rank_bytes)),
            elapsed_seconds=time.monotonic() - started,
            corruption=corruption,
            alone=alone,
            as_saved_seconds=as_saved_seconds,
        )

    def null_sink_seconds(self) -> float | None:
        """Time the last payload with writes discarded: on rank 0 the best of three, which the client could reach."""
        times = [
            self._slowest_seconds(self.role.discard, "write", doing="discarding") for _ in range(_NULL_SINK_REPETITIONS)
        ]
        return min(filter(None, times), default=None)

    def snapshot_seconds(self) -> float | None:
        """Time the copy of the last payload from GPUs to host memory, on rank 0; None where it is there already."""
        if not self.plan.device.is_gpu or self.plan.is_streamed:
            return None
        return self._slowest_seconds(self.role.snapshot(), "write", doing="copying to host memory")

    def _time(self, action: Callable[[], IoReport | None], operation: Operation, *, doing: str) -> RankSample:
        return time_operation(action, operation, self.plan.writers, directory=self.directory, doing=doing)

    def _slowest_seconds(
        self, action: Callable[[], IoReport | None], operation: Operation, *, doing: str
    ) -> float | None:
        """Time an action that is not kept as a sample; on rank 0 the seconds of the slowest writer."""
        seconds = self._time(action, operation, doing=doing).seconds
        return max(self.plan.writers.gather(seconds, doing=doing), default=None)

    def _measure_alone(self, repetition: int) -> Alone | None:
        """Save with nothing beside, and run the background load alone for as long; on rank 0 both."""
        group = self.plan.writers.group
        self.role.begin(-1 - repetition)  # a payload that no repetition has
        save_seconds = self._slowest_seconds(self.role.write, "write", doing="writing alone")
        self.role.settle()
        seconds = group.broadcast(save_seconds and max(save_seconds, MIN_ALONE_SECONDS), doing="writing alone")
        rate = self.background.alone(seconds) if self.background else 0.0
        rates = self.plan.writers.gather(rate, doing=f"running {self.plan.configuration.beside} alone")
        return Alone(sum(rates), save_seconds) if save_seconds is not None else None

    def _time_as_saved(self) -> float | None:
        """Time a restore by the ranks that saved, of their own files, outside the page cache; on rank 0 the seconds."""
        self.role.settle()
        self.role.drop(self.plan.source_plan)
        seconds = self._slowest_seconds(self.role.restore_as_saved, "restore", doing="restoring as saved")
        self.plan.writers.group.broadcast(None, doing="restoring as saved")
        return seconds

    def _count_moved_bytes(self, repetition: int, written_bytes: int, read_bytes: int) -> int:
        """Count the bytes that a repetition moved: all saves, also the one that runs alone, and all restores.

        The first repetition also fills the slots of the checkpoints that stay.
        """
        num_saves = 2 if self.plan.configuration.beside else 1
        num_fills = self.plan.num_checkpoints - 1 if repetition == 0 else 0
        as_saved_bytes = written_bytes if self.plan.restoring is not None else 0
        return (num_saves + num_fills) * written_bytes + (self.plan.num_passes - 1) * read_bytes + as_saved_bytes

    def _count_read_bytes(self, write: OperationSample, restore: OperationSample) -> Iterator[int]:
        """Count the bytes that each restoring rank reads of the writers' files; resharded, those of its requests."""
        if self.plan.restoring is not None:
            yield from (sum(rank.report.requests.bin_bytes) for rank in restore.ranks)
            return
        rank_bytes, strategy = write.rank_bytes, self.plan.configuration.restore
        if strategy is None:
            yield from rank_bytes
            return
        num_replicas = self.plan.configuration.num_replicas
        for index in range(len(restore.ranks)):
            replica, shard = divmod(index, len(rank_bytes))
            yield RESTORES[strategy].read_bytes(rank_bytes[shard], replica, num_replicas=num_replicas)

    def _checksum_of_source(self, checksum: str) -> str:
        """Get the checksum of the payload that this rank will restore: its own, or that of another writer."""
        writers = self.plan.writers
        if not self.plan.restores_from_other_node and self.plan.replicas is None:
            return checksum
        source = writers.ranks[self.plan.source_index]
        return str(writers.group.from_peer(checksum, source, doing="generating the payload"))
