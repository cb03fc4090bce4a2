"""From model, state and degrees to ranks, writers, files and bytes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import Cluster, ResolvedNode
from sizing.errors import InvalidInput
from sizing.layout.checkpoint import Checkpoint
from sizing.layout.formats import FORMATS, FormatName
from sizing.layout.parallelism import Parallelism, check_fits_architecture, check_fits_count
from sizing.layout.placement import place_writers
from sizing.layout.rank_classes import HolderClass, holder_classes
from sizing.layout.stages import stage_spans
from sizing.model import ResolvedModel, TensorGroup
from sizing.state import StatePart


class PartSize(BaseModel):
    """One part of the saved state, over the whole checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: str
    bytes_per_parameter: float
    logical_bytes: int
    replicated_bytes: int


class ReplicatedTensors(BaseModel):
    """Tensors that stand in the files more than once: `copies` times instead of once."""

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
    parts: dict[str, PartSize]
    replicated: list[ReplicatedTensors]


class RankClass(BaseModel):
    """Writers that hold tensors of equal shapes, and the file that each of them writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stages: str = Field(description="pipeline stages, first-last")
    tensor_ranks: str = Field(description="tensor ranks, first-last")
    num_ranks: int
    num_layers: int = Field(description="layers on each of the stages")
    num_parameters: int = Field(description="held by each rank")
    bytes_per_rank: int
    file_name: str


class Layout(BaseModel):
    """The `layout` block of the report: who holds and who writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str
    num_gpus: int
    num_nodes: int
    num_replicas: int
    num_writers: int
    num_writing_nodes: int
    max_writers_per_node: int
    max_rank_bytes: int
    mean_rank_bytes: int
    rank_classes: list[RankClass]

    @property
    def largest_over_mean(self) -> float:
        """How much more than the mean the largest writer writes."""
        return self.max_rank_bytes / self.mean_rank_bytes

    @property
    def max_rank_parameters(self) -> int:
        """Parameters on the rank that holds most."""
        return max(rank_class.num_parameters for rank_class in self.rank_classes)


def lay_out(
    model: ResolvedModel,
    parts: tuple[StatePart, ...],
    parallelism: Parallelism,
    *,
    node: ResolvedNode,
    cluster: Cluster,
    checkpoint: Checkpoint,
) -> tuple[CheckpointSize, Layout]:
    """Sizes and writers of one checkpoint.

    Raises InvalidInput where the degrees do not fit the architecture or the number of GPUs.
    """
    _check_num_gpus(parallelism, cluster)
    if model.architecture is None:
        check_fits_count(parallelism, model.num_parameters)
    else:
        check_fits_architecture(parallelism, model.architecture)
    size = _size(model, parts, parallelism, checkpoint)
    return size, _layout(model, parallelism, node=node, size=size)


def replication(group: TensorGroup, parallelism: Parallelism) -> int:
    """How many times a tensor stands in the files of one replica.

    t / p for p pieces on t > p tensor ranks, else 1; twice that where first and last stage both keep it.
    Source: Shoeybi et al. 2019, arXiv 1909.08053, section 3; Narayanan et al. 2021, section 2.2 (tied
    embeddings); assumes that p divides t, which `check_fits_architecture` ensures.

    >>> replication(TensorGroup("norm", (64,), pieces=1), Parallelism(tensor=8))
    8
    >>> replication(TensorGroup("e", (64, 2), 64, "first-and-last-stage"), Parallelism(tensor=8, pipeline=2))
    2
    """
    tensor_copies = max(1, parallelism.tensor // group.pieces)
    on_two_stages = group.placement == "first-and-last-stage" and parallelism.pipeline > 1
    return tensor_copies * (2 if on_two_stages else 1)


def _check_num_gpus(parallelism: Parallelism, cluster: Cluster) -> None:
    expected = cluster.num_gpus
    if expected is not None and expected != parallelism.num_gpus:
        raise InvalidInput.of(
            "cluster.num_gpus",
            f"must equal tensor x pipeline x context x data = {parallelism.num_gpus}",
            value=expected,
            remedy="change a degree or num_gpus",
        )


def _size(
    model: ResolvedModel, parts: tuple[StatePart, ...], parallelism: Parallelism, checkpoint: Checkpoint
) -> CheckpointSize:
    logical = model.num_parameters
    extra = {g.name: (replication(g, parallelism) - 1) * g.num_parameters for g in model.inventory}
    replicated = sum(extra.values())
    per_parameter = sum(part.bytes_per_parameter for part in parts)
    observed, total_bytes = checkpoint.observed_bytes, (logical + replicated) * per_parameter
    return CheckpointSize(
        format=checkpoint.format,
        logical_bytes=logical * per_parameter,
        replicated_bytes=replicated * per_parameter,
        total_bytes=total_bytes,
        observed_bytes=observed,
        observed_over_logical=observed / (logical * per_parameter) if observed else None,
        written_bytes=observed or total_bytes,
        bytes_per_parameter=per_parameter,
        num_files=parallelism.model_parallel_size * FORMATS[checkpoint.format].files_per_writer,
        parts={
            part.name: PartSize(
                dtype=part.dtype,
                bytes_per_parameter=part.bytes_per_parameter,
                logical_bytes=logical * part.bytes_per_parameter,
                replicated_bytes=replicated * part.bytes_per_parameter,
            )
            for part in parts
        },
        replicated=[
            ReplicatedTensors(
                tensors=group.name,
                copies=replication(group, parallelism),
                replicated_bytes=extra[group.name] * per_parameter,
            )
            for group in sorted(model.inventory, key=lambda group: -extra[group.name])
            if extra[group.name]
        ],
    )


def _layout(
    model: ResolvedModel, parallelism: Parallelism, *, node: ResolvedNode, size: CheckpointSize
) -> Layout:
    num_layers = model.architecture.num_layers if model.architecture else 0
    spans = stage_spans(model.inventory, parallelism, num_layers=num_layers)
    placement = place_writers(parallelism, gpus_per_node=node.spec.gpus_per_node)
    file_name = FORMATS[size.format].file_pattern(pipeline=parallelism.pipeline)
    classes = [
        _rank_class(holder, size, file_name) for holder in holder_classes(spans, tensor=parallelism.tensor)
    ]
    return Layout(
        node=node.name,
        num_gpus=parallelism.num_gpus,
        num_nodes=-(-parallelism.num_gpus // node.spec.gpus_per_node),
        num_replicas=parallelism.num_replicas,
        num_writers=parallelism.model_parallel_size,
        num_writing_nodes=placement.num_nodes,
        max_writers_per_node=placement.most_per_node,
        max_rank_bytes=max(c.bytes_per_rank for c in classes),
        mean_rank_bytes=round(size.written_bytes / parallelism.model_parallel_size),
        rank_classes=classes,
    )


def _rank_class(holder: HolderClass, size: CheckpointSize, file_name: str) -> RankClass:
    computed = int(holder.parameters * size.bytes_per_parameter)
    scaled = size.observed_bytes is not None
    return RankClass(
        stages=_first_last(holder.first_stage, holder.num_stages),
        tensor_ranks=_first_last(holder.first_tensor_rank, holder.num_tensor_ranks),
        num_ranks=holder.num_ranks,
        num_layers=holder.num_layers,
        num_parameters=holder.parameters,
        bytes_per_rank=round(computed * (size.written_bytes / size.total_bytes)) if scaled else computed,
        file_name=file_name,
    )


def _first_last(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"
