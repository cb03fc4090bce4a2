"""From model, state and degrees to ranks, writers, files and bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sizing.cluster import Cluster, ResolvedNode
from sizing.layout.cells import Cell, cells_of
from sizing.layout.chunks import split_assumptions
from sizing.layout.file_settings import CheckpointFiles
from sizing.layout.files import PartBytes, Plan, WriterClass, written_files
from sizing.layout.fit import check_fit
from sizing.layout.formats import CheckpointFormat, check_format, format_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.ranks import Layout, layout_of
from sizing.layout.sharding import Sharding, has_distributed_optimizer, sharding_of, zero_stage_of
from sizing.layout.shards import Content
from sizing.layout.size import CheckpointSize, size_of
from sizing.layout.stages import stage_spans
from sizing.model import ResolvedModel
from sizing.model.inventory import Inventory
from sizing.model.trained import with_adapters, with_frozen
from sizing.provenance import Assumption
from sizing.state import StatePart, Training, saved_parts
from sizing.state.saved_state import PartName


@dataclass(frozen=True, slots=True)
class LaidOut:
    """Sizes and layout for the report, and what later steps need.

    `dense_bytes` and `expert_bytes` are those of each part in the files; `max_dense` and `max_expert` are what the
    rank with the max of parameters holds.
    """

    size: CheckpointSize
    layout: Layout
    saved_as: CheckpointFormat
    sharding: Sharding
    dense_bytes: dict[PartName, int]
    expert_bytes: dict[PartName, int]
    max_dense: Content
    max_expert: Content
    num_trained_parameters: int
    assumptions: tuple[Assumption, ...]
    writers: tuple[WriterClass, ...]
    parts: tuple[StatePart, ...]
    cells: tuple[Cell, ...]


def lay_out(
    model: ResolvedModel,
    training: Training,
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    cluster: Cluster,
    checkpoint: CheckpointFiles,
) -> LaidOut:
    """Sizes and writers of one checkpoint.

    Raises InvalidInput where the degrees do not fit the model or the number of GPUs, or the format does not
    fit the framework.
    """
    saved_as = format_of(checkpoint.format, training.framework)
    check_fit(model, parallelism, cluster)
    check_format(saved_as, training, parallelism, mode=checkpoint.mode, files_per_rank=checkpoint.files_per_rank)
    inventory = trained_inventory(model.inventory, training)
    plan = _plan(inventory, model, training, parallelism, saved_as=saved_as, files_per_rank=checkpoint.files_per_rank)
    parts, cells, writers = plan.parts, plan.cells, tuple(saved_as.writer_classes(plan))
    size = size_of(inventory, parts, parallelism, saved_as=saved_as, checkpoint=checkpoint, writers=writers)
    files = written_files(writers)
    return LaidOut(
        size=size,
        layout=layout_of(parallelism, node=node, size=size, writers=writers, container=saved_as.container),
        saved_as=saved_as,
        sharding=sharding_of(training, parallelism),
        dense_bytes=_bytes_by_part(parts, [(n, file.dense) for n, file in files]),
        expert_bytes=_bytes_by_part(parts, [(n, file.expert) for n, file in files]),
        max_dense=max((cell.dense for cell in cells), key=lambda content: content.parameters),
        max_expert=max((cell.expert for cell in cells), key=lambda content: content.parameters),
        num_trained_parameters=sum(group.num_parameters for group in inventory if group.is_trained),
        assumptions=(
            *_assumptions(saved_as, training, parallelism, checkpoint),
            *split_assumptions(parallelism, model.num_layers),
        ),
        writers=writers,
        parts=parts,
        cells=cells,
    )


def _bytes_by_part(parts: Iterable[StatePart], held: Sequence[tuple[int, PartBytes]]) -> dict[PartName, int]:
    """The bytes of each part that so many ranks hold each."""
    return {part.name: sum(n * num_bytes.get(part.name, 0) for n, num_bytes in held) for part in parts}


def _plan(
    inventory: Inventory,
    model: ResolvedModel,
    training: Training,
    parallelism: Parallelism,
    *,
    saved_as: CheckpointFormat,
    files_per_rank: int | None,
) -> Plan:
    parts = saved_parts(
        training,
        has_weights_beside_master=saved_as.has_weights_beside_master(parallelism),
        copies_fp32_weights=sharding_of(training, parallelism).copies_fp32_weights,
    )
    spans = stage_spans(inventory, parallelism, num_layers=model.num_layers)
    return Plan(
        spans=spans,
        cells=cells_of(spans, parallelism, parts),
        parallelism=parallelism,
        parts=parts,
        precision=training.precision,
        files_per_rank=files_per_rank or 1,
        experts_per_rank=(model.num_experts or 0) // parallelism.expert,
    )


def trained_inventory(inventory: Inventory, training: Training) -> Inventory:
    """The inventory with what is frozen marked, and the adapters.

    Raises InvalidInput for a name that no tensor has.
    """
    if training.adapters is not None:
        adapters = training.adapters
        field = "training.adapters.tensors"
        inventory = with_adapters(inventory, rank=adapters.rank, names=adapters.tensors, field=field)
    return with_frozen(inventory, training.frozen, field="training.frozen") if training.frozen else inventory


def _assumptions(
    saved_as: CheckpointFormat, training: Training, parallelism: Parallelism, checkpoint: CheckpointFiles
) -> Iterator[Assumption]:
    if checkpoint.format is None:
        reason = f"default of framework {training.framework}"
        yield Assumption(field="checkpoint.format", value=saved_as.name, reason=reason)
    if "distributed_optimizer" in saved_as.takes and training.distributed_optimizer is None:
        field, value = "training.distributed_optimizer", has_distributed_optimizer(training)
        yield Assumption(field=field, value=value, reason="default of Megatron-LM, use_distributed_optimizer")
    if "zero_stage" in saved_as.takes and parallelism.zero_stage is None:
        yield Assumption(field="parallelism.zero_stage", value=zero_stage_of(parallelism), reason="default")
    yield from saved_as.assumptions
