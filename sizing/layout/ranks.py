"""The `layout` block of the report: who holds and who writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sizing.cluster import ResolvedNode
from sizing.layout.containers import Container, container_bytes
from sizing.layout.files import File, WriterClass
from sizing.layout.parallelism import Parallelism
from sizing.layout.placement import WriterPlacement, place_uneven_writers, place_writers
from sizing.layout.size import CheckpointSize


class RankFile(BaseModel):
    """Files of one name pattern that each rank of a class writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        description="File name with placeholders for the ranks, such as mp_rank_TT_PPP/model_optim_rng.pt."
    )
    count: int = Field(description="Files of this pattern that one rank writes.")
    num_bytes: int = Field(description="Bytes of tensors in all these files of one rank together.")
    container_bytes: int = Field(description="Bytes of headers and pickles in these files, not part of num_bytes.")


class RankClass(BaseModel):
    """Ranks that write files of equal sizes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stages: str = Field(description="Pipeline stages of these ranks, first-last.")
    ranks: str = Field(
        description="Positions in the stage, first-last: tensor ranks or FSDP shards (shards x tensor ranks where "
        "both cut)."
    )
    copies: str = Field(description="Positions among the ranks that hold the same tensors, first-last.")
    num_ranks: int = Field(description="Writers whose files have these sizes.")
    num_layers: int = Field(description="Layers on each of the stages.")
    bytes_per_rank: int = Field(description="Bytes of tensors that each of these ranks writes per save.")
    files: list[RankFile] = Field(description="What each of these ranks writes, one entry per pattern of names.")


class WritersOnNodes(BaseModel):
    """How many ranks on how many nodes hold and write, and how much the fullest of them writes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    node: str = Field(description="Name of the node type; node_spec when the scenario describes it itself.")
    gpus_per_node: int = Field(description="GPUs of one node, one rank each.")
    num_gpus: int = Field(description="World size: tensor x pipeline x context x data.")
    num_nodes: int = Field(description="Nodes that hold the ranks, the last one perhaps in part.")
    num_replicas: int = Field(
        description="Ranks that share or repeat the same part of the dense tensors: data x context."
    )
    num_writers: int = Field(description="Ranks that write at least one file.")
    num_writing_nodes: int = Field(description="Nodes that hold at least one writer.")
    max_writers_per_node: int = Field(description="Number of writers that share the busiest node.")
    max_rank_bytes: int = Field(description="Bytes that the busiest writer writes per save.")
    mean_rank_bytes: int = Field(description="Bytes that a writer writes per save, as the mean over all writers.")
    largest_over_mean: float = Field(
        description="Imbalance of the writers: max_rank_bytes / mean_rank_bytes, 1 when all write the same."
    )


class Layout(WritersOnNodes):
    """The `layout` block of the report: who holds and who writes."""

    rank_classes: list[RankClass] = Field(description="Writers grouped by the sizes of their files.")


def layout_of(
    on_nodes: WritersOnNodes, *, size: CheckpointSize, writers: Iterable[WriterClass], container: Container
) -> Layout:
    """The block of writers that stand so."""
    scale = _scale(size)
    return Layout(**dict(on_nodes), rank_classes=[_rank_class(writer, scale, container) for writer in writers])


def writers_on_nodes(
    parallelism: Parallelism, *, node: ResolvedNode, size: CheckpointSize, writers: Sequence[WriterClass]
) -> WritersOnNodes:
    """These writers, placed on nodes."""
    gpus_per_node = node.spec.gpus_per_node
    num_writers = sum(writer.num_ranks for writer in writers)
    placement = _placement(parallelism, writers, gpus_per_node=gpus_per_node)
    scale = _scale(size)
    largest = max(sum(_scaled(file, scale) for file in writer.files) for writer in writers)
    return WritersOnNodes(
        node=node.name,
        gpus_per_node=gpus_per_node,
        num_gpus=parallelism.num_gpus,
        num_nodes=-(-parallelism.num_gpus // gpus_per_node),
        num_replicas=parallelism.num_replicas,
        num_writers=num_writers,
        num_writing_nodes=placement.num_nodes,
        max_writers_per_node=placement.max_per_node,
        max_rank_bytes=largest,
        mean_rank_bytes=round(size.written_bytes / num_writers),
        largest_over_mean=largest * num_writers / size.written_bytes,
    )


def _scale(size: CheckpointSize) -> float | None:
    """Measured bytes over predicted ones, where there are any."""
    return None if size.observed_bytes is None else size.written_bytes / size.total_bytes


def _placement(parallelism: Parallelism, writers: Iterable[WriterClass], *, gpus_per_node: int) -> WriterPlacement:
    of_stages = defaultdict[range, list[WriterClass]](list)
    for writer in writers:
        of_stages[writer.span.stages].append(writer)
    counts = {sum(writer.ranks_per_stage for writer in some) for some in of_stages.values()}
    first = next(iter(counts))
    is_in_all = sum(map(len, of_stages)) == parallelism.pipeline
    if (
        is_in_all
        and len(counts) == 1
        and (first == parallelism.ranks_per_stage or all(map(_is_without_gap, of_stages.values())))
    ):
        return place_writers(parallelism, writers_per_stage=first, gpus_per_node=gpus_per_node)
    numbers = {
        stages: np.concatenate([numbers_in_stage(writer) for writer in some]) for stages, some in of_stages.items()
    }
    return place_uneven_writers(parallelism, writers_of_stages=numbers, gpus_per_node=gpus_per_node)


def _is_without_gap(writers: Sequence[WriterClass]) -> bool:
    """Whether the writers of a stage are its first ranks: the last has the number of the others."""
    last = max(writer.last_number for writer in writers)
    return last == sum(writer.ranks_per_stage for writer in writers) - 1


def numbers_in_stage(writer: WriterClass) -> npt.NDArray[np.int64]:
    """The numbers in the stage of the ranks of a class."""
    inner, outer = np.fromiter(writer.positions, np.int64), np.asarray(writer.outer, np.int64)
    numbers: npt.NDArray[np.int64] = (inner + writer.inner_size * outer[:, None]).ravel()
    return numbers


def _rank_class(writer: WriterClass, scale: float | None, container: Container) -> RankClass:
    files = [
        RankFile(
            name=file.name,
            count=file.count,
            num_bytes=_scaled(file, scale),
            container_bytes=container_bytes(container, num_files=file.count, num_tensors=file.num_tensors),
        )
        for file in writer.files
    ]
    return RankClass(
        stages=_span_text(writer.span.stages),
        ranks=_positions_text(writer),
        copies=_span_text(writer.outer),
        num_ranks=writer.num_ranks,
        num_layers=writer.span.num_layers,
        bytes_per_rank=sum(file.num_bytes for file in files),
        files=files,
    )


def _positions_text(writer: WriterClass) -> str:
    shards = _span_text(writer.inner)
    return f"{shards} x {_span_text(writer.tensor_ranks)}" if writer.tensor > 1 else shards


def _span_text(numbers: range) -> str:
    """Consecutive numbers as text.

    >>> _span_text(range(1)), _span_text(range(1, 63))
    ('0', '1-62')
    """
    return str(numbers.start) if len(numbers) == 1 else f"{numbers.start}-{numbers.stop - 1}"


def _scaled(file: File, scale: float | None) -> int:
    return file.num_bytes if scale is None else round(file.num_bytes * scale)
