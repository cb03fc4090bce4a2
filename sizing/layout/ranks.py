"""The `layout` block of the report: the ranks that hold the state, and those that write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sizing.cluster import ResolvedNode
from sizing.layout.containers import ContainerOverhead, container_bytes
from sizing.layout.files import File, WriterClass
from sizing.layout.parallelism import Parallelism
from sizing.layout.placement import (
    MAX_WRITERS_WALKED,
    WriterPlacement,
    max_node_bytes,
    nodes_of_writers,
    place_uneven_writers,
    place_writers,
    require_placeable,
)
from sizing.layout.size import CheckpointSize
from sizing.strict_model import StrictModel


class RankFile(StrictModel):
    """Files of one name pattern that each rank of a class writes."""

    name: str = Field(
        description="File name with placeholders for the ranks, such as mp_rank_TT_PPP/model_optim_rng.pt."
    )
    count: int = Field(description="Files of this pattern that one rank writes.")
    num_bytes: int = Field(description="Bytes of tensors in all these files of one rank together.")
    container_bytes: int = Field(description="Bytes of headers and pickles in these files, not part of num_bytes.")


class RankClass(StrictModel):
    """Ranks that write files of equal sizes."""

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


class WritersOnNodes(StrictModel):
    """How many ranks on how many nodes hold and write, and how much the fullest of them writes."""

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
    max_node_bytes: int = Field(description="Bytes that the writers of the fullest node write together per save.")
    mean_rank_bytes: int = Field(description="Bytes that a writer writes per save, as the mean over all writers.")
    largest_over_mean: float = Field(
        description="Imbalance of the writers: max_rank_bytes / mean_rank_bytes, 1 when all write the same."
    )


class Layout(WritersOnNodes):
    """The `layout` block of the report: the ranks that hold the state, and those that write."""

    rank_classes: list[RankClass] = Field(description="Writers grouped by the sizes of their files.")


def layout_of(
    on_nodes: WritersOnNodes, *, size: CheckpointSize, writers: Iterable[WriterClass], container: ContainerOverhead
) -> Layout:
    """Make the `layout` block of writers placed on nodes."""
    scale = written_over_total(size)
    return Layout(**dict(on_nodes), rank_classes=[_rank_class(writer, scale, container) for writer in writers])


def writers_on_nodes(
    parallelism: Parallelism, *, node: ResolvedNode, size: CheckpointSize, writers: Sequence[WriterClass]
) -> WritersOnNodes:
    """Place writers on nodes, and find the fullest node and the largest rank."""
    gpus_per_node = node.spec.gpus_per_node
    num_writers = sum(writer.num_ranks for writer in writers)
    placement = _place(parallelism, writers, gpus_per_node=gpus_per_node)
    scale = written_over_total(size)
    rank_bytes = [sum(scaled_bytes(file, scale) for file in writer.files) for writer in writers]
    largest = max(rank_bytes)
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
        max_node_bytes=placement.max_per_node * largest
        if largest == min(rank_bytes)
        else _max_node_bytes(
            parallelism, writers, rank_bytes, gpus_per_node=gpus_per_node, max_writers_per_node=placement.max_per_node
        ),
        mean_rank_bytes=round(size.written_bytes / num_writers),
        largest_over_mean=largest * num_writers / size.written_bytes,
    )


def written_over_total(size: CheckpointSize) -> float | None:
    """Compute the ratio of the written bytes of a checkpoint to those of its tensors; None where they are the same.

    They differ where the checkpoint was measured, or where the format compresses.

    Source: definition.

    >>> from sizing.report import answer
    >>> report = answer({"model": {"preset": "gpt2"}, "checkpoint": {"observed_bytes": 2 * 1_742_157_312}})
    >>> written_over_total(report.checkpoint)
    2.0
    """
    return None if size.written_bytes == size.total_bytes else size.written_bytes / size.total_bytes


def _place(parallelism: Parallelism, writers: Iterable[WriterClass], *, gpus_per_node: int) -> WriterPlacement:
    """Place the writers: by one stage where all stages have the same, which are their first ranks; else one by one."""
    of_stages = defaultdict[range, list[WriterClass]](list)
    for writer in writers:
        of_stages[writer.span.stages].append(writer)
    counts = {sum(writer.ranks_per_stage for writer in some) for some in of_stages.values()}
    writers_per_stage = next(iter(counts))
    is_in_all = sum(map(len, of_stages)) == parallelism.pipeline
    has_no_gap = writers_per_stage == parallelism.ranks_per_stage or all(
        max(writer.last_number for writer in some) == writers_per_stage - 1 for some in of_stages.values()
    )
    if is_in_all and len(counts) == 1 and has_no_gap:
        return place_writers(parallelism, writers_per_stage=writers_per_stage, gpus_per_node=gpus_per_node)
    require_placeable(sum(writer.num_ranks for some in of_stages.values() for writer in some))
    numbers = {
        stages: np.concatenate([numbers_in_stage(writer) for writer in some]) for stages, some in of_stages.items()
    }
    return place_uneven_writers(parallelism, writers_of_stages=numbers, gpus_per_node=gpus_per_node)


def _max_node_bytes(
    parallelism: Parallelism,
    writers: Sequence[WriterClass],
    rank_bytes: Sequence[int],
    *,
    gpus_per_node: int,
    max_writers_per_node: int,
) -> int:
    if sum(writer.ranks_per_stage for writer in writers) > MAX_WRITERS_WALKED:
        return max_writers_per_node * max(rank_bytes)
    of_stages = defaultdict[range, list[tuple[WriterClass, int]]](list)
    for writer, num_bytes in zip(writers, rank_bytes, strict=True):
        of_stages[writer.span.stages].append((writer, num_bytes))
    numbers_of_stages, bytes_of_stages = [], []
    for stages, some in of_stages.items():  # as few arrays as there are unlike stages, not as there are classes
        numbers_of_stages.append((stages, np.concatenate([numbers_in_stage(writer) for writer, _ in some])))
        each = np.repeat([num_bytes for _, num_bytes in some], [writer.ranks_per_stage for writer, _ in some])
        bytes_of_stages.append(each)
    nodes = nodes_of_writers(parallelism, numbers_of_stages, gpus_per_node=gpus_per_node)
    return max_node_bytes(nodes, bytes_of_stages, max_writers_per_node=max_writers_per_node)


def numbers_in_stage(writer: WriterClass) -> npt.NDArray[np.int64]:
    """Return the numbers in the stage of the ranks of a class."""
    of_tensor, of_shard, of_copy = (
        np.arange(some.start, some.stop, some.step, dtype=np.int64)  # from the range itself it takes ten times as long
        for some in (writer.tensor_ranks, writer.inner, writer.outer)
    )
    inner = (of_tensor + writer.tensor * of_shard[:, None]).ravel()
    numbers: npt.NDArray[np.int64] = (inner + writer.inner_size * of_copy[:, None]).ravel()
    return numbers


def _rank_class(writer: WriterClass, scale: float | None, container: ContainerOverhead) -> RankClass:
    files = [
        RankFile(
            name=file.name,
            count=file.count,
            num_bytes=scaled_bytes(file, scale),
            container_bytes=container_bytes(container, num_files=file.count, num_tensors=file.num_tensors),
        )
        for file in writer.files
    ]
    shards = _span_text(writer.inner)
    return RankClass(
        stages=_span_text(writer.span.stages),
        ranks=f"{shards} x {_span_text(writer.tensor_ranks)}" if writer.tensor > 1 else shards,
        copies=_span_text(writer.outer),
        num_ranks=writer.num_ranks,
        num_layers=writer.span.num_layers,
        bytes_per_rank=sum(file.num_bytes for file in files),
        files=files,
    )


def _span_text(numbers: range) -> str:
    """Format consecutive numbers.

    >>> _span_text(range(1)), _span_text(range(1, 63))
    ('0', '1-62')
    """
    return str(numbers.start) if len(numbers) == 1 else f"{numbers.start}-{numbers.stop - 1}"


def scaled_bytes(file: File, scale: float | None) -> int:
    """Count the bytes in the files of one name, of a checkpoint `scale` times as large as predicted.

    Source: definition; every file is taken to differ from its prediction by the same factor.

    >>> from sizing.layout.files import File
    >>> scaled_bytes(File("model.pt", {"weights": 1000}, {}, num_tensors=1), 1.5)
    1500
    """
    return file.num_bytes if scale is None else round(file.num_bytes * scale)
