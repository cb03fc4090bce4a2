"""One repetition: write a checkpoint, drop it from the page cache, restore it, compare it, all ranks together."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from io_bench import interruption
from io_bench.engines import EnginePlan, IoReport
from io_bench.planning.plan import Plan
from io_bench.repetition.corrupt import found_corrupt
from io_bench.repetition.counters import Reading, reading
from io_bench.repetition.part import Part
from io_bench.repetition.steadiness import Pieces, Steadiness, pieces_of, steadiness
from io_bench.repetition.stopwatch import Timed, Timing, timed
from io_bench.shapes.companies import MIN_ALONE_SECONDS
from io_bench.shapes.company import Beside, Company
from io_bench.shapes.restores import RESTORES
from io_bench.terminal import StepProgress
from sizing.storage.corruption import Corruption
from sizing.storage.measurement import Operation

MAX_FSYNC_FRACTION = 0.10
"""Of a write. Where fsync takes more, the storage had not yet taken what requests had given."""
_NULL_SINK_REPETITIONS = 3
"""The fastest counts, and memory is steadier than storage."""


@dataclass(frozen=True, slots=True)
class InCompany:
    """What ran beside a save, in its units per second over all writers: alone and with it; and the save without it."""

    alone_rate: float
    rate: float
    save_alone_seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What one repetition gave, with one entry per writer.

    `rank_bytes` are on disk. `written_pages` were in the page cache after a direct write: 0 where it was one.
    `resident_pages` were there when the restore began: 0 for a cold read. `moved_bytes` were written and read, those
    included that were read again to be compared; `elapsed_seconds` is all of it, from the payload to the comparison.
    `read_bytes` are what each rank that restored has read. `deletion_seconds` has the removals that belong to the save.
    `company` is what ran beside the save. `as_saved_seconds` are those of a restore by the ranks that saved, where
    others restore too. `corruption` is what did not come back as it was written.
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
    corruption: tuple[Corruption, ...] = ()
    read_bytes: tuple[int, ...] = ()
    deletion_seconds: tuple[float, ...] = ()
    company: InCompany | None = None
    as_saved_seconds: float | None = None

    def pieces(self, operation: Operation) -> Pieces:
        """The write or the restore, in pieces where requests show how it went.

        Requests of a buffered write show how memory took the bytes; the storage took them until fsync returned.
        """
        timing, reports = (
            (self.write, self.write_reports) if operation == "write" else (self.restore, self.restore_reports)
        )
        waited = max((report.phase_seconds.get("fsync", 0.0) for report in reports), default=0.0)
        is_shown = waited < MAX_FSYNC_FRACTION * timing.seconds
        requests = [report.requests for report in reports] if is_shown else []
        moved_bytes = self.rank_bytes if operation == "write" else self.read_bytes or self.rank_bytes
        return pieces_of(requests, total_bytes=sum(moved_bytes), seconds=timing.seconds)


def steadiness_of(samples: Sequence[Sample], operation: Operation) -> Steadiness:
    """Of the writes or the restores of all samples, in the order in which they ran."""
    return steadiness([sample.pieces(operation) for sample in samples])


@dataclass(frozen=True, slots=True)
class Bench:
    """What stays the same from one repetition of a configuration to the next, on one rank."""

    plan: Plan
    part: Part
    directory: Path | None
    progress: StepProgress
    company: Company | None = None

    def sample(self, repetition: int) -> Sample | None:
        """Write and restore once; on rank 0 the sample. The files stay until the next repetition.

        Raises as Part, and as ProcessGroup.
        """
        interruption.heed()
        group, begun = self.plan.writers.group, time.monotonic()
        apart = self._apart(repetition) if self.plan.configuration.beside else None
        written = self._of_source(self.part.begin(repetition))
        self.progress.begin("writing")
        write = timed(
            self._written, self.plan.writers, doing="writing", read=lambda: self._reading("write"), report=_in_company
        )
        group.told(None, doing="writing")
        # Whichever comes first may leave more in the caches of storage: it is one, then the other.
        is_resharded, is_first = self.plan.restoring is not None, repetition % 2 == 0
        as_saved = self._as_saved() if is_resharded and is_first else None
        after = self._after_write(write)
        self.progress.begin("restoring")
        restore = self._timed(lambda: self.part.restore(self._source), "restore", doing="restoring")
        rank_bytes = tuple(after[rank].num_bytes for rank in self.plan.writers.ranks) if after else ()
        read_bytes = tuple(self._read_bytes(rank_bytes, restore.reports))
        if restore.timing:
            self.progress.end(sum(read_bytes) / restore.timing.seconds)
        group.told(None, doing="restoring")
        as_saved = self._as_saved() if is_resharded and not is_first else as_saved
        evidence = self.part.check(self._source, written)
        corruption = found_corrupt(
            evidence, self.part, names=self._source.files, repetition=repetition, writers=self.plan.readers
        )
        if write.timing is None or restore.timing is None:
            return None
        reports, rates = zip(*write.reports, strict=True)
        return Sample(
            write.timing,
            restore.timing,
            _reports(reports),
            _reports(restore.reports),
            rank_bytes,
            written_pages=tuple(after[rank].left_pages for rank in self.plan.writers.ranks),
            resident_pages=tuple(after[rank].resident_pages for rank in self.plan.readers.ranks),
            moved_bytes=self._moved_bytes(repetition, sum(rank_bytes), sum(read_bytes)),
            elapsed_seconds=time.monotonic() - begun,
            corruption=corruption,
            read_bytes=read_bytes,
            deletion_seconds=tuple(row.deletion_seconds for row in after if row.deletion_seconds is not None),
            as_saved_seconds=as_saved.seconds if as_saved else None,
            company=apart and InCompany(apart.alone_rate, sum(rates), apart.save_alone_seconds),
        )

    def null_sink(self) -> Timing | None:
        """On rank 0 how long the last payload takes with writes discarded: the best of three, as the client could."""
        timings = [self._discarded() for _ in range(_NULL_SINK_REPETITIONS)]
        return min(filter(None, timings), key=lambda timing: timing.seconds, default=None)

    def snapshot(self) -> Timing | None:
        """On rank 0 how long the last payload takes from GPUs to host memory; None where it is there already."""
        if not self.plan.device.is_gpu or self.plan.is_streamed:
            return None
        copy, writers = self.part.snapshot(), self.plan.writers
        return timed(copy, writers, doing="copying to host memory", read=lambda: self._reading("write")).timing

    def _timed(self, action: Callable[[], IoReport], operation: Operation, *, doing: str) -> Timed[IoReport]:
        read = functools.partial(self._reading, operation)
        ranks = self.plan.writers if operation == "write" else self.plan.readers
        return timed(action, ranks, doing=doing, read=read, report=dataclasses.asdict)

    def _written(self) -> Beside:
        """A save, beside what runs with it, if anything does."""
        return self.company.beside(self.part.write) if self.company else Beside(self.part.write(), 0.0)

    def _apart(self, repetition: int) -> InCompany | None:
        """On rank 0, a save with nothing beside it, and what runs beside it for as long, alone."""
        group = self.plan.writers.group
        self.part.begin(_apart_from(repetition))
        saved = self._timed(self.part.write, "write", doing="writing alone").timing
        self.part.settle()
        seconds = group.told(saved and max(saved.seconds, MIN_ALONE_SECONDS), doing="writing alone")
        rate = self.company.alone(seconds) if self.company else 0.0
        rates = self.plan.writers.gathered(rate, doing=f"running {self.plan.configuration.beside} alone")
        return InCompany(sum(rates), 0.0, saved.seconds) if saved else None

    def _as_saved(self) -> Timing | None:
        """On rank 0 a restore by the ranks that saved, each its own, which is not in the page cache."""
        self.part.settle()
        self.part.drop(self._source)
        read = functools.partial(self._reading, "restore")
        timing = timed(self.part.restore_as_saved, self.plan.writers, doing="restoring as saved", read=read).timing
        self.plan.writers.group.told(None, doing="restoring as saved")
        return timing

    def _moved_bytes(self, repetition: int, written_bytes: int, read_bytes: int) -> int:
        """Of a repetition: saves, that with nothing beside it too, and restores; in the first what fills the slots."""
        num_saves = 2 if self.plan.configuration.beside else 1
        num_fills = self.plan.num_checkpoints - 1 if repetition == 0 else 0
        as_saved_bytes = written_bytes if self.plan.restoring is not None else 0
        return (num_saves + num_fills) * written_bytes + (self.plan.num_passes - 1) * read_bytes + as_saved_bytes

    def _read_bytes(self, rank_bytes: Sequence[int], reports: Sequence[dict[str, Any]]) -> Iterator[int]:
        """What each rank that restores reads of the files that the writers have made; resharded, what it asked for."""
        if self.plan.restoring is not None:
            yield from (sum(report["requests"]["bin_bytes"]) for report in reports)
            return
        num_shards, strategy = len(self.plan.writers.ranks), self.plan.configuration.restore
        if strategy is None or not rank_bytes:
            yield from rank_bytes
            return
        for index in range(len(self.plan.readers.ranks)):
            replica, shard = divmod(index, num_shards)
            num_replicas = self.plan.configuration.num_replicas
            yield RESTORES[strategy].read_bytes(rank_bytes[shard], replica, num_replicas=num_replicas)

    def _after_write(self, write: Timed[Beside]) -> list[_AfterWrite]:
        """On rank 0 what each rank of the group found, once what was to go with the save is gone."""
        self.part.settle()
        num_bytes = self.part.num_bytes()
        left_pages = self.part.resident_pages() if write.result.report.is_direct else 0
        own = [num_bytes, left_pages, self.part.drop(self._source), self.part.deletion_seconds]
        rows = self.plan.writers.group.gathered(own, doing="dropping the page cache")
        if write.timing:
            self.progress.end(sum(row[0] for row in rows) / write.timing.seconds)
        return [_AfterWrite(*row) for row in rows]

    def _of_source(self, written: str) -> str:
        """The checksum of what this rank will restore: of its own payload, or of that of another writer."""
        writers = self.plan.writers
        if not self.plan.restores_from_other_node and self.plan.replicas is None:
            return written
        source = writers.ranks[self.plan.source_index]
        return str(writers.group.from_peer(written, source, doing="generating the payload"))

    def _discarded(self) -> Timing | None:
        return timed(
            self.part.discard, self.plan.writers, doing="discarding", read=lambda: self._reading("write")
        ).timing

    @property
    def _source(self) -> EnginePlan:
        return self.plan.source_plan

    def _reading(self, operation: Operation) -> Reading:
        return reading(operation, self.directory, is_first_of_node=self.plan.writers.is_first_of_node)


class _AfterWrite(NamedTuple):
    """What a rank finds after a save: bytes on disk, pages left by a direct write, pages that stayed, deletion."""

    num_bytes: int
    left_pages: int
    resident_pages: int
    deletion_seconds: float | None


def _apart_from(repetition: int) -> int:
    """The number of the payload that is saved alone, which no repetition has."""
    return -1 - repetition


def _in_company(beside: Beside) -> list[Any]:
    return [dataclasses.asdict(beside.report), beside.rate]


def _reports(rows: Sequence[dict[str, Any]]) -> tuple[IoReport, ...]:
    return tuple(map(IoReport.of, rows))
