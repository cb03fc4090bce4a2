"""What `run` and `scan` share: from a request to configurations that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from io_bench.campaign.measured import Measured
from io_bench.campaign.shaped import doubts_about_shape, shaped_measurements
from io_bench.engines import ENGINES, STREAMING_ENGINES, Engine, EngineOptions
from io_bench.findings.doubts import warnings_about
from io_bench.findings.environment import environment_of
from io_bench.findings.measurements import notices_of
from io_bench.host import memory, numa
from io_bench.payload.device import Device
from io_bench.payload.workload import Workload, workload_of
from io_bench.planning.capacity import check_room, fits_memory
from io_bench.planning.configuration import Configuration
from io_bench.planning.enough import enough_bytes
from io_bench.planning.plan import Plan, plan_of
from io_bench.ranks.process_group import ProcessGroup
from io_bench.repetition.caps import Caps
from io_bench.repetition.repeating import Repeat, Samples, repeated, tried_seconds
from io_bench.request.agreed_request import Request
from io_bench.request.options import DEFAULT_BYTES_PER_RANK, DEFAULT_MAX_SECONDS, DEFAULT_REPETITIONS, Options
from io_bench.shapes.restores import RESTORES
from io_bench.target.directory.directory_target import DirectoryTarget
from io_bench.target.directory.run_directory import RunDirectory
from io_bench.target.directory.stripes import set_stripes
from io_bench.target.run_files import RunFiles
from io_bench.terminal import StepProgress
from sizing.errors import InvalidInput
from sizing.units import parse_bytes


@dataclass(frozen=True, slots=True)
class Planned:
    """A configuration that fits, and the engine that will run it."""

    plan: Plan
    engine: Engine


@dataclass(frozen=True, slots=True)
class Campaign:
    """What stays the same from one configuration to the next, on one rank."""

    request: Request[Any]
    group: ProcessGroup
    environment: Mapping[str, Any]
    caps: Caps

    @classmethod
    def of(cls, request: Request[Any], group: ProcessGroup) -> Campaign:
        """Describes the nodes, of all ranks, on rank 0.

        Raises InvalidInput where ranks are to be kept near their GPUs and cannot be.
        """
        device = Device.of_local_rank(group.placement.local_rank)
        if request.options.bind_numa:
            group.agree(lambda: _bind_near(device), doing="choosing CPUs near the GPU")
        environment = environment_of(group, device, request.target)
        asked = {"seed": request.seed, "scenario": request.scenario_document}  # which the command may not say
        return cls(request, group, environment | asked, _caps(request.options))

    @property
    def place(self) -> str:
        """The run's own place in the target."""
        return self.request.target.run_title(self.request.run_id)

    def planned(self, configuration: Configuration) -> Planned:
        """The plan of a configuration, on all ranks, streamed where memory does not hold the payload.

        Raises InvalidInput where it does not fit even so.
        """
        planned = self._planned(configuration)
        fits = self.group.decided(fits_memory(planned.plan), all, doing="checking free memory")
        if not fits and _can_stream(configuration):
            planned = self._planned(configuration.model_copy(update={"is_streamed": True}))
        self.group.agree(lambda: check_room(planned.plan, self.request.target), doing="checking free space")
        return planned

    def _planned(self, configuration: Configuration) -> Planned:
        options = EngineOptions(
            block_bytes=configuration.block_bytes,
            num_threads=configuration.threads_per_rank,
            is_streamed=configuration.is_streamed,
        )
        engine = self._engine(configuration, options)
        workload = self.group.agree(lambda: self._workload(configuration), doing="reading the scenario")
        return Planned(plan_of(configuration, workload, engine, self.request.target, self.group), engine)

    @staticmethod
    def _engine(configuration: Configuration, options: EngineOptions) -> Engine:
        """The engine, restoring as the configuration says."""
        if configuration.resharding is not None:
            from io_bench.shapes.resharded_dcp import ReshardedDcp  # noqa: PLC0415 - imports torch: a second

            return ReshardedDcp(options, configuration.resharding)
        if configuration.restore is None:
            return ENGINES[configuration.engine](options)
        strategy = RESTORES[configuration.restore]
        return strategy.engine(configuration.engine, options, num_replicas=configuration.num_replicas)

    def enough(self, planned: Planned, files: RunFiles, *, progress: StepProgress) -> Planned:
        """The same with so many bytes that an operation takes five seconds, as one of each shows.

        Fewer where half of the memory or of the free space would not do, or a cap would end the run early.
        """
        seconds = tried_seconds(
            planned.plan,
            planned.engine,
            files,
            directory=self._directory,
            seed=self.request.seed,
            caps=self.caps,
            progress=progress,
        )
        for num_bytes in enough_bytes(parse_bytes(DEFAULT_BYTES_PER_RANK), seconds):
            found = self._planned(planned.plan.configuration.model_copy(update={"bytes_per_rank": num_bytes}))
            if self.group.decided(self._is_modest(found.plan, seconds), all, doing="checking memory and space"):
                break
        return found

    def _is_modest(self, plan: Plan, tried_seconds: float) -> bool:
        """Whether a plan leaves as much memory and space as it takes, and the caps let it repeat."""
        num_passes = (repeat_of(self.request.options).min_repetitions + 1) * plan.num_passes
        times = (plan.configuration.bytes_per_rank or 0) / parse_bytes(DEFAULT_BYTES_PER_RANK)
        try:
            self.request.target.check_space(2 * plan.max_disk_bytes)
        except InvalidInput:
            return False
        return (
            2 * plan.node_host_bytes <= memory.available_bytes()
            and num_passes * sum(plan.payload_bytes) <= (self.caps.max_bytes or math.inf)
            and num_passes * times * tried_seconds <= (self.caps.max_seconds or math.inf)
        )

    def _workload(self, configuration: Configuration) -> Workload:
        return workload_of(
            self.request.scenario,
            scale=self.request.options.scale,
            bytes_per_rank=configuration.bytes_per_rank or parse_bytes(DEFAULT_BYTES_PER_RANK),
            tensors_per_rank=configuration.tensors_per_rank,
        )

    def measured(self, planned: Planned, files: RunFiles, *, repeat: Repeat, progress: StepProgress) -> Measured | None:
        """What a configuration gives, on rank 0. Raises InvalidInput for stripes, else as Part, and as ProcessGroup."""
        self.group.agree(lambda: self._stripe(planned.plan.configuration, files), doing="setting the stripes")
        samples = repeated(
            planned.plan,
            planned.engine,
            files,
            directory=self._directory,
            seed=self.request.seed,
            repeat=repeat,
            caps=self.caps,
            progress=progress,
        )
        if samples is None:
            return None
        measurements = shaped_measurements(samples, self.request.target)
        file_system = self.request.target.description().get("type", "")
        doubts = [
            doubt
            for each in measurements
            for doubt in warnings_about(each, stopped_by=samples.stopped_by, file_system=file_system)
        ]
        corruption = list(samples.kept[-1].corruption)
        return Measured(
            configuration=planned.plan.configuration,
            measurements=measurements,
            warnings=[
                *(each.sentence for each in corruption),
                *notices_of(samples.kept),
                *doubts_about_shape(samples),
                *doubts,
            ],
            corruption=corruption,
            hosts=self._hosts_of(planned.plan),
            conditions=_conditions(samples),
        )

    def _stripe(self, configuration: Configuration, files: RunFiles) -> None:
        """Lay out new files of the run's directory as the configuration says; rank 0 does it for all."""
        count, stripe_bytes = configuration.stripe_count, configuration.stripe_bytes
        if self.group.rank == 0 and isinstance(files, RunDirectory) and (count, stripe_bytes) != (None, None):
            for path in files.paths:
                set_stripes(path, count=count, stripe_bytes=stripe_bytes)

    def _hosts_of(self, plan: Plan) -> list[str]:
        """Where the writers ran: a scan may be continued on other nodes than it began on."""
        return [self.environment["nodes"][node]["host"] for node in dict.fromkeys(plan.writers.nodes)]

    @property
    def _directory(self) -> Path | None:
        target = self.request.target
        return target.path if isinstance(target, DirectoryTarget) else None


def _can_stream(configuration: Configuration) -> bool:
    """Whether no rank needs to hold a checkpoint."""
    strategy = RESTORES[configuration.restore] if configuration.restore else None
    return configuration.engine in STREAMING_ENGINES and (strategy is None or strategy.can_stream)


def repeat_of(options: Options) -> Repeat:
    """How often each configuration is measured."""
    return Repeat(
        options.repetitions or DEFAULT_REPETITIONS, options.is_repeated_until_settled, until_steady=options.until_steady
    )


def _bind_near(device: Device) -> None:
    """Keep this rank to the CPUs near its GPU. Raises InvalidInput where none are known."""
    if reason := numa.bind_near(device.identity):
        raise InvalidInput.of("--bind-numa", f"cannot be done: {reason}", value=True, remedy="omit it")


def _caps(options: Options) -> Caps:
    seconds = DEFAULT_MAX_SECONDS if options.is_repeated_until_settled else None
    return Caps(options.max_seconds or seconds, options.max_bytes, options.max_bytes_per_second)


def _conditions(samples: Samples) -> dict[str, JsonValue]:
    plan = samples.plan
    return {
        "payload_bytes": list(plan.payload_bytes),
        "num_tensors": plan.own.inventory.num_tensors if plan.own else 0,
        "source_of_restore": _source_of_restore(plan),
        "stopped_by": samples.stopped_by or None,
    }


def _source_of_restore(plan: Plan) -> str:
    if plan.restoring is not None:
        return "the ranks that saved its rows"
    if plan.replicas is not None:
        return "the first replica"
    return "the next node" if plan.restores_from_other_node else "the rank itself"
