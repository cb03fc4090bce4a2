"""What an FSDP rank holds: its rows of every tensor."""

from __future__ import annotations

from sizing.layout.cells import Shards
from sizing.layout.shards import Shard
from sizing.layout.stages import Holding, StageSpan


def fsdp_shards(span: StageSpan, *, num_ranks: int, rank: int) -> Shards:
    """The rank's chunk of the rows of each tensor, where the experts of a layer are one tensor.

    FSDP2 cuts along the first dimension into equal chunks, the last ones smaller or empty.
    Source: PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py, chunks as torch.chunk makes them.
    """
    shards: Shards = ([], [])
    for h in span.holdings:
        num_rows, *others = _fused_shape(h)
        shape = (_chunk(num_rows, num_ranks, rank), *others)
        shards[bool(h.experts)].append(Shard(shape, h.count, h.is_hidden_matrix, h.is_trained, h.name))
    return shards


def fsdp_edges(span: StageSpan, *, num_ranks: int) -> list[int]:
    """Ranks at which the rows of a tensor become fewer, and both ends.

    Of R rows on n ranks, ceil(R / n) each, floor(R / ceil(R / n)) ranks have as many and one may have the rest.
    Source: as `fsdp_shards`.

    >>> from sizing.layout.parallelism import Parallelism
    >>> from sizing.layout.stages import stage_spans
    >>> from sizing.model import TensorGroup
    >>> matrix = TensorGroup("mlp.in.weight", (10, 4), 1, layers=range(1))
    >>> (span,) = stage_spans((matrix,), Parallelism(data=4), num_layers=1)
    >>> fsdp_edges(span, num_ranks=4)
    [0, 3, 4]
    """
    edges = {0, num_ranks}
    for holding in span.holdings:
        num_rows = _fused_shape(holding)[0]
        rows = -(-num_rows // num_ranks)
        edges |= {min(num_ranks, num_rows // rows), min(num_ranks, -(-num_rows // rows))}
    return sorted(edges)


def _fused_shape(holding: Holding) -> tuple[int, ...]:
    return (holding.experts, *holding.shape) if holding.experts else holding.shape


def _chunk(rows: int, num_ranks: int, rank: int) -> int:
    """Rows of chunk `rank` where every chunk but the last ones has ceil(rows / ranks).

    >>> [_chunk(10, 4, rank) for rank in range(4)], [_chunk(5, 4, rank) for rank in range(4)]
    ([3, 3, 3, 1], [2, 2, 1, 0])
    """
    size = -(-rows // num_ranks)
    return max(0, min(size, rows - rank * size))
