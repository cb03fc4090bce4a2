"""What `run` and `scan` share: from a request to configurations that were measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from io_bench.campaign.measured import Measured
from io_bench.engines import ENGINES, STREAMING_ENGINES, Engine, EngineOptions
from io_bench.findings.doubts import warnings_about
from io_bench.findings.environment import environment_of
from io_bench.findings.measurements import measurements_of, notices_of
from io_bench.payload.device import Device
from io_bench.payload.workload import Workload, workload_of
from io_bench.planning.capacity import check_room, fits_memory
from io_bench.planning.configuration import Configuration
from io_bench.planning.plan import Plan, plan_of
from io_bench.ranks.process_group import ProcessGroup
from io_bench.repetition.caps import Caps
from io_bench.repetition.repeating import Repeat, Samples, repeated
from io_bench.request.agreed_request import Request
from io_bench.request.options import DEFAULT_BYTES_PER_RANK, DEFAULT_MAX_SECONDS, DEFAULT_REPETITIONS, Options
from io_bench.target.directory.directory_target import DirectoryTarget
from io_bench.target.run_files import RunFiles
from io_bench.terminal import StepProgress
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
        """Describes the nodes; exchanges with all ranks."""
        environment = environment_of(group, Device.of_local_rank(group.placement.local_rank), request.target)
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
        fits = all(self.group.exchange(fits_memory(planned.plan), doing="checking free memory"))
        if not fits and configuration.engine in STREAMING_ENGINES:
            planned = self._planned(configuration.model_copy(update={"is_streamed": True}))
        self.group.agree(lambda: check_room(planned.plan, self.request.target), doing="checking free space")
        return planned

    def _planned(self, configuration: Configuration) -> Planned:
        options = EngineOptions(
            block_bytes=configuration.block_bytes,
            num_threads=configuration.threads_per_rank,
            is_streamed=configuration.is_streamed,
        )
        engine = ENGINES[configuration.engine](options)
        workload = self.group.agree(lambda: self._workload(configuration), doing="reading the scenario")
        return Planned(plan_of(configuration, workload, engine, self.request.target, self.group), engine)

    def _workload(self, configuration: Configuration) -> Workload:
        return workload_of(
            self.request.scenario,
            scale=self.request.options.scale,
            bytes_per_rank=configuration.bytes_per_rank or parse_bytes(DEFAULT_BYTES_PER_RANK),
        )

    def measured(self, planned: Planned, files: RunFiles, *, repeat: Repeat, progress: StepProgress) -> Measured:
        """What a configuration gives. Raises as Part, and as ProcessGroup."""
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
        measurements = measurements_of(samples, self.request.target)
        file_system = self.request.target.description().get("type", "")
        doubts = [
            doubt
            for each in measurements
            for doubt in warnings_about(each, stopped_by=samples.stopped_by, file_system=file_system)
        ]
        return Measured(
            configuration=planned.plan.configuration,
            measurements=measurements,
            warnings=[*notices_of(samples.kept), *doubts],
            hosts=self._hosts_of(planned.plan),
            conditions=_conditions(samples),
        )

    def _hosts_of(self, plan: Plan) -> list[str]:
        """Where the writers ran: a scan may be continued on other nodes than it began on."""
        return [self.environment["nodes"][node]["host"] for node in dict.fromkeys(plan.writers.nodes)]

    @property
    def _directory(self) -> Path | None:
        target = self.request.target
        return target.path if isinstance(target, DirectoryTarget) else None


def repeat_of(options: Options) -> Repeat:
    """How often each configuration is measured."""
    return Repeat(options.repetitions or DEFAULT_REPETITIONS, options.is_repeated_until_settled)


def _caps(options: Options) -> Caps:
    seconds = DEFAULT_MAX_SECONDS if options.is_repeated_until_settled else None
    return Caps(options.max_seconds or seconds, options.max_bytes, options.max_bytes_per_second)


def _conditions(samples: Samples) -> dict[str, JsonValue]:
    plan = samples.plan
    return {
        "payload_bytes": list(plan.payload_bytes),
        "num_tensors": plan.own.inventory.num_tensors if plan.own else 0,
        "source_of_restore": "the next node" if plan.restores_from_other_node else "the rank itself",
        "stopped_by": samples.stopped_by or None,
    }
