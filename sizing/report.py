"""Answer to a scenario: a SizingReport, and `answer`, which knows the order of the steps after the layout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import Field

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.frameworks.saved_parts import uncounted_state_warnings
from sizing.guesses.calibrated import calibrated_intervals
from sizing.guesses.guess import Guess, Headline
from sizing.guesses.guesses import guess_warnings, weigh_guesses
from sizing.layout import CheckpointLayout, CheckpointSize, Layout
from sizing.layout.chunks import split_warnings
from sizing.layout.formats import formats_of
from sizing.layout.fsdp_shards import FsdpMesh, FsdpSpan
from sizing.layout.size import size_warnings, weights_bytes
from sizing.model import ResolvedModel
from sizing.model.inventory import num_routed_expert_parameters
from sizing.notebook import report_html
from sizing.origins import provenance_of
from sizing.provenance import LAYOUT, Assumption, Provenance
from sizing.run.evaluation import RunInputs, RunReport, evaluate, run_assumptions, run_warnings
from sizing.run.export import export_steps
from sizing.run.host_memory import HostMemory, host_memory
from sizing.run.host_memory_remedies import host_memory_warnings
from sizing.run.job_limits import JobLimit, JobLimitName, LimitInputs, job_limit_warnings, job_limits
from sizing.run.publication import (
    Published,
    SentWeights,
    publication_assumptions,
    publication_of,
    publication_steps,
    publication_warnings,
)
from sizing.run.reduction_effect import stored_bytes
from sizing.run.remedies import planning_warnings, with_remedies
from sizing.run.request import RunRequest
from sizing.run.required import with_obstacle
from sizing.run.retention import with_further_bytes
from sizing.run.solver import GOODPUT, values_for_all_targets
from sizing.run.storage_warnings import (
    Steps,
    calibration_warnings,
    client_warnings,
    measurement_warnings,
    needed_warnings,
    node_warnings,
)
from sizing.run.write import cached_planning_fraction
from sizing.scenario import NUM_GPUS, Scenario
from sizing.sized_layout import SizedLayout, size_layout, with_rate_of_link
from sizing.state import Training
from sizing.state.optimizers import is_row_wise
from sizing.storage.storage import ResolvedStorage, resolve_storage
from sizing.strict_model import StrictModel
from sizing.training import GpuMemory
from sizing.training.compressed_gradients import CompressedGradients, compressed_gradients, compression_warnings
from sizing.training.execution import execution_assumptions, execution_of
from sizing.training.gpu_rates import rate_assumptions
from sizing.training.links import guessed_network, network_warnings
from sizing.training.memory_search import CannotRun
from sizing.training.offload import Offloaded, offload_of, offload_warnings
from sizing.training.overlaps import overlap_assumptions
from sizing.training.run_length import RunLength, run_length
from sizing.units import decimal_bytes_text, seconds_text


class ModelSize(StrictModel):
    """The `model` block of the report."""

    name: str = Field(description="Name of the preset or of the config; otherwise what the model was described by.")
    num_parameters: int = Field(description="Parameters of all tensors, a tied embedding counted once.")
    num_active_parameters: int = Field(
        description="Parameters that one token passes through; fewer than all with a mixture of experts."
    )
    num_routed_expert_parameters: int = Field(
        description="Parameters of routed experts in all layers; 0 in dense models."
    )
    num_trained_parameters: int = Field(
        description="Parameters with optimizer state: those of adapters with LoRA, none of frozen tensors."
    )

    @classmethod
    def of(cls, model: ResolvedModel, checkpoint_layout: CheckpointLayout) -> ModelSize:
        """Return the block for a model and its layout."""
        return cls(
            name=model.name,
            num_parameters=model.num_parameters,
            num_active_parameters=model.num_active_parameters,
            num_routed_expert_parameters=num_routed_expert_parameters(model.inventory),
            num_trained_parameters=checkpoint_layout.num_trained_parameters,
        )


class LayoutReport(StrictModel):
    """The blocks of the report that the layout decides, whatever the storage, the interval and the failures."""

    model: ModelSize = Field(description="Parameters by how they are used: active, routed, trained.")
    checkpoint: CheckpointSize = Field(description="Size of one checkpoint and what it is made of.")
    layout: Layout = Field(description="Which ranks on which nodes write how much.")
    training: GpuMemory = Field(description="Memory that state and activations take on the fullest GPU.")
    offload: Offloaded | None = Field(
        description="What training.offload keeps off the GPU, and what its copies take. Null without it."
    )
    gradient_compression: CompressedGradients | None = Field(
        description="What ranks send, keep and save of compressed gradients. "
        "Null without training.gradient_compression."
    )
    host_memory: HostMemory = Field(
        description="Host memory that saving takes on the fullest writing node, and a restore on one that reads."
    )


class SizingReport(RunReport, LayoutReport):
    """What a checkpoint of the scenario weighs, takes, costs and needs. What is None is not known."""

    schema_version: int = Field(
        description="Version of the defaults that the answer was made with, as in the scenario."
    )
    publication: Published | None = Field(
        description="Weights of an RL policy on their way to inference. Null without a publication in the scenario."
    )
    needed_together: dict[str, float] = Field(
        description="Min rates that together meet all targets but those beyond storage, by dotted path in the "
        "scenario, and checkpoint.interval_seconds when it must change. "
        "Empty without a goodput target or when no storage does."
    )
    targets_beyond_storage: list[str] = Field(
        description="Targets that no storage meets at any interval, which needed_together leaves out. "
        "Empty without a goodput target."
    )
    run_length: RunLength | None = Field(
        description="Steps, time and checkpoints of the whole run. Null without training.num_tokens."
    )
    job_limits: list[JobLimit] = Field(
        default_factory=list,
        description="Limits of software and machine that end a job or a save: what the prediction needs, the default, "
        "whether it holds, and the line that sets it. Only those that apply to framework, format, mode and storage.",
    )
    provenance: list[Provenance] = Field(description="Where the figures come from, block by block.")
    prediction_intervals: dict[str, tuple[float, float]] = Field(
        description="Interval that holds nine of ten measurements, by dotted path of the figure and in its unit. Of "
        "figures that follow from calibrated times and rates it is the least and largest value over the ends of these, "
        "first of writes, then of restores. Empty without a calibration."
    )
    assumptions: list[Assumption] = Field(
        description="Values that the answer uses and that the scenario did not state."
    )
    headline: Headline = Field(description="Figure that guesses are weighed by.")
    guesses: list[Guess] = Field(
        description="Assumptions that move the headline within their plausible range or by their alternatives, or "
        "another figure by more than a tenth, the largest swing of the headline first."
    )
    guessed_ranges: dict[str, tuple[float, float | None]] = Field(
        default_factory=dict,
        description="Least and largest value, over one guess after the other, of each figure that a guess moves by "
        "more than a tenth, by dotted path of the figure and in its unit. The largest of a required rate is null where "
        "a guess has a value with which no rate is enough.",
    )
    warnings: list[str] = Field(description="What a reader must know before believing the figures.")

    @property
    def stored_bytes(self) -> int:
        """Bytes of one checkpoint as it is stored, after compression, deltas and partial saves.

        >>> answer({"model": {"preset": "gpt2"}}).stored_bytes
        1742157312
        """
        return stored_bytes(self.checkpoint.written_bytes, self.reduction)

    def _repr_html_(self) -> str:
        """Show the report in a notebook."""
        return report_html(self)


def answer(
    scenario: Scenario | Mapping[str, Any],
    *,
    assumed: Iterable[Assumption] = (),
    nothing_fits: CannotRun | None = None,
    progress: Callable[[float], None] | None = None,
) -> SizingReport:
    """Answer a Scenario, or one as a JSON document, with a SizingReport.

    A scenario that gives a number of GPUs and leaves open how they share the model gets the best layout that fits.
    `assumed` and `nothing_fits` come from an earlier layout search: its assumptions, and why no layout fits.
    `progress` is told which fraction of the layouts to compute is done: the scenario's, and those of its guesses.

    Raises InvalidInput where a field breaks a rule, a name is unknown or the layout contradicts model or cluster.

    >>> from sizing.scenario import REFERENCE_SCENARIO
    >>> report = answer(REFERENCE_SCENARIO)
    >>> round(report.write.seconds, 2), report.layout.num_writers, report.write.bottleneck
    (50.55, 512, 'file-system')
    """
    if not isinstance(scenario, Scenario) or scenario.leaves_degrees_open or scenario.leaves_interval_open:
        scenario, search_assumptions, nothing_fits = find_layout(scenario)
        assumed = [*assumed, *search_assumptions]
    results = _compute_results(scenario)
    layout, run = results.layout, results.run
    # Where nobody names GPUs, one is counted: that it is too small for the training state is no verdict on a layout.
    min_copies = scenario.reliability.min_state_copies if scenario.reliability else 1
    cannot_run = nothing_fits or (None if scenario.names_no_gpus else layout.cannot_run(min_copies))
    memory = layout.memory
    if cannot_run is not None and cannot_run.is_sure:
        memory = memory.model_copy(update={"cannot_run": cannot_run.because, "remedy": cannot_run.remedy})
    request = RunRequest(layout.workload, results.inputs)
    assumptions = [*assumed, *_assumptions(results)]
    weighed = weigh_guesses(scenario, layout, results.inputs, run, assumptions, progress=progress)
    intervals = calibrated_intervals(results.storage, layout.workload, results.inputs, run)
    limits = _job_limits(results, intervals.figures.get("write.seconds"))
    checks = with_remedies(run.targets, request, run, given=scenario.targets.model_fields_set)
    together, beyond = values_for_all_targets(request) if request.asks(GOODPUT) else ({}, [])
    needed = together
    if not request.asks(GOODPUT):
        needed = {f"storage.profile.{field}": rate for field, rate in run.required.file_system_rates.items()}
    return SizingReport(
        model=ModelSize.of(layout.model, layout.checkpoint_layout),
        checkpoint=layout.checkpoint_layout.size,
        layout=layout.checkpoint_layout.layout,
        training=memory,
        offload=results.offload,
        gradient_compression=results.gradient_compression,
        host_memory=results.host_memory,
        **(dict(run) | {"targets": intervals.add_to(weighed.add_to(checks))}),
        schema_version=scenario.schema_version,
        publication=results.publication,
        needed_together=together,
        targets_beyond_storage=beyond,
        run_length=_run_length(scenario, run),
        job_limits=limits,
        provenance=provenance_of(scenario, results.storage),
        prediction_intervals=intervals.figures,
        assumptions=assumptions,
        headline=weighed.headline,
        guesses=weighed.guesses,
        guessed_ranges=weighed.ranges,
        warnings=[
            *_warnings(results, cannot_run, limits),
            *planning_warnings(request, needed, beyond),
            *guess_warnings(layout, assumptions),
        ],
    )


class ScenarioWithLayout(NamedTuple):
    """Scenario with all its degrees, and how the degrees that it left open were chosen."""

    scenario: Scenario
    assumed: list[Assumption]
    """The layout and what it was judged by; empty where nothing was left open."""
    nothing_fits: CannotRun | None = None
    """Set where no layout fits, and the scenario has the one that needs least memory."""

    @property
    def warnings(self) -> list[str]:
        """Warnings about the chosen layout, for a report that has no assumptions."""
        return [*self._misfit, *(f"Assumed: {each.sentence}" for each in self.assumed)]

    @property
    def judged_by(self) -> list[str]:
        """Warnings about the choice without the layout itself, for a report that shows the layout."""
        others = (each for each in self.assumed if each.field != LAYOUT)
        return [*self._misfit, *(f"Assumed: {each.sentence}" for each in others)]

    def answer(self, *, progress: Callable[[float], None] | None = None) -> SizingReport:
        """Answer the scenario as `answer` does, with the choice of its layout among the assumptions."""
        return answer(self.scenario, assumed=self.assumed, nothing_fits=self.nothing_fits, progress=progress)

    @property
    def _misfit(self) -> list[str]:
        return [self.nothing_fits.sentence] if self.nothing_fits else []


def find_layout(scenario: Scenario | Mapping[str, Any]) -> ScenarioWithLayout:
    """Put a Scenario, or one as a JSON document, into the best layout that fits where it leaves the layout open.

    Raises InvalidInput where a field breaks a rule or no degrees multiply to the GPUs.
    """
    from sizing.questions.layouts.best import lay_out_document, lay_out_scenario  # noqa: PLC0415 - few need the search

    return lay_out_scenario(scenario) if isinstance(scenario, Scenario) else lay_out_document(scenario)


@dataclass(frozen=True, slots=True)
class _Results:
    """Results of each step of the calculation for a scenario, from which the report is made."""

    scenario: Scenario
    layout: SizedLayout
    storage: ResolvedStorage | None
    inputs: RunInputs
    offload: Offloaded | None
    gradient_compression: CompressedGradients | None
    host_memory: HostMemory
    run: RunReport
    publication: Published | None

    def host_memory_with(self, fields: Mapping[str, Any]) -> HostMemory:
        """Return the host memory with other fields of the checkpoint; another format gets a layout of its own.

        Raises InvalidInput where they do not go with the rest.
        """
        checkpoint = self.scenario.checkpoint.model_copy(update=fields)
        changed = self.scenario.model_copy(update={"checkpoint": checkpoint})
        return _host_memory(changed, size_layout(changed) if "format" in fields else self.layout, self.offload)


def _compute_results(scenario: Scenario) -> _Results:
    layout, storage, inputs = size_layout(scenario), resolve_storage(scenario.storage), scenario.run_inputs
    copy_rate = layout.workload.copy_bytes_per_second
    offload = offload_of(
        with_rate_of_link(scenario).training,
        scenario.parallelism,
        checkpoint_layout=layout.checkpoint_layout,
        model=layout.model,
        node=layout.node,
        link_bytes_per_second=None if copy_rate is None else float(copy_rate),  # as copies of saves
        uncopied_fraction=1.0 - float(layout.workload.write.linked_over_copied),
    )
    run = evaluate(layout.workload, inputs).report
    required = with_obstacle(
        run.required,
        inputs.targets,
        workload=layout.workload,
        profile=inputs.profile,
        checkpoint=inputs.checkpoint,
    )
    return _Results(
        scenario=scenario,
        layout=layout,
        storage=storage,
        inputs=inputs,
        offload=offload,
        gradient_compression=compressed_gradients(
            scenario.training, scenario.parallelism, checkpoint_layout=layout.checkpoint_layout
        ),
        host_memory=_host_memory(scenario, layout, offload),
        run=run.model_copy(update={"required": required}),
        publication=_publication(scenario, layout, storage),
    )


def _host_memory(scenario: Scenario, layout: SizedLayout, offload: Offloaded | None) -> HostMemory:
    return host_memory(
        layout.checkpoint_layout,
        scenario.parallelism,
        node=layout.node,
        checkpoint=scenario.checkpoint,
        plan=layout.workload.restores[scenario.checkpoint.restore],
        offloaded_bytes=offload.host_bytes if offload else 0,
    )


def _job_limits(results: _Results, write_interval: tuple[float, float] | None) -> list[JobLimit]:
    """Return the `job_limits` block of the report; `write_interval` holds nine of ten saves, where it is known."""
    scenario, layout, storage = results.scenario, results.layout, results.storage
    reliability = scenario.reliability
    demand = layout.workload.write
    given = None if storage is None else storage.profile.write.planning_seconds_per_rank
    per_rank = demand.planning_seconds_per_rank if given is None else given
    planning = float(demand.num_planned_ranks) * float(per_rank)
    return job_limits(
        LimitInputs(
            checkpoint_layout=layout.checkpoint_layout,
            parallelism=scenario.parallelism,
            framework=FRAMEWORKS[scenario.training.framework],
            checkpoint=scenario.checkpoint,
            node=layout.node.spec,
            run=results.run,
            gpu_memory=layout.memory,
            host_memory=results.host_memory,
            planning_seconds=planning,
            cached_planning_fraction=cached_planning_fraction(scenario.checkpoint) if given is None else 1.0,
            is_storage_in_nodes=storage is not None and storage.is_in_nodes,
            preemption=reliability.preemption if reliability else None,
            write_high_seconds=write_interval[1] if write_interval else None,
        )
    )


def _run_length(scenario: Scenario, run: RunReport) -> RunLength | None:
    """Return the `run_length` block of the report, at the run's interval and with its useful share of the time."""
    useful = run.shares.useful_fraction
    if useful is None and run.overhead.fraction is not None:
        useful = 1.0 - run.overhead.fraction
    return run_length(scenario.training, interval_seconds=scenario.checkpoint.interval_seconds, useful_fraction=useful)


def _publication(scenario: Scenario, layout: SizedLayout, storage: ResolvedStorage | None) -> Published | None:
    """Return the `publication` block of the report, where weights go to inference."""
    models = scenario.training.reinforcement
    publication = models.publication if models else None
    if publication is None:
        return None
    is_sharded = layout.checkpoint_layout.sharding.weights.dense > 1 or scenario.parallelism.model_parallel_size > 1
    weights = SentWeights.of(publication, scenario.training, layout.model.inventory, is_sharded=is_sharded)
    return publication_of(publication, storage.profile if storage else None, workload=layout.workload, weights=weights)


def _assumptions(results: _Results) -> Iterator[Assumption]:
    """Yield every value that the answer uses and the scenario did not state, in the order of the steps."""
    scenario, layout = results.scenario, results.layout
    yield from (with_further_bytes(default, results.run.capacity) for default in scenario.assumptions)
    if scenario.names_no_gpus:
        yield Assumption(field=NUM_GPUS, value=1, reason="neither GPUs nor degrees are given")
    yield from layout.model.assumptions
    yield from layout.node.assumptions
    yield from layout.checkpoint_layout.assumptions
    yield from execution_assumptions(scenario.training, scenario.parallelism)
    yield from _step_assumptions(results)
    yield from run_assumptions(layout.workload, results.inputs)
    models = scenario.training.reinforcement
    yield from publication_assumptions(models.publication if models else None, results.publication)


def _step_assumptions(results: _Results) -> Iterator[Assumption]:
    """Yield what the time of a step takes to be achieved and to be hidden by computing, where there is such a time."""
    scenario, layout = results.scenario, results.layout
    execution = execution_of(scenario.training, scenario.parallelism) if layout.memory.step else None
    if execution is not None:
        yield from rate_assumptions(scenario.training, layout.node.spec.gpu or "")
        network = guessed_network(layout.node.spec, scenario.parallelism.num_gpus)
        if network is not None:
            field = "cluster.node_spec.compute_network_bytes_per_second"
            yield Assumption(field=field, value=network.value, reason=network.reason)
        yield from overlap_assumptions(
            scenario.training,
            scenario.parallelism,
            schedule=execution.schedule,
            gathers=layout.checkpoint_layout.sharding.gathers,
        )


def _adapter_warnings(training: Training, model: ResolvedModel) -> Iterator[str]:
    """Warn of what a checkpoint of adapters lacks."""
    adapters = training.adapters
    if adapters is not None and not adapters.save_base:
        base = decimal_bytes_text(weights_bytes(model.inventory, "bf16"))
        yield (
            f"The checkpoint holds the adapters alone. A restart reads the frozen weights too, {base} in bf16 for each "
            "replica, which no restore time here counts: add that to reliability.relaunch_seconds, or save them with "
            "training.adapters.save_base. Adapters merged into the model at each save are an export: checkpoint.export"
        )


UNEVEN_TABLES = 1.1
"""From which multiple on another placement of tables is told: 10 % more, as figures are marked from."""


def _table_warnings(results: _Results) -> Iterator[str]:
    """Warn of what the largest rank writes where tables of a recommender lie otherwise than is counted."""
    scenario, layout = results.scenario, results.layout
    degrees, counted = scenario.parallelism, layout.checkpoint_layout.on_nodes.max_rank_bytes
    if degrees.places_tables:
        span = FsdpSpan.of(layout.checkpoint_layout.writers[0].span, FsdpMesh.of(degrees))
        if span.least_over_placed * UNEVEN_TABLES <= 1:
            yield (
                f"Tables are placed as TorchRec's planner does where all are read equally often, and the largest rank "
                f"has {decimal_bytes_text(counted)}. A plan that balances bytes would leave it about "
                f"{decimal_bytes_text(round(counted * span.least_over_placed))}"
            )
        return
    num_tables = sum(group.num_tensors for group in layout.model.inventory if group.role == "embedding")
    num_ranks = layout.checkpoint_layout.sharding.weights.dense
    if degrees.table_sharding or not is_row_wise(scenario.training.optimizer) or num_ranks == 1 or num_tables < 2:
        return
    try:
        placed = degrees.model_copy(update={"table_sharding": "table-wise"})
        whole = size_layout(scenario.model_copy(update={"parallelism": placed})).checkpoint_layout.on_nodes
    except InvalidInput:  # the format cuts tables in its own way, or the model has no list of them
        return
    if whole.max_rank_bytes >= UNEVEN_TABLES * counted:
        yield (
            f"Embedding tables are counted as cut by rows over {num_ranks:,} ranks. Where each stands whole on one "
            f"(parallelism.table_sharding table-wise), the largest rank has {decimal_bytes_text(whole.max_rank_bytes)} "
            f"in place of {decimal_bytes_text(counted)}, and a save waits for it"
        )


def _transfers_beside(results: _Results) -> Iterator[tuple[str, Steps]]:
    """Yield the transfers that run beside saves and restores, with their names for a sentence."""
    export, models = results.inputs.checkpoint.export, results.scenario.training.reinforcement
    if export is not None:
        yield "export", export_steps(export, results.layout.workload)
    if models is not None and models.publication is not None and results.publication is not None:
        num_bytes = results.publication.replica_bytes
        yield "publication", publication_steps(models.publication, results.layout.workload, num_bytes)


def _warnings(results: _Results, cannot_run: CannotRun | None, limits: Iterable[JobLimit]) -> Iterator[str]:
    """Yield what a reader must know before believing the figures, in the order of the steps."""
    scenario, storage, run, checkpoint = results.scenario, results.storage, results.run, results.scenario.checkpoint
    model, node, checkpoint_layout = results.layout.model, results.layout.node, results.layout.checkpoint_layout
    workload, on_nodes, beside = results.layout.workload, checkpoint_layout.on_nodes, dict(_transfers_beside(results))
    yield from client_warnings(storage)
    yield from scenario.version_warnings
    yield from scenario.trainer_warnings
    for together in FRAMEWORKS[scenario.training.framework].degrees_together:
        if together.warning and together.count(scenario.parallelism):
            yield together.warning
    yield from split_warnings(scenario.parallelism, model.num_layers, FRAMEWORKS[scenario.training.framework])
    if scenario.leaves_interval_open and results.layout.memory.step is None:
        yield (
            f"How long {scenario.checkpoint.interval_steps:,} steps take is not known, so that one checkpoint every "
            f"{seconds_text(checkpoint.interval_seconds)} is counted. Give training.step_seconds"
        )
    yield from model.warnings
    yield from size_warnings(checkpoint_layout.size)
    yield from _table_warnings(results)
    yield from _adapter_warnings(scenario.training, model)
    yield from uncounted_state_warnings(scenario.training)
    yield from [cannot_run.sentence] if cannot_run else []
    yield from results.layout.memory_warnings
    if results.layout.memory.step is not None:
        yield from network_warnings(node, scenario.parallelism.num_gpus)
    yield from offload_warnings(results.offload, mode=checkpoint.mode)
    yield from compression_warnings(results.gradient_compression, total_bytes=checkpoint_layout.size.total_bytes)
    formats = [each.name for each in formats_of(scenario.training.framework)]
    yield from host_memory_warnings(
        results.host_memory, checkpoint=checkpoint, formats=formats, memory_with=results.host_memory_with
    )
    told: tuple[JobLimitName, ...] = ("host-memory",)
    if cannot_run is not None or results.layout.memory.fits is False:
        told = (*told, "gpu-memory")
    if run.recovery is not None and run.recovery.saved_in_notice_fraction == 0.0:
        told = (*told, "preemption-notice")
    if not run.capacity.fits_disk:
        told = (*told, "free-space")
    yield from job_limit_warnings(limits, told=told)
    yield from node_warnings(storage, node=node, workload=workload, checkpoint=checkpoint, beside=beside)
    yield from measurement_warnings(storage, layout=on_nodes)
    yield from calibration_warnings(storage, workload, strategy=run.restore.strategy)
    restore_steps = workload.steps(checkpoint.restore)
    yield from needed_warnings(run.required.file_system_rates, storage, node=node, steps=restore_steps)
    yield from run_warnings(run, results.inputs, workload=workload, layout=on_nodes)
    yield from publication_warnings(results.publication, has_adapters=scenario.training.adapters is not None)
