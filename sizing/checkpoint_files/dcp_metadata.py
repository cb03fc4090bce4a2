"""What a torch DCP `.metadata` file describes: tensors, their chunks, and where each item is stored.

Source: `torch/distributed/checkpoint/metadata.py` and `filesystem.py`, torch 2.5 to 2.13. The file is a
pickle; it is read as data (`pickle_reading`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sizing.checkpoint_files.allowed_names import (
    DCP_FILESYSTEM,
    DCP_METADATA,
    METADATA_CLASSES,
    allowed_in_dcp,
)
from sizing.checkpoint_files.container import StoredTensor
from sizing.checkpoint_files.dtypes import TORCH_DTYPE_BITS, num_elements
from sizing.checkpoint_files.pickle_reading import read_pickle
from sizing.checkpoint_files.pickle_values import MAX_NAME_CHARACTERS, Inert, Name, RefusedPickle, is_count
from sizing.checkpoint_files.safetensors_index import is_plain_file_name


@dataclass(frozen=True, slots=True)
class DcpChunk:
    """The part of a tensor that was saved as one: where it begins in each dimension, and how far it goes."""

    begins: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DcpItem:
    """Where the chunk of a tensor, or a pickled value, stands. `begins` is that of the chunk, None for a value."""

    name: str
    begins: tuple[int, ...] | None
    file: str
    offset: int
    length: int
    is_transformed: bool


@dataclass(frozen=True, slots=True)
class DcpMetadata:
    """The content of a `.metadata` file.

    `num_blobs` counts entries that are pickled values, not tensors. `chunks` has those of each tensor by its name.
    """

    tensors: tuple[StoredTensor, ...]
    chunks: dict[str, tuple[DcpChunk, ...]]
    num_blobs: int
    items: tuple[DcpItem, ...]

    @property
    def is_transformed(self) -> bool:
        """Whether items are compressed or encrypted, so that stored bytes say nothing about tensor bytes."""
        return any(item.is_transformed for item in self.items)

    @property
    def file_ends(self) -> dict[str, int]:
        """The place up to which each data file must reach."""
        ends: dict[str, int] = {}
        for item in self.items:
            ends[item.file] = max(ends.get(item.file, 0), item.offset + item.length)
        return ends

    @property
    def item_bytes(self) -> dict[str, int]:
        """What is stored under each name."""
        sums: dict[str, int] = {}
        for item in self.items:
            sums[item.name] = sums.get(item.name, 0) + item.length
        return sums

    @property
    def value_bytes(self) -> tuple[tuple[str, int], ...]:
        """What each value that is no tensor takes, by name."""
        tensors = {tensor.name for tensor in self.tensors}
        return tuple((name, size) for name, size in self.item_bytes.items() if name not in tensors)


def dcp_metadata(content: bytes) -> DcpMetadata:
    """The description in the bytes of a `.metadata` file.

    Raises RefusedPickle where the bytes are not such a file, or contradict themselves.
    """
    root = read_pickle(content, allows=allowed_in_dcp)
    if not isinstance(root, Inert) or root.name not in METADATA_CLASSES:
        raise RefusedPickle("it holds no torch.distributed.checkpoint Metadata")
    fields = _fields(root)
    entries = fields.get("state_dict_metadata")
    if not isinstance(entries, dict):
        raise RefusedPickle("its state_dict_metadata is not a dict")
    saved = [_tensor(name, entry) for name, entry in entries.items() if _is(entry, "TensorStorageMetadata")]
    metadata = DcpMetadata(
        tensors=tuple(tensor for tensor, _ in saved),
        chunks={tensor.name: chunks for tensor, chunks in saved},
        num_blobs=len(entries) - len(saved),
        items=tuple(_items(fields.get("storage_data"))),
    )
    _check_stored(metadata)
    return metadata


def _tensor(name: object, entry: Inert) -> tuple[StoredTensor, tuple[DcpChunk, ...]]:
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS:
        raise RefusedPickle(f"a tensor's name is not text of at most {MAX_NAME_CHARACTERS} characters")
    fields = _fields(entry)
    shape, chunks = fields.get("size"), fields.get("chunks")
    if not isinstance(shape, tuple) or not isinstance(chunks, list):
        raise RefusedPickle("a tensor has no size or no chunks")
    dtype = _dtype(fields.get("properties"))
    parts = tuple(_chunk(chunk) for chunk in chunks)
    try:
        count = num_elements(shape)
        stored = sum(num_elements(part.sizes) for part in parts)
    except ValueError as error:
        raise RefusedPickle(f"a tensor is impossible: {error}") from None
    return StoredTensor(name, dtype, shape, count, stored * TORCH_DTYPE_BITS[dtype] // 8), parts


def _chunk(chunk: object) -> DcpChunk:
    fields = _fields(chunk) if _is(chunk, "ChunkStorageMetadata") else {}
    begins, sizes = fields.get("offsets"), fields.get("sizes")
    if not isinstance(sizes, tuple):
        raise RefusedPickle("a chunk has no sizes")
    if not isinstance(begins, tuple) or len(begins) != len(sizes) or not all(map(is_count, begins)):
        raise RefusedPickle("a chunk does not say where in its tensor it begins")
    return DcpChunk(begins, sizes)


def _dtype(properties: object) -> str:
    """The dtype in TensorProperties, whose state is (dtype, layout, requires_grad, memory format, pinned)."""
    state = properties.state if isinstance(properties, Inert) else None
    first = state[0] if isinstance(state, tuple) and state else None
    name = first.text.removeprefix("torch.") if isinstance(first, Name) else ""
    if name not in TORCH_DTYPE_BITS:
        raise RefusedPickle("a tensor has no dtype")
    return name


def _items(storage_data: object) -> Iterator[DcpItem]:
    """Where the items stand: a dict from MetadataIndex to _StorageInfo. Other storage writers keep none."""
    if not isinstance(storage_data, dict):
        return
    for index, info in storage_data.items():
        if not _is(index, "MetadataIndex") or not _is(info, "_StorageInfo", module=DCP_FILESYSTEM):
            raise RefusedPickle("its storage_data does not say in which file an item stands")
        yield _item(_fields(index), _fields(info))


def _item(index: dict[object, object], where: dict[object, object]) -> DcpItem:
    name, begins = index.get("fqn"), index.get("offset")
    file, offset, length = (where.get(key) for key in ("relative_path", "offset", "length"))
    if not isinstance(name, str) or not isinstance(file, str) or not is_plain_file_name(file):
        raise RefusedPickle("an item's file is not a file name in its folder")
    if not is_count(offset) or not is_count(length):
        raise RefusedPickle("an item's offset or length is not a number of bytes")
    if begins is not None and not (isinstance(begins, tuple) and all(map(is_count, begins))):
        raise RefusedPickle("an item's place in its tensor is not a row of numbers")
    return DcpItem(name, begins, file, offset, length, bool(where.get("transform_descriptors")))


def _check_stored(metadata: DcpMetadata) -> None:
    """That no tensor claims more bytes than are stored for it."""
    stored = metadata.item_bytes
    if not stored or metadata.is_transformed:
        return
    for tensor in metadata.tensors:
        if tensor.num_bytes > stored.get(tensor.name, 0):
            raise RefusedPickle(f"tensor {tensor.name[:80]!r} claims more bytes than are stored for it")


def _fields(value: object) -> dict[object, object]:
    return value.state if isinstance(value, Inert) and isinstance(value.state, dict) else {}


def _is(value: object, name: str, *, module: str = DCP_METADATA) -> bool:
    return isinstance(value, Inert) and value.name == f"{module}.{name}"
