"""The saves of a workload, then its restores: all checkpoints are on disk before the first is read."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from io_bench.campaign.corrupt_data import raise_where_corrupt
from io_bench.engines import EnginePlan, IoReport
from io_bench.mlperf.part_files import PartFiles
from io_bench.payload.payload import ResidentPayload, StreamedPayload
from io_bench.planning.plan import Plan
from io_bench.repetition.corrupt import found_corrupt
from io_bench.repetition.counters import Reading, reading
from io_bench.repetition.part import Part, WaitingPart, WritingPart
from io_bench.repetition.stopwatch import Timing, timed
from io_bench.shapes.retention import Replacing
from io_bench.target.lifecycle.dismantling import FilesOf
from io_bench.target.run_files import RunFiles
from io_bench.terminal import StepProgress
from sizing.storage.measurement import Operation


@dataclass(frozen=True, slots=True)
class Rounds:
    """What was timed, of all processes. `resident_pages` were in the page cache as restores began: 0 for cold reads."""

    writes: tuple[Timing, ...]
    restores: tuple[Timing, ...]
    disk_bytes: int
    resident_pages: int


@dataclass(frozen=True, slots=True)
class _Bench:
    plan: Plan
    parts: Sequence[Part]
    directory: Path | None
    progress: StepProgress

    def write(self, number: int) -> _Saved:
        """A save."""
        part = self.parts[number]
        checksum = part.refilled(number)
        self.progress.begin("writing")
        timing = self._timed(part.write, "write", doing="writing")
        num_bytes = sum(self.plan.writers.gathered(part.num_bytes(), doing="counting bytes on disk"))
        self._end(timing, num_bytes)
        return _Saved(timing, checksum, num_bytes)

    def dropped(self, number: int) -> int:
        """On rank 0 pages of a save that stay in any node's memory although the page cache was dropped."""
        pages = self.parts[number].drop(self._own(number))
        return sum(self.plan.writers.gathered(pages, doing="dropping the page cache"))

    def restore(self, number: int, saved: _Saved) -> Timing | None:
        """On rank 0 the time of a restore of what each process has written, compared outside of it."""
        part, own, writers = self.parts[number], self._own(number), self.plan.writers
        self.progress.begin("restoring")
        timing = self._timed(lambda: part.restore(own), "restore", doing="restoring")
        self._end(timing, saved.num_bytes)
        evidence = part.check(own, saved.checksum)
        part.forget()
        found = found_corrupt(evidence, part, names=own.files, repetition=number, writers=writers)
        raise_where_corrupt(found, writers.group)
        return timing

    def _timed(self, action: Callable[[], IoReport], operation: Operation, *, doing: str) -> Timing | None:
        return timed(action, self.plan.writers, doing=doing, read=lambda: self._reading(operation)).timing

    def _end(self, timing: Timing | None, num_bytes: int) -> None:
        if timing:
            self.progress.end(num_bytes / timing.seconds)

    def _own(self, number: int) -> EnginePlan:
        return PartFiles.numbered(self.plan.own.engine_plan if self.plan.own else self.plan.source_plan, number)

    def _reading(self, operation: Operation) -> Reading:
        return reading(operation, self.directory, is_first_of_node=self.plan.writers.is_first_of_node)


@dataclass(frozen=True, slots=True)
class _Saved:
    """A save: the checksum of this rank's part; on rank 0 its time, and the bytes on disk of all processes."""

    timing: Timing | None
    checksum: str
    num_bytes: int


def rounds(
    plan: Plan,
    engine: PartFiles,
    files: RunFiles,
    *,
    directory: Path | None,
    seed: int,
    num_checkpoints: int,
    progress: StepProgress,
) -> Rounds | None:
    """So many saves, then as many restores, in the same order; on rank 0 what was timed.

    Each save has bytes of its own. Args: `directory` to measure, where the target is one. Raises as Part, and as
    ProcessGroup.
    """
    files.tune(plan.transfer)
    numbers = range(num_checkpoints)
    with contextlib.closing(engine):
        bench = _Bench(plan, _parts(plan, engine, files, seed=seed, count=num_checkpoints), directory, progress)
        saved = [bench.write(number) for number in numbers]
        pages = sum(bench.dropped(number) for number in numbers)
        restores = [bench.restore(number, saved[number]) for number in numbers]
    writes = tuple(each.timing for each in saved if each.timing)
    return Rounds(writes, tuple(filter(None, restores)), saved[0].num_bytes, pages) if writes else None


def files_of(plan: Plan, num_checkpoints: int) -> FilesOf:
    """The files of all saves that a rank of the group makes."""
    return lambda rank: tuple(f"{number}.{name}" for number in range(num_checkpoints) for name in plan.files_of(rank))


def _parts(plan: Plan, engine: PartFiles, files: RunFiles, *, seed: int, count: int) -> list[Part]:
    """What this rank does in each of the saves, all of one payload."""
    own, index = plan.own, plan.writers.index
    if own is None or index is None:
        return [WaitingPart() for _ in range(count)]
    payload = ResidentPayload(own.inventory, seed=seed, rank=index, device=plan.device.name)
    engine.prepare(payload, own.engine_plan, device=plan.device, writers=plan.writers)
    return [
        WritingPart(
            replace(own, engine_plan=engine.numbered(own.engine_plan, number)),
            engine=engine,
            payload=payload,
            source_payload=functools.partial(StreamedPayload, own.inventory, seed=seed, rank=index),
            retention=Replacing(files, ()),
            device=plan.device,
            rank=plan.writers.group.rank,
        )
        for number in range(count)
    ]
