"""The measuring parts of `run` and `scan`, and what they share: from a request to measured configurations.

Nothing here is imported before the request is checked: it takes torch, which takes a second.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from io_bench import host
from io_bench.commands.grid import configurations_of
from io_bench.commands.journal import MeasuredConfiguration, ScanState
from io_bench.commands.shaped import doubts_about_shape, shaped_measurements
from io_bench.engines import ENGINES, STREAMING_ENGINES, Engine, EngineOptions
from io_bench.errors import explained_io_errors
from io_bench.measure.configuration import Configuration
from io_bench.measure.corruption import raise_where_corrupt
from io_bench.measure.plan import MeasurementPlan, check_room, enough_bytes, fits_memory, plan_of
from io_bench.measure.repeating import Caps, Repeat, measure_repeatedly, time_first_checkpoint
from io_bench.options import (
    DEFAULT_BYTES_PER_RANK,
    DEFAULT_MAX_SECONDS,
    DEFAULT_REPETITIONS,
    CampaignOptions,
    RunOptions,
    ScanOptions,
)
from io_bench.payload.device import Device
from io_bench.payload.workload import workload_of
from io_bench.ranks.process_group import ProcessGroup
from io_bench.request import Request
from io_bench.results.doubts import warnings_about
from io_bench.results.environment import environment_of
from io_bench.results.measurements import notices_of
from io_bench.results.scan_table import ScanProgress
from io_bench.target import run_place
from io_bench.target.directory import DirectoryTarget, RunDirectory
from io_bench.target.stripes import set_stripes
from io_bench.target.target import RunFiles
from io_bench.terminal import StepProgress, Terminal
from io_bench.workloads.restores import RESTORES
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult
from sizing.units import bytes_text, parse_bytes


@dataclass(frozen=True, slots=True)
class PlannedConfiguration:
    """A configuration that fits, and the engine that will run it."""

    plan: MeasurementPlan
    engine: Engine


@dataclass(frozen=True, slots=True)
class Campaign:
    """Request, environment and caps of a run or scan on one rank, the same for all configurations."""

    request: Request[Any]
    group: ProcessGroup
    environment: Mapping[str, Any]
    caps: Caps

    @classmethod
    def of(cls, request: Request[Any], group: ProcessGroup) -> Campaign:
        """Describe the nodes on rank 0, and set the caps.

        Raises InvalidInput where ranks are to be kept near their GPUs and cannot be.
        """
        device = Device.of_local_rank(group.placement.local_rank)
        if request.options.bind_numa:

            def bind() -> None:
                if reason := host.bind_near(device.identity):
                    raise InvalidInput.of("--bind-numa", f"cannot be done: {reason}", value=True, remedy="omit it")

            group.agree(bind, doing="choosing CPUs near the GPU")
        environment = environment_of(group, device, request.target)
        inputs = {"seed": request.seed, "scenario": request.scenario_document}  # which the command may not say
        options = request.options
        default_seconds = DEFAULT_MAX_SECONDS if options.is_repeated_until_settled else None
        caps = Caps(options.max_seconds or default_seconds, options.max_bytes, options.max_bytes_per_second)
        return cls(request, group, environment | inputs, caps)

    @property
    def place(self) -> str:
        """Path or URL of the run's own place in the target."""
        return self.request.target.run_title(self.request.run_id)

    def plan(self, configuration: Configuration) -> PlannedConfiguration:
        """Plan a configuration on all ranks, streamed where memory does not hold the payload.

        Raises InvalidInput where it does not fit even so.
        """
        planned = self._plan_once(configuration)
        fits = self.group.decide(fits_memory(planned.plan), all, doing="checking free memory")
        strategy = RESTORES[configuration.restore] if configuration.restore else None
        can_stream = configuration.engine in STREAMING_ENGINES and (strategy is None or strategy.can_stream)
        if not fits and can_stream:
            planned = self._plan_once(configuration.model_copy(update={"is_streamed": True}))
        self.group.agree(lambda: check_room(planned.plan, self.request.target), doing="checking free space")
        return planned

    def _plan_once(self, configuration: Configuration) -> PlannedConfiguration:
        options = EngineOptions(
            block_bytes=configuration.block_bytes,
            num_threads=configuration.threads_per_rank,
            is_streamed=configuration.is_streamed,
        )
        engine = self._make_engine(configuration, options)
        workload = self.group.agree(
            lambda: workload_of(
                self.request.scenario,
                scale=self.request.options.scale,
                bytes_per_rank=configuration.bytes_per_rank or parse_bytes(DEFAULT_BYTES_PER_RANK),
                tensors_per_rank=configuration.tensors_per_rank,
            ),
            doing="reading the scenario",
        )
        return PlannedConfiguration(plan_of(configuration, workload, engine, self.request.target, self.group), engine)

    @staticmethod
    def _make_engine(configuration: Configuration, options: EngineOptions) -> Engine:
        """Make the engine, restoring as the configuration says."""
        if configuration.resharding is not None:
            from io_bench.workloads.resharded_dcp import ReshardedDcp  # noqa: PLC0415 - imports torch: a second

            return ReshardedDcp(options, configuration.resharding)
        if configuration.restore is None:
            return ENGINES[configuration.engine](options)
        strategy = RESTORES[configuration.restore]
        return strategy.engine(configuration.engine, options, num_replicas=configuration.num_replicas)

    def enlarge(
        self, planned: PlannedConfiguration, files: RunFiles, *, progress: StepProgress
    ) -> PlannedConfiguration:
        """Plan the configuration again, with the bytes of five seconds, as a first write and restore show them.

        The bytes are fewer where the plan would take more than half of the memory or of the free space, or where a cap
        would end the run early.
        """
        seconds = time_first_checkpoint(
            planned.plan,
            planned.engine,
            files,
            directory=self._directory,
            seed=self.request.seed,
            caps=self.caps,
            progress=progress,
        )
        for num_bytes in enough_bytes(parse_bytes(DEFAULT_BYTES_PER_RANK), seconds):
            larger = self._plan_once(planned.plan.configuration.model_copy(update={"bytes_per_rank": num_bytes}))
            if self.group.decide(self._is_modest(larger.plan, seconds), all, doing="checking memory and space"):
                break
        return larger

    def _is_modest(self, plan: MeasurementPlan, seconds: float) -> bool:
        """Whether a plan leaves as much memory and space as it takes, and the caps let it repeat."""
        num_passes = (repeat_of(self.request.options).min_repetitions + 1) * plan.num_passes
        times = (plan.configuration.bytes_per_rank or 0) / parse_bytes(DEFAULT_BYTES_PER_RANK)
        try:
            self.request.target.check_space(2 * plan.max_disk_bytes)
        except InvalidInput:
            return False
        return (
            2 * plan.node_host_bytes <= host.available_bytes()
            and num_passes * sum(plan.payload_bytes) <= (self.caps.max_bytes or math.inf)
            and num_passes * times * seconds <= (self.caps.max_seconds or math.inf)
        )

    def measure(
        self, planned: PlannedConfiguration, files: RunFiles, *, repeat: Repeat, progress: StepProgress
    ) -> MeasuredConfiguration | None:
        """Measure a configuration; on rank 0 its measurements, warnings and conditions.

        Raises InvalidInput for stripes, else as RankRole, and as ProcessGroup.
        """
        self.group.agree(lambda: self._set_stripes(planned.plan.configuration, files), doing="setting the stripes")
        samples = measure_repeatedly(
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
        corruption, plan = list(samples.kept[-1].corruption), samples.plan
        return MeasuredConfiguration(
            configuration=planned.plan.configuration,
            measurements=measurements,
            warnings=[
                *(each.sentence for each in corruption),
                *notices_of(samples.kept),
                *doubts_about_shape(samples),
                *doubts,
            ],
            corruption=corruption,
            # A scan may be continued on other nodes than it began on.
            hosts=[self.environment["nodes"][node]["host"] for node in dict.fromkeys(planned.plan.writers.nodes)],
            conditions={
                "payload_bytes": list(plan.payload_bytes),
                "num_tensors": plan.own.inventory.num_tensors if plan.own else 0,
                "source_of_restore": _source_of_restore(plan),
                "stopped_by": samples.stopped_by or None,
            },
        )

    def _set_stripes(self, configuration: Configuration, files: RunFiles) -> None:
        """Lay out new files of the run's directory as the configuration says; rank 0 does it for all."""
        count, stripe_bytes = configuration.stripe_count, configuration.stripe_bytes
        if self.group.rank == 0 and isinstance(files, RunDirectory) and (count, stripe_bytes) != (None, None):
            for path in files.paths:
                set_stripes(path, count=count, stripe_bytes=stripe_bytes)

    @property
    def _directory(self) -> Path | None:
        target = self.request.target
        return target.path if isinstance(target, DirectoryTarget) else None


def repeat_of(options: CampaignOptions) -> Repeat:
    """Choose how often each configuration is measured."""
    return Repeat(
        options.repetitions or DEFAULT_REPETITIONS, options.is_repeated_until_settled, until_steady=options.until_steady
    )


def _source_of_restore(plan: MeasurementPlan) -> str:
    if plan.restoring is not None:
        return "the ranks that saved its rows"
    if plan.replicas is not None:
        return "the first replica"
    return "the next node" if plan.restores_from_other_node else "the rank itself"


def measure_run(request: Request[RunOptions], group: ProcessGroup, terminal: Terminal) -> BenchmarkResult | None:
    """Measure the one configuration of a run; on rank 0 the result, with the warnings of all ranks.

    Raises InvalidInput where the run cannot fit, RunFailed where it fails.
    """
    started_at = datetime.datetime.now(datetime.UTC)
    campaign, options = Campaign.of(request, group), request.options
    planned = campaign.plan(_configuration_of(options, group))
    terminal.say(planned.plan.needs())
    repeat = repeat_of(options)
    is_size_open = options.bytes_per_rank is None and options.scenario is None
    with (
        terminal.progress(
            2 * (repeat.min_repetitions + 1 + is_size_open), max_steps=2 * (repeat.max_repetitions + 1 + is_size_open)
        ) as progress,
        run_place.open_place(
            request.target,
            group,
            run_id=request.run_id,
            files_of=planned.plan.files_of,
            keep=options.keep,
        ) as files,
    ):
        if is_size_open:
            planned = campaign.enlarge(planned, files, progress=progress)
            terminal.say(f"A first write and restore set the size. {planned.plan.needs()}")
        measured = campaign.measure(planned, files, repeat=repeat, progress=progress)
    if measured is None:
        return None
    if options.keep:
        terminal.say(f"The last checkpoint is kept in {campaign.place}.")
    return BenchmarkResult(
        run_id=request.run_id,
        started_at=started_at,
        command=sys.orig_argv,
        environment={
            **campaign.environment,
            **measured.conditions,
            "kept_in": campaign.place if options.keep else None,
        },
        warnings=group.ending.notes + measured.warnings,
        corruption=measured.corruption or None,
        measurements=measured.measurements,
    )


def _configuration_of(options: RunOptions, group: ProcessGroup) -> Configuration:
    """Make the configuration of a run: all ranks on all nodes, and the options that have the same names."""
    return Configuration(
        **options.model_dump(include=set(Configuration.model_fields)),
        num_nodes=len(group.nodes),
        writers_per_node=max(group.ranks_per_node.values()),
        is_streamed=options.stream,
        num_saving=options.saved_by or (group.num_ranks if options.restored_by else None),
        num_restoring=options.restored_by or (group.num_ranks if options.saved_by else None),
        num_replicas=options.num_replicas,
        retained_checkpoints=options.retain,
        deletion=options.deletion,
    )


def measure_scan(
    request: Request[ScanOptions], group: ProcessGroup, terminal: Terminal, state: ScanState | None
) -> None:
    """Measure the configurations that are left, as far as the caps allow. Rank 0 alone has the state, and fills it.

    Raises InvalidInput where a configuration does not fit, before the first is measured; otherwise as RankRole, and as
    ProcessGroup.
    """
    campaign = Campaign.of(request, group)
    remaining, num_done = _remaining_configurations(request, group, state)
    planned = [campaign.plan(configuration) for configuration in remaining]
    if state:
        state.environment, state.num_configurations = campaign.environment, len(remaining) + num_done
    _announce(planned, num_done, terminal)
    repeat = repeat_of(request.options)
    weights = [sum(each.plan.payload_bytes) for each in planned]
    progress = ScanProgress(weights, num_steps=2 * (repeat.min_repetitions + 1), num_done=num_done)
    with (
        terminal.live(progress),
        run_place.open_place(
            request.target,
            group,
            run_id=request.run_id,
            files_of=lambda rank: tuple(dict.fromkeys(name for each in planned for name in each.plan.files_of(rank))),
            keep=False,
        ) as files,
    ):
        for number, each in enumerate(planned):
            reached = campaign.caps.reached() if number else ""
            stopped_by = group.broadcast(reached, doing="checking the caps")
            if stopped_by:
                if state:
                    state.stopped_by = stopped_by
                break
            progress.begin_configuration(each.plan.configuration.title)
            measured = campaign.measure(each, files, repeat=repeat, progress=progress)
            if state and measured:
                state.journal.append(measured)
                terminal.say(progress.end_configuration(measured.measurements))
            raise_where_corrupt(measured.corruption if measured else None, group)
            # In the next configuration another rank may write a file of that name.
            with explained_io_errors("removing the last checkpoint", rank=group.rank):
                files.remove_created()
            group.meet(doing="removing the last checkpoint")


def _remaining_configurations(
    request: Request[ScanOptions], group: ProcessGroup, state: ScanState | None
) -> tuple[list[Configuration], int]:
    """List the configurations that are left to measure, and count those that are done, the same on all ranks."""
    own = (state.journal.header.seed, [each.model_dump() for each in state.journal.done]) if state else None
    seed, rows = group.broadcast(own, doing="reading the journal")
    done = {Configuration.model_validate(row) for row in rows}
    configurations = group.agree(lambda: configurations_of(request.options, group, seed=seed), doing="reading the scan")
    return [each for each in configurations if each not in done], len(done)


def _announce(planned: Sequence[PlannedConfiguration], num_done: int, terminal: Terminal) -> None:
    if not planned:
        return
    largest = max(planned, key=lambda each: each.plan.max_disk_bytes).plan
    before = f"{num_done} already done; " if num_done else ""
    terminal.say(
        f"{before}{len(planned)} configurations to measure. Max requirements: {largest.needs()} "
        f"One repetition of all writes {bytes_text(sum(sum(each.plan.payload_bytes) for each in planned))}."
    )
