"""Request for stages on unlike nodes: a scenario, how its GPUs may be filled, and what the scenario must say."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from sizing.cluster import ResolvedKind
from sizing.cluster.cluster import resolve_kinds
from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.fit import check_counts
from sizing.model import ResolvedModel
from sizing.questions.headroom import HeadroomFraction
from sizing.scenario import Scenario
from sizing.state import Training
from sizing.strict_model import InputModel
from sizing.training.activations import uncounted_activations
from sizing.training.execution import Execution, execution_of
from sizing.training.layer_work import ModelWork, model_work
from sizing.training.memory_search import HEADROOM_FRACTION
from sizing.training.unlike_workers import MAX_STEPS, num_steps

REFERENCE_STAGES: dict[str, Any] = {
    "scenario": {
        "model": {"preset": "llama-3.1-70b"},
        "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 256},
        "parallelism": {"tensor": 8, "pipeline": 8, "data": 2},
        "cluster": {
            "nodes": [
                {"count": 8, "node": "dgx-a100", "storage_nics": "1 x 100 Gb/s"},
                {"count": 8, "node": "dgx-h100", "storage_nics": "2 x 400 Gb/s"},
            ]
        },
        "storage": {"profile": {"write_bytes_per_second": "100 GB/s", "read_bytes_per_second": "100 GB/s"}},
    }
}
"""70B on what an older cluster and a newer one have together."""

MAX_CLOCK_DISTANCE = 1000
"""Max waves between virtual workers: 4 and 32 are the values of HetPipe's paper."""


class StagesRequest(InputModel):
    """A scenario whose pipeline stands on nodes of several kinds."""

    model_config = ConfigDict(json_schema_extra={"examples": [REFERENCE_STAGES]})

    scenario: Scenario = Field(
        description="Model, batch and degrees, and cluster.nodes with the count of each kind. Its split of the layers "
        "is what the balanced one is compared with, in the order of cluster.nodes."
    )
    headroom_fraction: HeadroomFraction = Field(
        HEADROOM_FRACTION, description="Fraction of a GPU's memory kept free for what is not counted."
    )
    clock_distance: Annotated[int, Field(ge=0, le=MAX_CLOCK_DISTANCE)] = Field(
        0,
        description="Waves by which a virtual worker may be ahead of the slowest, D in HetPipe's paper. "
        "Default: 0, all wait for each other after each wave.",
    )


def stages_by_kind(kinds: tuple[ResolvedKind, ...], parallelism: Parallelism) -> tuple[int, ...]:
    """Count the whole stages that the GPUs of each kind make: n_k g_k/(tensor x context x data), n_k nodes of g_k GPUs.

    Source: definition.

    >>> from sizing.cluster.cluster import Cluster, resolve_kinds
    >>> kinds = resolve_kinds(Cluster(nodes="1 x dgx-a100, 2 x dgx-h100"))
    >>> stages_by_kind(kinds, Parallelism(pipeline=3, data=8))
    (1, 2)

    Raises InvalidInput where kinds are not counted, do not make whole stages or not as many as the pipeline has.
    """
    if not kinds or not all(kind.count for kind in kinds):
        remedy = "give kinds with their counts: 4 x dgx-a100 and 4 x dgx-h100"
        raise InvalidInput.of("cluster.nodes", "is required to place stages on", value=None, remedy=remedy)
    check_counts(kinds, parallelism)
    stage = parallelism.ranks_per_stage
    for kind in kinds:
        if kind.num_gpus % stage:
            raise InvalidInput.of(
                "cluster.nodes",
                f"must have whole pipeline stages of tensor x context x data = {stage:,} GPUs of each kind",
                value=f"{kind.num_gpus:,} GPUs of {kind.name}",
                remedy="change its count, or a degree",
            )
    counts = tuple(kind.num_gpus // stage for kind in kinds)
    check_size(counts)
    return counts


def check_size(counts: tuple[int, ...]) -> None:
    """Raise InvalidInput where the search for a partition would take longer than seconds."""
    if num_steps(counts) > MAX_STEPS:
        raise InvalidInput.of(
            "cluster.nodes",
            f"must be kinds with at most {MAX_STEPS:,} steps: the product of their stages plus 1, times the squared "
            "number of kinds",
            value=num_steps(counts),
            remedy="give fewer kinds or a lower parallelism.pipeline",
        )


def check_kinds(kinds: tuple[ResolvedKind, ...]) -> None:
    """Raise InvalidInput for kinds of nodes whose GPU or GPU memory is not known."""
    for number, kind in enumerate(kinds):
        for name, what in (("gpu", "how fast its GPUs are"), ("gpu_memory_bytes", "what fits its GPUs")):
            if getattr(kind.node.spec, name) is None:
                raise InvalidInput.of(
                    f"cluster.nodes.{number}.node_spec.{name}",
                    f"is required to say {what}",
                    value=None,
                    remedy=f"give it for {kind.name}",
                )


def require_execution(training: Training, parallelism: Parallelism) -> Execution:
    """Return the execution of a step. Raises InvalidInput where it has no batch, or a device more than one stage."""
    if parallelism.rank_order[-1] != "pipeline":
        raise InvalidInput.of(
            "parallelism.rank_order",
            "must end with pipeline where stages stand on nodes of their own",
            value=parallelism.rank_order[-1],
            remedy="leave it out",
        )
    if parallelism.virtual_pipeline > 1:
        raise InvalidInput.of(
            "parallelism.virtual_pipeline",
            "must be 1 where stages hold unlike numbers of layers",
            value=parallelism.virtual_pipeline,
            remedy="leave it out",
        )
    execution = execution_of(training, parallelism)
    if execution is None or execution.num_microbatches is None:
        missing = [n for n in ("sequence_length", "micro_batch_size", "global_batch_size") if not getattr(training, n)]
        raise InvalidInput.of(
            f"training.{missing[0]}",
            "is required to say how long a stage takes",
            value=None,
            remedy="give training.sequence_length, micro_batch_size and global_batch_size",
        )
    if execution.rules.is_two_way:
        raise InvalidInput.of(
            "training.schedule",
            "must be one that runs one way: with this one each device holds two stages",
            value=execution.schedule,
            remedy="give 1f1b",
        )
    return execution


def require_stages(request: StagesRequest) -> None:
    """Raise InvalidInput where the scenario lacks what stages are placed by: kinds of nodes, their GPUs, a batch."""
    kinds = resolve_kinds(request.scenario.cluster)
    stages_by_kind(kinds, request.scenario.parallelism)
    check_kinds(kinds)
    require_execution(request.scenario.training, request.scenario.parallelism)


def require_work(model: ResolvedModel, training: Training) -> ModelWork:
    """Return the work of the model as it is trained. Raises InvalidInput where that is not counted."""
    work = model_work(model, training)
    if work is None or not model.num_layers:
        raise InvalidInput.of(
            "model",
            "must be one whose operations are counted",
            value=model.name,
            remedy=uncounted_activations(model) or "give its architecture",
        )
    return work
