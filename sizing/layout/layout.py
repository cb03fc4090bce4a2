"""From model, state and degrees to ranks, writers, files and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import Cluster, ResolvedNode
from sizing.layout.cells import Cell, cells_of
from sizing.layout.checkpoint import CheckpointFiles
from sizing.layout.containers import (
    CONTAINERS,
    GENERATOR_STATE_BYTES,
    SCHEDULER_AND_DATA_BYTES,
    Container,
    container_bytes,
    metadata_bytes,
)
from sizing.layout.fit import check_fit
from sizing.layout.formats import FORMAT_OF_FRAMEWORK, FORMATS, FormatName, check_format, zero_stage_of
from sizing.layout.parallelism import Parallelism
from sizing.layout.placement import place_writers
from sizing.layout.replication import copies_in_files, group_bytes
from sizing.layout.shards import Content
from sizing.layout.stages import stage_spans
from sizing.layout.writers import File, Plan, WriterClass, writers_of, writers_per_stage
from sizing.model import ResolvedModel
from sizing.model.inventory import Inventory
from sizing.model.trained import with_adapters, with_frozen
from sizing.provenance import Assumption
from sizing.state import StatePart, Training, saved_parts
from sizing.state.saved_state import PartName


class PartSize(BaseModel):
    """One part of the saved state, over the whole checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    bytes_per_parameter: float
    logical_bytes: int
    replicated_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of the part in the files."""
        return self.logical_bytes + self.replicated_bytes


class ReplicatedTensors(BaseModel):
    """Tensors that stand in the files more than once: `copies` times (of the weights) instead of once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tensors: str
    copies: int
    replicated_bytes: int = Field(description="beyond the first copy")


class CheckpointSize(BaseModel):
    """The `checkpoint` block of the report: the bytes of one checkpoint.

    `logical_bytes` holds every parameter once, `replicated_bytes` what the files repeat; their sum is
    `total_bytes`. `written_bytes` is what times and rates are computed from: `observed_bytes` where it is
    given, else `total_bytes`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: FormatName
    logical_bytes: int
    replicated_bytes: int
    total_bytes: int
    observed_bytes: int | None
    observed_over_logical: float | None
    written_bytes: int
    bytes_per_parameter: float = Field(description="of logical_bytes")
    num_files: int
    container_bytes: int = Field(description="headers and pickles of the files, beyond total_bytes")
    small_state_bytes: dict[str, int] = Field(description="counted apart, beyond total_bytes")
    parts: dict[PartName, PartSize]
    replicated: list[ReplicatedTensors]


class RankFile(BaseModel):
    """Files of one name pattern that each rank of a class writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    count: int
    num_bytes: int = Field(description="of the tensors in all of them together")
    container_bytes: int = Field(description="of headers and pickles, beyond num_bytes")


class RankClass(BaseModel):
    """Ranks that write files of equal sizes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stages: str = Field(description="pipeline stages, first-last")
    ranks: str = Field(description="tensor ranks, FSDP shards or, in torch-dist, ranks of the stage, first-last")
    copies: str = Field(description="which of the ranks that hold the same tensors, first-last")
    num_ranks: int
    num_layers: int = Field(description="layers on each of the stages")
    bytes_per_rank: int
    files: list[RankFile]


class Layout(BaseModel):
    """The `layout` block of the report: who holds and who writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str
    gpus_per_node: int
    num_gpus: int
    num_nodes: int
    num_replicas: int
    num_writers: int
    num_writing_nodes: int
    max_writers_per_node: int
    max_rank_bytes: int
    mean_rank_bytes: int
    largest_over_mean: float = Field(description="of what a writer writes")
    rank_classes: list[RankClass]


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
    size = _size(inventory, parts, parallelism, name=name, checkpoint=checkpoint, writers=writers)
    files = [(writer.num_ranks, file) for writer in writers for file in writer.files]
    return LaidOut(
        size=size,
        layout=_layout(parallelism, node=node, size=size, writers=writers),
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


def _size(
    inventory: Inventory,
    parts: tuple[StatePart, ...],
    parallelism: Parallelism,
    *,
    name: FormatName,
    checkpoint: CheckpointFiles,
    writers: tuple[WriterClass, ...],
) -> CheckpointSize:
    logical = {part.name: sum(group_bytes(g, part) for g in inventory) for part in parts}
    num_parameters = sum(group.num_parameters for group in inventory)
    written = {part.name: _part_bytes(writers, part.name) for part in parts}
    total, logical_total = sum(written.values()), sum(logical.values())
    observed = checkpoint.observed_bytes
    return CheckpointSize(
        format=name,
        logical_bytes=logical_total,
        replicated_bytes=total - logical_total,
        total_bytes=total,
        observed_bytes=observed,
        observed_over_logical=observed / logical_total if observed else None,
        written_bytes=observed or total,
        bytes_per_parameter=logical_total / num_parameters,
        num_files=sum(writer.num_ranks * file.count for writer in writers for file in writer.files),
        container_bytes=sum(
            writer.num_ranks * _container_bytes(CONTAINERS[FORMATS[name].container], file)
            for writer in writers
            for file in writer.files
        ),
        small_state_bytes=_small_state(inventory, parts, name=name, writers=writers),
        parts={
            part.name: PartSize(
                dtype=part.dtype,
                bytes_per_parameter=logical[part.name] / num_parameters,
                logical_bytes=logical[part.name],
                replicated_bytes=written[part.name] - logical[part.name],
            )
            for part in parts
        },
        replicated=_replicated(inventory, parts, parallelism, name),
    )


def _small_state(
    inventory: Inventory, parts: tuple[StatePart, ...], *, name: FormatName, writers: tuple[WriterClass, ...]
) -> dict[str, int]:
    """What stands in the files beside the tensors of the model and its optimizer."""
    num_writers = sum(writer.num_ranks for writer in writers)
    small = {
        "random-number generators": num_writers * GENERATOR_STATE_BYTES,
        "scheduler and data position": num_writers * SCHEDULER_AND_DATA_BYTES,
    }
    if FORMATS[name].container == "distcp":
        num_shards = sum(writer.num_ranks * file.num_tensors for writer in writers for file in writer.files)
        num_tensors = sum(g.num_tensors * part.num_statistics for g in inventory for part in parts)
        small[".metadata"] = metadata_bytes(num_tensors=num_tensors, num_shards=num_shards)
    return small


def _container_bytes(container: Container, file: File) -> int:
    return container_bytes(container, num_files=file.count, num_tensors=file.num_tensors)


def _replicated(
    inventory: Inventory, parts: tuple[StatePart, ...], parallelism: Parallelism, name: FormatName
) -> list[ReplicatedTensors]:
    rows = []
    for group in inventory:
        copies = [copies_in_files(group, part.name, name, parallelism) for part in parts]
        extra = sum((n - 1) * group_bytes(group, part) for n, part in zip(copies, parts, strict=True) if n > 1)
        if extra:
            rows.append(ReplicatedTensors(tensors=group.name, copies=copies[0], replicated_bytes=extra))
    return sorted(rows, key=lambda row: -row.replicated_bytes)


def _layout(
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    size: CheckpointSize,
    writers: tuple[WriterClass, ...],
) -> Layout:
    gpus_per_node = node.spec.gpus_per_node
    placement = place_writers(
        parallelism,
        writers_per_stage=writers_per_stage(size.format, parallelism),
        gpus_per_node=gpus_per_node,
    )
    scale = size.written_bytes / size.total_bytes if size.observed_bytes is not None else None
    container = CONTAINERS[FORMATS[size.format].container]
    classes = [_rank_class(writer, scale, container) for writer in writers]
    num_writers = sum(writer.num_ranks for writer in writers)
    largest = max(c.bytes_per_rank for c in classes)
    return Layout(
        node=node.name,
        gpus_per_node=gpus_per_node,
        num_gpus=parallelism.num_gpus,
        num_nodes=-(-parallelism.num_gpus // gpus_per_node),
        num_replicas=parallelism.num_replicas,
        num_writers=num_writers,
        num_writing_nodes=placement.num_nodes,
        max_writers_per_node=placement.most_per_node,
        max_rank_bytes=largest,
        mean_rank_bytes=round(size.written_bytes / num_writers),
        largest_over_mean=largest * num_writers / size.written_bytes,
        rank_classes=classes,
    )


def _rank_class(writer: WriterClass, scale: float | None, container: Container) -> RankClass:
    files = [
        RankFile(
            name=file.name,
            count=file.count,
            num_bytes=_scaled(file, scale),
            container_bytes=_container_bytes(container, file),
        )
        for file in writer.files
    ]
    return RankClass(
        stages=_span_text(writer.span.stages),
        ranks=_span_text(writer.inner),
        copies=_span_text(writer.outer),
        num_ranks=writer.num_ranks,
        num_layers=len(writer.span.layers),
        bytes_per_rank=sum(file.num_bytes for file in files),
        files=files,
    )


def _span_text(numbers: range) -> str:
    """Consecutive numbers as text.

    >>> _span_text(range(1)), _span_text(range(1, 63))
    ('0', '1-62')
    """
    return str(numbers.start) if len(numbers) == 1 else f"{numbers.start}-{numbers.stop - 1}"


def _scaled(file: File, scale: float | None) -> int:
    return file.num_bytes if scale is None else round(file.num_bytes * scale)


def _part_bytes(writers: tuple[WriterClass, ...], name: PartName) -> int:
    return sum(
        writer.num_ranks * (file.dense.get(name, 0) + file.expert.get(name, 0))
        for writer in writers
        for file in writer.files
    )


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
