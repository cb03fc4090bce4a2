"""The bytes of a checkpoint file, any range of them: storages from the payload, all else from torch's layout."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from io_bench.byte_source import Bytes, ByteSource, copied_from, zeros
from io_bench.engines.direct.layout import FileLayout, padded
from io_bench.payload import Payload


class FileBytes:
    """A file as it is to be written, and zeros after its end up to the alignment.

    It is a row of segments without gaps; `_offsets` has where each begins, and the end of the last.
    """

    def __init__(self, layout: FileLayout, payload: Payload) -> None:
        segments = list(_segments(layout, payload))
        self._offsets = [*(offset for offset, _ in segments), padded(layout.num_bytes)]
        self._sources = [source for _, source in segments]

    def fill(self, start: int, out: Bytes) -> None:
        """Copy the bytes from `start` on into `out`: small tensors together, large ones in parts."""
        offsets, end = self._offsets, start + len(out)
        for index in range(bisect_right(offsets, start) - 1, bisect_left(offsets, end)):
            first, last = max(start, offsets[index]), min(end, offsets[index + 1])
            self._sources[index](first - offsets[index], out[first - start : last - start])


def _segments(layout: FileLayout, payload: Payload) -> Iterator[tuple[int, ByteSource]]:
    """Offset and source of each segment: torch's bytes, then a storage, and so on; padding last."""
    end = 0
    for extent in layout.extents:
        yield end, copied_from(layout.skeleton[end : extent.offset])
        yield extent.offset, payload.bytes_of(extent.tensor)
        end = extent.offset + extent.num_bytes
    yield end, copied_from(layout.skeleton[end:])
    yield layout.num_bytes, zeros
