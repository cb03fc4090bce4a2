"""Which ranks write which files of FSDP2's sharded format."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from sizing.layout.cells import Shards
from sizing.layout.files import File, Plan, WriterClass, runs, shares
from sizing.layout.shards import Shard, content_of
from sizing.layout.stages import Holding, StageSpan


def fsdp_sharded(plan: Plan) -> Iterator[WriterClass]:
    """FSDP2 cuts each tensor along its first dimension into equal chunks, the last ones smaller or empty.

    Source: PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py, chunks as torch.chunk makes them.
    """
    ranks = plan.parallelism.shard_ranks
    copies = plan.parallelism.num_replicas // ranks
    span = plan.spans[0]
    edges = {0, ranks}
    for holding in span.holdings:
        num_rows = _fsdp_shape(holding)[0]
        rows = -(-num_rows // ranks)
        edges |= {min(ranks, num_rows // rows), min(ranks, -(-num_rows // rows))}
    for first, past in pairwise(sorted(edges)):
        dense, expert = (content_of(shards, plan.parts) for shards in fsdp_shards(span, num_ranks=ranks, rank=first))
        for copy, copy_past in runs(copies, (dense.part_bytes, copies, 1), (expert.part_bytes, copies, 1)):
            file = File(
                "__RANK_0.distcp",
                shares(dense.part_bytes, copies, copy),
                shares(expert.part_bytes, copies, copy),
                -(-(dense.num_tensors() + expert.num_tensors()) // copies),
                holds="share",
            )
            yield WriterClass(span, range(first, past), ranks, range(copy, copy_past), (file,))


def fsdp_shards(span: StageSpan, *, num_ranks: int, rank: int) -> Shards:
    """What an FSDP rank holds: its chunk of the rows of each tensor, where the experts of a layer are one tensor."""
    shards: Shards = ([], [])
    for h in span.holdings:
        num_rows, *others = _fsdp_shape(h)
        shape = (_chunk(num_rows, num_ranks, rank), *others)
        shards[bool(h.experts)].append(Shard(shape, h.count, h.is_hidden_matrix, h.is_trained, h.name))
    return shards


def _fsdp_shape(holding: Holding) -> tuple[int, ...]:
    return (holding.experts, *holding.shape) if holding.experts else holding.shape


def _chunk(rows: int, num_ranks: int, rank: int) -> int:
    """Rows of chunk `rank` where every chunk but the last ones has ceil(rows / ranks).

    >>> [_chunk(10, 4, rank) for rank in range(4)], [_chunk(5, 4, rank) for rank in range(4)]
    ([3, 3, 3, 1], [2, 2, 1, 0])
    """
    size = -(-rows // num_ranks)
    return max(0, min(size, rows - rank * size))
