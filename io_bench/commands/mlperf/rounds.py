"""Rounds of saves and restores as MLPerf Storage does them, and the files that each process writes for its part."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from io_bench.commands.mlperf.workload import MlperfWorkload
from io_bench.engines import EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.phases import Phases, write_durably
from io_bench.engines.torch_files import loading, save
from io_bench.engines.torch_save import MAX_FIXED_BYTES, TorchSave
from io_bench.measure.configuration import Configuration
from io_bench.measure.corruption import gather_corruption, raise_where_corrupt
from io_bench.measure.plan import MeasurementPlan, check_room, plan_of
from io_bench.measure.rank_roles import IdleRole, RankRole, WriterRole
from io_bench.measure.stopwatch import OperationSample, gather_samples, time_operation
from io_bench.options import MlperfOptions
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import Payload, ResidentPayload, StreamedPayload
from io_bench.ranks.process_group import ProcessGroup
from io_bench.request import Request
from io_bench.target import run_place
from io_bench.target.directory import DirectoryTarget
from io_bench.target.run_place import FilesOf
from io_bench.target.target import RunFiles
from io_bench.terminal import StepProgress, Terminal
from io_bench.workloads.retention import Replacing
from sizing.units import bytes_text


class PartFiles(TorchSave):
    """The engine of MLPerf Storage: as `torch-save`, with a file `PART.pt` for each part of the state dict."""

    name = "mlperf"

    def plan(self, inventory: Inventory, *, rank: int, device: Device) -> EnginePlan:
        """Plan a file for each part; `torch.load` builds a second copy of all of them."""
        whole = super().plan(inventory, rank=rank, device=device)
        parts = list(dict.fromkeys(tensor.part for tensor in inventory.tensors))
        max_disk_bytes = whole.max_disk_bytes + len(parts) * MAX_FIXED_BYTES
        return replace(whole, files=tuple(f"{part}.pt" for part in parts), max_disk_bytes=max_disk_bytes)

    @staticmethod
    def plan_of_save(plan: EnginePlan, number: int) -> EnginePlan:
        """The plan of one of several saves that are kept beside each other."""
        return replace(plan, files=tuple(f"{number}.{name}" for name in plan.files))

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        """Write the files, each durable before the next begins, as in the benchmark."""
        phases = Phases()
        for name in plan.files:
            write_durably(files, name, functools.partial(save, payload.state[_part_of(name)]), phases)
        with phases.phase("commit"):
            files.sync()
        return IoReport(phase_seconds=phases.seconds)

    def write_to_null_sink(self, payload: Payload) -> None:
        """Write each file to a device that takes everything."""
        for state in filter(None, payload.state.values()):
            with Path(os.devnull).open("wb") as sink:
                save(state, sink)

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        """Read the files into memory, one after another."""
        phases, state = Phases(), {}
        for name in plan.files:
            with files.open(name) as opened, phases.phase("read"), loading(opened, files.location(name)) as file:
                loaded = torch.load(file, map_location=device.name, weights_only=True, mmap=False)
            state[_part_of(name)] = loaded
        return Restored(state, IoReport(phase_seconds=phases.seconds))


def _part_of(name: str) -> str:
    """The part of the state that a file holds, by its name with or without the number of a save."""
    return name.removesuffix(".pt").rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class MlperfRounds:
    """The samples of all saves and restores. `resident_pages` were in the page cache before the restores: 0 if cold."""

    writes: tuple[OperationSample, ...]
    restores: tuple[OperationSample, ...]
    disk_bytes: int
    resident_pages: int


@dataclass(frozen=True, slots=True)
class _Bench:
    """Part of one rank in the saves and restores: a role for each save."""

    plan: MeasurementPlan
    roles: Sequence[RankRole]
    directory: Path | None
    progress: StepProgress

    def write(self, number: int) -> _ProcessSave:
        """Save a checkpoint on all processes together."""
        role = self.roles[number]
        checksum = role.refill(number)
        self.progress.begin("writing")
        own = time_operation(role.write, "write", self.plan.writers, directory=self.directory, doing="writing")
        self.plan.writers.group.meet(doing="writing")
        own = replace(own, num_bytes=role.num_bytes())
        sample = gather_samples(own, self.plan.writers, doing="counting bytes on disk")
        if sample:
            self.progress.end(sample.bytes_per_second)
        return _ProcessSave(sample, checksum, own.num_bytes)

    def drop_pages(self, number: int) -> int:
        """Drop a save from the page cache; on rank 0 the pages that stay in any node's memory."""
        pages = self.roles[number].drop(self._own(number))
        return sum(self.plan.writers.gather(pages, doing="dropping the page cache"))

    def restore(self, number: int, save: _ProcessSave) -> OperationSample | None:
        """Restore what each process has written, and compare it out of the clock; on rank 0 the sample."""
        role, own_plan, writers = self.roles[number], self._own(number), self.plan.writers
        self.progress.begin("restoring")
        own = time_operation(
            lambda: role.restore(own_plan), "restore", writers, directory=self.directory, doing="restoring"
        )
        sample = gather_samples(replace(own, num_bytes=save.num_bytes), writers, doing="restoring")
        if sample:
            self.progress.end(sample.bytes_per_second)
        evidence = role.check(own_plan, save.checksum)
        role.forget()
        corruption = gather_corruption(evidence, role, names=own_plan.files, repetition=number, writers=writers)
        raise_where_corrupt(corruption, writers.group)
        return sample

    def _own(self, number: int) -> EnginePlan:
        return PartFiles.plan_of_save(self.plan.own.engine_plan if self.plan.own else self.plan.source_plan, number)


@dataclass(frozen=True, slots=True)
class _ProcessSave:
    """The save of this process: checksum and bytes on disk; on rank 0 also the sample of all processes."""

    sample: OperationSample | None
    checksum: str
    num_bytes: int


def _run_rounds(
    plan: MeasurementPlan,
    engine: PartFiles,
    files: RunFiles,
    *,
    directory: Path | None,
    seed: int,
    num_checkpoints: int,
    progress: StepProgress,
) -> MlperfRounds | None:
    """Save so often, then restore as often in the same order; on rank 0 the samples.

    Each save has bytes of its own. Args: `directory` to measure, where the target is one. Raises as RankRole, and as
    ProcessGroup.
    """
    files.tune(plan.transfer)
    numbers = range(num_checkpoints)
    with contextlib.closing(engine):
        bench = _Bench(plan, _make_roles(plan, engine, files, seed=seed, count=num_checkpoints), directory, progress)
        saves = [bench.write(number) for number in numbers]
        pages = sum(bench.drop_pages(number) for number in numbers)
        restores = [bench.restore(number, saves[number]) for number in numbers]
    writes = tuple(each.sample for each in saves if each.sample)
    return MlperfRounds(writes, tuple(filter(None, restores)), sum(writes[0].rank_bytes), pages) if writes else None


def files_of(plan: MeasurementPlan, num_checkpoints: int) -> FilesOf:
    """The files of all saves that a rank of the group makes."""
    return lambda rank: tuple(f"{number}.{name}" for number in range(num_checkpoints) for name in plan.files_of(rank))


def _make_roles(plan: MeasurementPlan, engine: PartFiles, files: RunFiles, *, seed: int, count: int) -> list[RankRole]:
    """Make the roles of this rank, one for each save, all with one payload."""
    own, index = plan.own, plan.writers.index
    if own is None or index is None:
        return [IdleRole() for _ in range(count)]
    payload = ResidentPayload(own.inventory, seed=seed, rank=index, device=plan.device.name)
    engine.prepare(payload, own.engine_plan, device=plan.device, writers=plan.writers)
    return [
        WriterRole(
            replace(own, engine_plan=engine.plan_of_save(own.engine_plan, number)),
            engine=engine,
            payload=payload,
            source_payload=functools.partial(StreamedPayload, own.inventory, seed=seed, rank=index),
            retention=Replacing(files, ()),
            device=plan.device,
            rank=plan.writers.group.rank,
        )
        for number in range(count)
    ]


def measure_rounds(
    request: Request[MlperfOptions], workload: MlperfWorkload, group: ProcessGroup, terminal: Terminal
) -> MlperfRounds | None:
    """Plan, check and run the saves and restores of a workload on all ranks; on rank 0 the samples.

    Raises InvalidInput where they cannot fit, RunFailed where they fail.
    """
    options, engine, target = request.options, PartFiles(EngineOptions()), request.target
    configuration = Configuration(
        engine=engine.name, num_nodes=len(group.nodes), writers_per_node=max(group.ranks_per_node.values())
    )
    plan = plan_of(configuration, workload, engine, target, group)
    group.agree(lambda: check_room(plan, target), doing="checking free space")
    all_bytes = options.num_checkpoints * plan.max_disk_bytes
    group.agree(lambda: target.check_space(all_bytes), doing="checking free space")
    terminal.say(
        f"{plan.needs()} All {options.num_checkpoints} checkpoints are there at once: {bytes_text(all_bytes)}."
    )
    with (
        terminal.progress(2 * options.num_checkpoints, max_steps=2 * options.num_checkpoints) as progress,
        run_place.open_place(
            target,
            group,
            run_id=request.run_id,
            files_of=files_of(plan, options.num_checkpoints),
            keep=options.keep,
        ) as files,
    ):
        rounds = _run_rounds(
            plan,
            engine,
            files,
            directory=target.path if isinstance(target, DirectoryTarget) else None,
            seed=request.seed,
            num_checkpoints=options.num_checkpoints,
            progress=progress,
        )
    if options.keep:
        terminal.say(f"The checkpoints are kept in {target.run_title(request.run_id)}.")
    return rounds
