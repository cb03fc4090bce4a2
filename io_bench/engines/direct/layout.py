"""Where torch puts every byte of a checkpoint file, asked of torch itself by its public interface.

`torch.serialization.skip_data` saves a file without the data of its tensors: headers, pickle and directory with
holes between them. The zip's CRC fields stay zero: `torch.load` does not look at them, while other zip tools
call the file corrupt.
"""

from __future__ import annotations

import mmap
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import torch
from torch.serialization import skip_data
from torch.torch_version import TorchVersion
from torch.utils.serialization import config

from io_bench.engines.torch_files import save
from io_bench.payload import State
from io_bench.payload.payload import tensors_of
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES

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
            with _aligned_storages(), skip_data(materialize_fake_tensors=True):
                save(state, file)
            self.num_bytes = file.tell()
            self.extents = tuple(_extents(state, without_data(file)))
            mapping = mmap.mmap(file.fileno(), self.num_bytes)
        self.skeleton = torch.frombuffer(mapping, dtype=torch.uint8)


def without_data(file: BinaryIO) -> State:
    """The state dict of a checkpoint file with tensors that have a shape and a place in the file but no data."""
    file.seek(0)
    with _no_data_is_read():
        return dict(torch.load(file, map_location="meta", weights_only=True))


def with_data(value: Any, image: torch.Tensor) -> Any:
    """What `without_data` gave, its tensors laid over `image`, which holds the bytes of the file."""
    if isinstance(value, dict):
        return {key: with_data(item, image) for key, item in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    first_element = _offset_in_file(value) // value.element_size() + value.storage_offset()
    tensor = torch.empty(0, dtype=value.dtype, device=image.device)
    return tensor.set_(image.untyped_storage(), first_element, value.shape, value.stride())


def _extents(state: State, placed: State) -> list[Extent]:
    """One extent per storage; tensors that share one give it once."""
    of_offset: dict[int, Extent] = {}
    for (name, tensor), (_, described) in zip(tensors_of(state), tensors_of(placed), strict=True):
        num_bytes = tensor.untyped_storage().nbytes()
        if num_bytes:
            offset = _offset_in_file(described)
            of_offset.setdefault(offset, Extent(offset, num_bytes, name))
    return [of_offset[offset] for offset in sorted(of_offset)]


def _offset_in_file(tensor: torch.Tensor) -> int:
    return cast(int, tensor.untyped_storage()._checkpoint_offset)


def _aligned_storages() -> AbstractContextManager[Any]:
    """Within, torch.save begins storages at multiples of the alignment."""
    return cast(Any, config).patch({"save.storage_alignment": ALIGNMENT_BYTES})  # type: ignore[no-any-return]  # torch's config is untyped


def _no_data_is_read() -> AbstractContextManager[Any]:
    """Within, torch.load leaves the data of tensors in the file; later torch does so for "meta" by itself."""
    if TorchVersion(torch.__version__) >= _LOADS_TO_META_WITHOUT_READING:
        return nullcontext()
    from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: PLC0415 - takes a second to import

    return FakeTensorMode()
