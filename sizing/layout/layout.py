"""From model, state and degrees to ranks, writers, files and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.cluster import Cluster, ResolvedNode
from sizing.layout.cells import Cell, cells_of
from sizing.layout.checkpoint import CheckpointFiles
from sizing.layout.files import Plan, WriterClass
from sizing.layout.fit import check_fit
from sizing.layout.formats import FORMAT_OF_FRAMEWORK, FormatName, check_format, zero_stage_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.ranks import Layout, layout_of
from sizing.layout.shards import Content
from sizing.layout.size import CheckpointSize, size_of
from sizing.layout.stages import stage_spans
from sizing.layout.writers import writers_of
from sizing.model import ResolvedModel
from sizing.model.inventory import Inventory
from sizing.model.trained import with_adapters, with_frozen
from sizing.provenance import Assumption
from sizing.state import StatePart, Training, saved_parts
from sizing.state.saved_state import PartName


@dataclass(frozen=True, slots=True)
class LaidOut:
    """Sizes and layout for the report, and what later steps need beside them.

    `dense_bytes` and `expert_bytes` are those of each part in the files; `max_dense` and `max_expert` are what the
    rank with most parameters holds.
    """

    size: CheckpointSize
    layout: Layout
    zero_stage: int
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
    name = checkpoint.format or FORMAT_OF_FRAMEWORK[training.framework]
    check_fit(model, parallelism, cluster)
    check_format(name, training, parallelism, mode=checkpoint.mode, files_per_rank=checkpoint.files_per_rank)
    stage = zero_stage_of(name, parallelism)
    parts = saved_parts(training, zero_stage=stage)
    inventory = trained_inventory(model.inventory, training)
    num_layers = model.architecture.num_layers if model.architecture else 0
    spans = stage_spans(inventory, parallelism, num_layers=num_layers)
    cells = cells_of(spans, parallelism, parts)
    plan = Plan(
        spans,
        cells,
        parallelism,
        parts,
        checkpoint.files_per_rank or 1,
        _optimizer_prefix(training),
        _experts_per_rank(model, parallelism),
    )
    writers = writers_of(name, plan)
    size = size_of(inventory, parts, parallelism, name=name, checkpoint=checkpoint, writers=writers)
    files = [(writer.num_ranks, file) for writer in writers for file in writer.files]
    return LaidOut(
        size=size,
        layout=layout_of(parallelism, node=node, size=size, writers=writers),
        zero_stage=stage,
        dense_bytes={part.name: sum(n * f.dense.get(part.name, 0) for n, f in files) for part in parts},
        expert_bytes={part.name: sum(n * f.expert.get(part.name, 0) for n, f in files) for part in parts},
        max_dense=max((cell.dense for cell in cells), key=lambda content: content.parameters),
        max_expert=max((cell.expert for cell in cells), key=lambda content: content.parameters),
        num_trained_parameters=sum(group.num_parameters for group in inventory if group.is_trained),
        assumptions=tuple(_assumptions(name, training, parallelism, checkpoint, stage)),
        writers=writers,
        parts=parts,
        cells=cells,
    )


def _experts_per_rank(model: ResolvedModel, parallelism: Parallelism) -> int:
    num_experts = model.architecture.num_experts if model.architecture else None
    return (num_experts or 0) // parallelism.expert


def _optimizer_prefix(training: Training) -> str:
    """What DeepSpeed puts before the name of an optimizer file: its bf16 optimizer says so, others do not."""
    return "bf16_" if training.precision == "bf16-mixed" else ""


def trained_inventory(inventory: Inventory, training: Training) -> Inventory:
    """The inventory with what is frozen marked, and the adapters beside it.

    Raises InvalidInput for a name that no tensor has.
    """
    if training.adapters is not None:
        adapters = training.adapters
        field = "training.adapters.tensors"
        inventory = with_adapters(inventory, rank=adapters.rank, names=adapters.tensors, field=field)
    return with_frozen(inventory, training.frozen, field="training.frozen") if training.frozen else inventory


def _assumptions(
    name: FormatName, training: Training, parallelism: Parallelism, checkpoint: CheckpointFiles, zero_stage: int
) -> list[Assumption]:
    assumed = []
    if checkpoint.format is None:
        reason = f"default of framework {training.framework}"
        assumed.append(Assumption(field="checkpoint.format", value=name, reason=reason))
    if name == "deepspeed" and parallelism.zero_stage is None:
        assumed.append(Assumption(field="parallelism.zero_stage", value=zero_stage, reason="default"))
    if name == "torch-dist":
        reason = "the planner balances by tensors; equal shares of a stage are assumed"
        assumed.append(Assumption(field="layout.rank_classes", value="equal shares", reason=reason))
    return assumed
