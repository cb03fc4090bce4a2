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
class DcpMetadata:
    """The content of a `.metadata` file.

    `num_blobs` counts entries that are pickled values, not tensors. `file_ends` gives for each data file the
    place up to which it must reach; `item_bytes` what is stored under each name. `is_transformed`: items are
    compressed or encrypted, so that stored bytes say nothing about tensor bytes.
    """

    tensors: tuple[StoredTensor, ...]
    num_blobs: int
    file_ends: dict[str, int]
    item_bytes: dict[str, int]
    is_transformed: bool


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
    tensors = tuple(_tensor(name, entry) for name, entry in entries.items() if _is(entry, "TensorStorageMetadata"))
    items = list(_items(fields.get("storage_data")))
    metadata = DcpMetadata(
        tensors=tensors,
        num_blobs=len(entries) - len(tensors),
        file_ends=_file_ends(items),
        item_bytes=_item_bytes(items),
        is_transformed=any(item.is_transformed for item in items),
    )
    _check_stored(metadata)
    return metadata


@dataclass(frozen=True, slots=True)
class _Item:
    name: str
    file: str
    offset: int
    length: int
    is_transformed: bool


def _tensor(name: object, entry: Inert) -> StoredTensor:
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS:
        raise RefusedPickle(f"a tensor's name is not text of at most {MAX_NAME_CHARACTERS} characters")
    fields = _fields(entry)
    shape, chunks = fields.get("size"), fields.get("chunks")
    if not isinstance(shape, tuple) or not isinstance(chunks, list):
        raise RefusedPickle("a tensor has no size or no chunks")
    dtype = _dtype(fields.get("properties"))
    try:
        count = num_elements(shape)
        stored = sum(num_elements(_chunk_sizes(chunk)) for chunk in chunks)
    except ValueError as error:
        raise RefusedPickle(f"a tensor is impossible: {error}") from None
    return StoredTensor(name, dtype, shape, count, stored * TORCH_DTYPE_BITS[dtype] // 8)


def _chunk_sizes(chunk: object) -> tuple[int, ...]:
    sizes = _fields(chunk).get("sizes") if _is(chunk, "ChunkStorageMetadata") else None
    if not isinstance(sizes, tuple):
        raise RefusedPickle("a chunk has no sizes")
    return sizes


def _dtype(properties: object) -> str:
    """The dtype in TensorProperties, whose state is (dtype, layout, requires_grad, memory format, pinned)."""
    state = properties.state if isinstance(properties, Inert) else None
    first = state[0] if isinstance(state, tuple) and state else None
    name = first.text.removeprefix("torch.") if isinstance(first, Name) else ""
    if name not in TORCH_DTYPE_BITS:
        raise RefusedPickle("a tensor has no dtype")
    return name


def _items(storage_data: object) -> Iterator[_Item]:
    """Where the items stand: a dict from MetadataIndex to _StorageInfo. Other storage writers keep none."""
    if not isinstance(storage_data, dict):
        return
    for index, info in storage_data.items():
        if not _is(index, "MetadataIndex") or not _is(info, "_StorageInfo", module=DCP_FILESYSTEM):
            raise RefusedPickle("its storage_data does not say in which file an item stands")
        yield _item(_fields(index).get("fqn"), _fields(info))


def _item(name: object, where: dict[object, object]) -> _Item:
    file, offset, length = (where.get(key) for key in ("relative_path", "offset", "length"))
    if not isinstance(name, str) or not isinstance(file, str) or not is_plain_file_name(file):
        raise RefusedPickle("an item's file is not a file name in its folder")
    if not is_count(offset) or not is_count(length):
        raise RefusedPickle("an item's offset or length is not a number of bytes")
    return _Item(name, file, offset, length, bool(where.get("transform_descriptors")))


def _file_ends(items: list[_Item]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for item in items:
        ends[item.file] = max(ends.get(item.file, 0), item.offset + item.length)
    return ends


def _item_bytes(items: list[_Item]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for item in items:
        sums[item.name] = sums.get(item.name, 0) + item.length
    return sums


def _check_stored(metadata: DcpMetadata) -> None:
    """That no tensor claims more bytes than are stored for it."""
    if not metadata.item_bytes or metadata.is_transformed:
        return
    for tensor in metadata.tensors:
        if tensor.num_bytes > metadata.item_bytes.get(tensor.name, 0):
            raise RefusedPickle(f"tensor {tensor.name[:80]!r} claims more bytes than are stored for it")


def _fields(value: object) -> dict[object, object]:
    return value.state if isinstance(value, Inert) and isinstance(value.state, dict) else {}


def _is(value: object, name: str, *, module: str = DCP_METADATA) -> bool:
    return isinstance(value, Inert) and value.name == f"{module}.{name}"
