"""Whether the chunks of a torch DCP checkpoint make up its tensors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from sizing.checkpoint_files.dcp_metadata import DcpChunk, DcpMetadata

_MAX_CELLS = 10_000_000
"""Of the grid that the edges of chunks make; as bytes in memory. A tensor of 100,000 ranks cut in one dimension has
100,000, cut in two 316 x 316."""


def coverage_problems(metadata: DcpMetadata) -> Iterator[str]:
    """What is missing: chunks that are stored nowhere, and elements of tensors that no chunk holds."""
    stored = {(item.name, item.begins) for item in metadata.items}
    for tensor in metadata.tensors:
        chunks = metadata.chunks[tensor.name]
        absent = [chunk for chunk in chunks if (tensor.name, chunk.begins) not in stored]
        if absent:
            yield f"places {len(absent):,} of the {len(chunks):,} chunks of tensor {tensor.name} in no file"
        missing = missing_elements(tensor.shape, chunks)
        if missing:
            yield f"has {missing:,} of the {math.prod(tensor.shape):,} elements of tensor {tensor.name} in no chunk"


def missing_elements(shape: tuple[int, ...], chunks: tuple[DcpChunk, ...]) -> int:
    """How many elements of a tensor none of the chunks holds.

    >>> missing_elements((4, 6), (DcpChunk((0, 0), (4, 3)), DcpChunk((0, 3), (2, 3))))
    6
    """
    spans = [
        tuple((begin, min(begin + size, whole)) for begin, size, whole in zip(c.begins, c.sizes, shape, strict=True))
        for c in set(chunks)
        if len(c.begins) == len(shape)
    ]
    edges = [sorted({0, whole, *(e for s in spans for e in s[d])}) for d, whole in enumerate(shape)]
    if math.prod(max(1, len(edge) - 1) for edge in edges) > _MAX_CELLS:
        return max(0, math.prod(shape) - sum(math.prod(end - begin for begin, end in span) for span in spans))
    return _uncovered(edges, spans)


def _uncovered(edges: list[list[int]], spans: list[tuple[tuple[int, int], ...]]) -> int:
    """Elements in the cells between the edges that lie in no span."""
    covered = np.zeros([max(1, len(edge) - 1) for edge in edges], dtype=bool)
    places = [{edge: place for place, edge in enumerate(row)} for row in edges]
    for span in spans:
        covered[tuple(slice(at[begin], at[end]) for at, (begin, end) in zip(places, span, strict=True))] = True
    sizes = [[end - begin for begin, end in itertools.pairwise(edge)] or [0] for edge in edges]
    lengths = [np.array(size, dtype=object) for size in sizes]
    missing = np.argwhere(~covered)
    return int(sum(math.prod(lengths[d][cell[d]] for d in range(len(edges))) for cell in missing))
