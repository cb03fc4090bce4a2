"""What a question about stages on unlike nodes must say, and sentences where it does not."""

from __future__ import annotations

from sizing.cluster import ResolvedKind
from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.fit import check_counts
from sizing.model import ResolvedModel
from sizing.state import Training
from sizing.training.execution import Execution, execution_of
from sizing.training.memory.activations import uncounted_activations
from sizing.training.time.work import ModelWork, model_work
from sizing.training.unlike.partition import MAX_STEPS, num_steps


def stages_by_kind(kinds: tuple[ResolvedKind, ...], parallelism: Parallelism) -> tuple[int, ...]:
    """How many whole stages the GPUs of each kind make: n_k g_k/(tensor x context x data), n_k nodes of g_k GPUs.

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
    """Refuse more than can be dealt in seconds."""
    if num_steps(counts) > MAX_STEPS:
        raise InvalidInput.of(
            "cluster.nodes",
            f"must be kinds with at most {MAX_STEPS:,} steps: the product of their stages plus 1, times the squared "
            "number of kinds",
            value=num_steps(counts),
            remedy="give fewer kinds or a lower parallelism.pipeline",
        )


def check_kinds(kinds: tuple[ResolvedKind, ...]) -> None:
    """Refuse kinds of which nobody says how fast or how large a GPU is."""
    for number, kind in enumerate(kinds):
        for name, what in (("gpu", "how fast its GPUs are"), ("gpu_memory_bytes", "what fits its GPUs")):
            if getattr(kind.node.spec, name) is None:
                raise InvalidInput.of(
                    f"cluster.nodes.{number}.node_spec.{name}",
                    f"is required to say {what}",
                    value=None,
                    remedy=f"give it for {kind.name}",
                )


def timed_execution(training: Training, parallelism: Parallelism) -> Execution:
    """How a step runs, where it has a batch, and each device one stage."""
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


def counted_work(model: ResolvedModel) -> ModelWork:
    """What the model computes, where it is counted."""
    work = model_work(model)
    if work is None or not model.num_layers:
        raise InvalidInput.of(
            "model",
            "must be one whose operations are counted",
            value=model.name,
            remedy=uncounted_activations(model) or "give its architecture",
        )
    return work
