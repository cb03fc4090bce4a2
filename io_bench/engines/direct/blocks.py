"""The bytes of a checkpoint file, any range of them: storages from the payload, all else from torch's layout."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from io_bench.engines.direct.layout import FileLayout
from io_bench.payload.aligned_memory import is_aligned, padded
from io_bench.payload.byte_source import ZEROS, Bytes, ByteSource, source_of
from io_bench.payload.payload import Payload
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES

_MIN_PIECE_BYTES = 64 << 10
"""Below this, copying takes less than a piece more in a request."""


class FileBytes:
    """A file as it is to be written, and zeros after its end up to the alignment.

    It is a row of segments without gaps; `_offsets` has where each begins, and the end of the last.
    """

    def __init__(self, layout: FileLayout, payload: Payload) -> None:
        segments = list(_segments(layout, payload))
        self._offsets = [*(offset for offset, _ in segments), padded(layout.num_bytes)]
        self._sources = [source for _, source in segments]

    def pieces(self, start: int, buffer: Bytes) -> list[Bytes]:
        """The bytes from `start` on, as many as `buffer` has room for: one after another, each of whole pages.

        What lies at pages in host memory is given as it is; all else is copied into the buffer, small tensors together.
        """
        offsets, end = self._offsets, start + len(buffer)
        pieces, num_given = [], 0
        for index in range(bisect_right(offsets, start) - 1, bisect_left(offsets, end)):
            first, last = max(start, offsets[index]), min(end, offsets[index + 1])
            source, at = self._sources[index], first - offsets[index]
            num_in_place = _num_in_place(source, at, last - first)
            if source.memory is not None and num_in_place:
                pieces += [buffer[num_given : first - start], source.memory[at : at + num_in_place]]
                num_given = first - start + num_in_place
            source.copy(at + num_in_place, buffer[first - start + num_in_place : last - start])
        return [piece for piece in [*pieces, buffer[num_given:]] if len(piece)]


def _num_in_place(source: ByteSource, at: int, num_bytes: int) -> int:
    """How many of the bytes from `at` on can be given as they are: whole pages, unless copying is less work."""
    if source.memory is None or num_bytes < _MIN_PIECE_BYTES or not is_aligned(source.memory[at:]):
        return 0
    return num_bytes // ALIGNMENT_BYTES * ALIGNMENT_BYTES


def _segments(layout: FileLayout, payload: Payload) -> Iterator[tuple[int, ByteSource]]:
    """Offset and source of each segment: torch's bytes, then a storage, and so on; padding last."""
    end = 0
    for extent in layout.extents:
        yield end, source_of(layout.skeleton[end : extent.offset])
        yield extent.offset, payload.bytes_of(extent.tensor)
        end = extent.offset + extent.num_bytes
    yield end, source_of(layout.skeleton[end:])
    yield layout.num_bytes, ZEROS
