"""The answer: a SizingReport, and `answer`, which alone knows the order of the steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.cluster.cluster import resolve_node
from sizing.errors import InvalidInput
from sizing.layout import CheckpointSize, LaidOut, Layout, Parallelism, lay_out
from sizing.layout.manifest import ManifestRow, manifest
from sizing.layout.resolved import resolved_model
from sizing.layout.saved_tensors import SavedByRank, saved_by_rank
from sizing.model import ResolvedModel
from sizing.model.inventory import num_routed_expert_parameters
from sizing.origins import intervals, provenance_of
from sizing.provenance import Assumption, Provenance, defaults_used
from sizing.run.costs import Cost
from sizing.run.demands import Demands, demands_of
from sizing.run.evaluation import evaluate, run_assumptions, run_warnings
from sizing.run.goodput import Interval
from sizing.run.host_memory import HostMemory, host_memory, host_memory_warnings
from sizing.run.measured import calibration_warnings, measurement_warnings
from sizing.run.overhead import Overhead
from sizing.run.requirements import Required
from sizing.run.resharding import check_resharding
from sizing.run.restore import Restore
from sizing.run.retention import Capacity
from sizing.run.targets import TargetCheck
from sizing.run.tiers import TierRow
from sizing.run.write import Write
from sizing.scenario import Scenario
from sizing.storage.storage import resolve_storage
from sizing.training import GpuMemory, gpu_memory
from sizing.training.execution import execution_assumptions
from sizing.training.memory_question import MemoryQuestion
from sizing.training.nearest import memory_warnings


class ModelSize(BaseModel):
    """The `model` block of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    num_parameters: int
    num_active_parameters: int = Field(description="that one token passes through")
    num_routed_expert_parameters: int
    num_trained_parameters: int

    @classmethod
    def of(cls, model: ResolvedModel, laid_out: LaidOut) -> ModelSize:
        """What the report says of a model."""
        return cls(
            name=model.name,
            num_parameters=model.num_parameters,
            num_active_parameters=model.num_active_parameters,
            num_routed_expert_parameters=num_routed_expert_parameters(model.inventory),
            num_trained_parameters=laid_out.num_trained_parameters,
        )


class SizingReport(BaseModel):
    """What a checkpoint of the scenario weighs, takes, costs and needs. What is None is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: ModelSize
    checkpoint: CheckpointSize
    layout: Layout
    training: GpuMemory
    host_memory: HostMemory
    write: Write | None
    restore: Restore
    overhead: Overhead
    interval: Interval
    required: Required
    tiers: list[TierRow]
    targets: list[TargetCheck]
    capacity: Capacity
    cost: Cost | None
    provenance: list[Provenance]
    prediction_intervals: dict[str, tuple[float, float]] = Field(
        description="that hold nine of ten measurements, by the path of the figure; only with a calibration"
    )
    assumptions: list[Assumption]
    warnings: list[str]


def answer(scenario: Scenario) -> SizingReport:
    """The SizingReport of a Scenario.

    Raises InvalidInput where a name is unknown or the layout contradicts the model or the cluster.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> report = answer(scenario_from(REFERENCE_SCENARIO))
    >>> round(report.write.seconds, 2), report.layout.num_writers, report.write.bottleneck
    (50.55, 512, 'file-system')
    """
    training, parallelism, storage = scenario.training, scenario.parallelism, resolve_storage(scenario.storage)
    model = _resolved(scenario)
    node = resolve_node(scenario.cluster)
    laid_out = _laid_out(scenario, model, node)
    memory = gpu_memory(
        training,
        parallelism,
        cells=laid_out.cells,
        format_name=laid_out.size.format,
        model=model,
        node=node,
    )
    asked = MemoryQuestion(scenario.model, training, format_name=laid_out.size.format, node=node)
    memory_of_hosts = host_memory(laid_out, node=node, checkpoint=scenario.checkpoint)
    inputs = scenario.run_inputs
    demands = demands_of(laid_out, parallelism, node=node, restored=_restored(scenario, model, node, laid_out))
    run = evaluate(demands, inputs)
    return SizingReport(
        model=ModelSize.of(model, laid_out),
        checkpoint=laid_out.size,
        layout=laid_out.layout,
        training=memory,
        host_memory=memory_of_hosts,
        write=run.write,
        restore=run.restore,
        overhead=run.overhead,
        interval=run.interval,
        required=run.required,
        tiers=run.tiers,
        targets=run.targets,
        capacity=run.capacity,
        cost=run.cost,
        provenance=provenance_of(scenario, storage),
        prediction_intervals=intervals(storage, demands, run),
        assumptions=[
            *defaults_used(scenario),
            *model.assumptions,
            *node.assumptions,
            *laid_out.assumptions,
            *execution_assumptions(training, parallelism),
            *run_assumptions(demands, inputs),
        ],
        warnings=[
            *memory_warnings(memory, asked, parallelism),
            *host_memory_warnings(memory_of_hosts),
            *measurement_warnings(storage, layout=laid_out.layout),
            *calibration_warnings(storage, demands, strategy=run.restore.strategy),
            *run_warnings(run, inputs, demands=demands, layout=laid_out.layout, node=node),
        ],
    )


def demands_of_scenario(scenario: Scenario) -> Demands:
    """What saving and restoring asks of the storage: all that `run.evaluation.evaluate` needs of model and layout.

    Raises InvalidInput as `answer` does.
    """
    model, node = _resolved(scenario), resolve_node(scenario.cluster)
    laid_out = _laid_out(scenario, model, node)
    restored = _restored(scenario, model, node, laid_out)
    return demands_of(laid_out, scenario.parallelism, node=node, restored=restored)


def manifest_of(scenario: Scenario) -> Iterator[ManifestRow]:
    """Every file of the scenario's checkpoint by name.

    Raises InvalidInput as `answer` does, and for worlds of more than 100,000 ranks.
    """
    node = resolve_node(scenario.cluster)
    laid_out = _laid_out(scenario, _resolved(scenario), node)
    return manifest(laid_out, scenario.parallelism, gpus_per_node=node.spec.gpus_per_node)


def saved_by_rank_of(scenario: Scenario) -> SavedByRank:
    """Every tensor that each rank of the scenario writes.

    Raises InvalidInput as `manifest_of` does.
    """
    node = resolve_node(scenario.cluster)
    laid_out = _laid_out(scenario, _resolved(scenario), node)
    return saved_by_rank(laid_out, scenario.parallelism, gpus_per_node=node.spec.gpus_per_node)


def _resolved(scenario: Scenario) -> ResolvedModel:
    return resolved_model(scenario.model, scenario.training, scenario.parallelism)


def _laid_out(scenario: Scenario, model: ResolvedModel, node: ResolvedNode) -> LaidOut:
    return lay_out(
        model,
        scenario.training,
        scenario.parallelism,
        node=node,
        cluster=scenario.cluster,
        checkpoint=scenario.checkpoint,
    )


def _restored(
    scenario: Scenario, model: ResolvedModel, node: ResolvedNode, saved: LaidOut
) -> tuple[LaidOut, Parallelism]:
    """The layout that restores, and its degrees: the one that saved, or `checkpoint.restore_parallelism`.

    Raises InvalidInput where the format cannot be read into it.
    """
    degrees = scenario.checkpoint.restore_parallelism
    if degrees is None:
        return saved, scenario.parallelism
    check_resharding(saved.size.format, scenario.parallelism, degrees)
    cluster = scenario.cluster.model_copy(update={"num_gpus": None})
    try:
        return _laid_out(scenario.model_copy(update={"parallelism": degrees, "cluster": cluster}), model, node), degrees
    except InvalidInput as error:
        problems = (replace(problem, field=f"checkpoint.restore_{problem.field}") for problem in error.problems)
        raise InvalidInput(problems) from None
