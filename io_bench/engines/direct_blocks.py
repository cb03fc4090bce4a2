"""The bytes of a checkpoint file, any range of them: storages from the payload, all else from torch's layout.

Torch itself is asked by its public interface where it puts every byte. `torch.serialization.skip_data` saves a file
without the data of its tensors: headers, pickle and directory with holes between them. The zip's CRC fields stay zero:
`torch.load` does not look at them, while other zip tools call the file corrupt.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import torch
from torch.serialization import skip_data
from torch.torch_version import TorchVersion
from torch.utils.serialization import config

from io_bench.engines.torch_files import save
from io_bench.payload import State
from io_bench.payload.byte_source import ZEROS, Bytes, ByteSource, is_aligned, pad_bytes, source_of
from io_bench.payload.payload import Payload, tensors_of
from io_bench.target.direct_io import ALIGNMENT_BYTES

_LOADS_TO_META_WITHOUT_READING = "2.11"


@dataclass(frozen=True, slots=True)
class Extent:
    """The bytes of one storage in the file; `tensor` is the dotted name of the first tensor on it."""

    offset: int
    num_bytes: int
    tensor: str


class FileLayout:
    """A file of `num_bytes`: storages at their extents, in order, and torch's own bytes between them.

    `skeleton` is the file without the storages: a mapping of memory in which holes take no space.
    """

    def __init__(self, state: State) -> None:
        with os.fdopen(os.memfd_create("layout"), "w+b") as file:
            # Storages begin at multiples of the alignment, and their data is left out.
            with (
                cast(Any, config).patch({"save.storage_alignment": ALIGNMENT_BYTES}),
                skip_data(materialize_fake_tensors=True),
            ):
                save(state, file)
            self.num_bytes = file.tell()
            self.extents = tuple(_extents(state, without_data(file)))
            mapping = mmap.mmap(file.fileno(), self.num_bytes)
        self.skeleton = torch.frombuffer(mapping, dtype=torch.uint8)


def without_data(file: BinaryIO) -> State:
    """Load the state dict of a checkpoint file with tensors that have a shape and a place in the file but no data."""
    file.seek(0)
    with _no_data_is_read():
        return dict(torch.load(file, map_location="meta", weights_only=True))


def with_data(value: Any, image: torch.Tensor) -> Any:
    """Lay the tensors of `without_data` over `image`, which holds the bytes of the file."""
    if isinstance(value, dict):
        return {key: with_data(item, image) for key, item in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    first_element = _offset_in_file(value) // value.element_size() + value.storage_offset()
    tensor = torch.empty(0, dtype=value.dtype, device=image.device)
    return tensor.set_(image.untyped_storage(), first_element, value.shape, value.stride())


def _extents(state: State, placed: State) -> list[Extent]:
    """List the extent of each storage; tensors that share one give it once."""
    of_offset: dict[int, Extent] = {}
    for (name, tensor), (_, described) in zip(tensors_of(state), tensors_of(placed), strict=True):
        num_bytes = tensor.untyped_storage().nbytes()
        if num_bytes:
            offset = _offset_in_file(described)
            of_offset.setdefault(offset, Extent(offset, num_bytes, name))
    return [of_offset[offset] for offset in sorted(of_offset)]


def _offset_in_file(tensor: torch.Tensor) -> int:
    return cast(int, tensor.untyped_storage()._checkpoint_offset)


def _no_data_is_read() -> AbstractContextManager[Any]:
    """Make torch.load leave the data of tensors in the file; torch 2.11 and later does so for "meta" anyway."""
    if TorchVersion(torch.__version__) >= _LOADS_TO_META_WITHOUT_READING:
        return nullcontext()
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415 - takes a second to import

    return FakeTensorMode()


_MIN_PIECE_BYTES = 64 << 10
"""Below this, copying takes less than a piece more in a request."""


class FileBytes:
    """A file as it is to be written, and zeros after its end up to the alignment.

    It is a row of segments without gaps; `_offsets` has where each begins, and the end of the last.
    """

    def __init__(self, layout: FileLayout, payload: Payload) -> None:
        segments = list(_segments(layout, payload))
        self._offsets = [*(offset for offset, _ in segments), pad_bytes(layout.num_bytes)]
        self._sources = [source for _, source in segments]

    def pieces(self, start: int, buffer: Bytes) -> list[Bytes]:
        """List the bytes from `start` on, as many as `buffer` has room for, in pieces of whole pages.

        What lies at pages in host memory is given as it is; all else is copied into the buffer, small tensors together.
        """
        offsets, end = self._offsets, start + len(buffer)
        pieces, num_given = [], 0
        for index in range(bisect_right(offsets, start) - 1, bisect_left(offsets, end)):
            first, last = max(start, offsets[index]), min(end, offsets[index + 1])
            source, at = self._sources[index], first - offsets[index]
            num_in_place = _count_in_place(source, at, last - first)
            if source.memory is not None and num_in_place:
                pieces += [buffer[num_given : first - start], source.memory[at : at + num_in_place]]
                num_given = first - start + num_in_place
            source.copy(at + num_in_place, buffer[first - start + num_in_place : last - start])
        return [piece for piece in [*pieces, buffer[num_given:]] if len(piece)]


def _count_in_place(source: ByteSource, at: int, num_bytes: int) -> int:
    """Count the bytes from `at` on that can be given as they are: whole pages, unless copying is less work."""
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
