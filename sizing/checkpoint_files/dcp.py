"""Read the tensors of a torch DCP checkpoint: a folder of `.distcp` files with a `.metadata` file.

The `.metadata` file describes tensors, their chunks, and where each item is stored. It is a pickle, which is read as
data. Source: `torch/distributed/checkpoint/metadata.py` and `filesystem.py`, torch 2.5 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sizing.checkpoint_files.allowed_names import (
    DCP_FILESYSTEM,
    DCP_METADATA,
    METADATA_CLASSES,
    allowed_in_dcp,
)
from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import TORCH_DTYPE_BITS, num_elements
from sizing.checkpoint_files.optimizers import settings_in_names
from sizing.checkpoint_files.pickle_reading import (
    MAX_NAME_CHARACTERS,
    MAX_PICKLE_BYTES,
    Inert,
    RefusedPickle,
    is_count,
    read_pickle,
)
from sizing.checkpoint_files.safetensors import is_plain_file_name
from sizing.checkpoint_files.torch_save import read_dtype
from sizing.checkpoint_files.untrusted import (
    DAMAGED_REMEDY,
    bounded_content,
    refusal,
    regular_file_bytes,
)
from sizing.units import counted_text, seconds_text


@dataclass(frozen=True, slots=True)
class DcpChunk:
    """Part of a tensor that was saved as one: its offset and its size in each dimension."""

    begins: tuple[int, ...]
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DcpItem:
    """Location of a tensor's chunk, or of a pickled value; `begins` is the chunk's offset, None for a value."""

    name: str
    begins: tuple[int, ...] | None
    file: str
    offset: int
    length: int
    is_transformed: bool


@dataclass(frozen=True, slots=True)
class DcpMetadata:
    """Content of a `.metadata` file.

    `num_blobs` counts the entries that are pickled values, not tensors. `chunks` has the chunks of each tensor by name.
    """

    tensors: tuple[StoredTensor, ...]
    chunks: dict[str, tuple[DcpChunk, ...]]
    num_blobs: int
    items: tuple[DcpItem, ...]

    @property
    def is_transformed(self) -> bool:
        """Whether items are compressed or encrypted, so that stored bytes do not tell tensor bytes."""
        return any(item.is_transformed for item in self.items)

    @property
    def file_ends(self) -> dict[str, int]:
        """Min size of each data file by name: the end of its last item."""
        ends: dict[str, int] = {}
        for item in self.items:
            ends[item.file] = max(ends.get(item.file, 0), item.offset + item.length)
        return ends

    @property
    def item_bytes(self) -> dict[str, int]:
        """Bytes that are stored under each name."""
        sums: dict[str, int] = {}
        for item in self.items:
            sums[item.name] = sums.get(item.name, 0) + item.length
        return sums

    @property
    def value_bytes(self) -> tuple[tuple[str, int], ...]:
        """Bytes of each value that is not a tensor, by name."""
        tensors = {tensor.name for tensor in self.tensors}
        return tuple((name, size) for name, size in self.item_bytes.items() if name not in tensors)


def dcp_metadata(content: bytes) -> DcpMetadata:
    """Parse the bytes of a `.metadata` file.

    Raises RefusedPickle if the bytes are not such a file, or contradict themselves.
    """
    root = read_pickle(content, allows=allowed_in_dcp)
    if not isinstance(root, Inert) or root.name not in METADATA_CLASSES:
        raise RefusedPickle("it holds no torch.distributed.checkpoint Metadata")
    fields = _fields(root)
    entries = fields.get("state_dict_metadata")
    if not isinstance(entries, dict):
        raise RefusedPickle("its state_dict_metadata is not a dict")
    chunked = [_read_tensor(name, entry) for name, entry in entries.items() if _is(entry, "TensorStorageMetadata")]
    metadata = DcpMetadata(
        tensors=tuple(tensor for tensor, _ in chunked),
        chunks={tensor.name: chunks for tensor, chunks in chunked},
        num_blobs=len(entries) - len(chunked),
        items=tuple(_list_items(fields.get("storage_data"))),
    )
    stored_bytes = metadata.item_bytes
    if stored_bytes and not metadata.is_transformed:
        for tensor in metadata.tensors:
            if tensor.num_bytes > stored_bytes.get(tensor.name, 0):
                raise RefusedPickle(f"tensor {tensor.name[:80]!r} claims more bytes than are stored for it")
    return metadata


def _read_tensor(name: object, entry: Inert) -> tuple[StoredTensor, tuple[DcpChunk, ...]]:
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS:
        raise RefusedPickle(f"a tensor's name is not text of at most {MAX_NAME_CHARACTERS} characters")
    fields = _fields(entry)
    shape, chunks = fields.get("size"), fields.get("chunks")
    if not isinstance(shape, tuple) or not isinstance(chunks, list):
        raise RefusedPickle("a tensor has no size or no chunks")
    properties = fields.get("properties")
    state = properties.state if isinstance(properties, Inert) else None
    # the state of TensorProperties is (dtype, layout, requires_grad, memory format, pinned)
    dtype = read_dtype(state[0] if isinstance(state, tuple) and state else None)
    parts = tuple(_read_chunk(chunk) for chunk in chunks)
    try:
        count = num_elements(shape)
        stored = sum(num_elements(part.sizes) for part in parts)
    except ValueError as error:
        raise RefusedPickle(f"a tensor is impossible: {error}") from None
    return StoredTensor(name, dtype, shape, count, stored * TORCH_DTYPE_BITS[dtype] // 8), parts


def _read_chunk(chunk: object) -> DcpChunk:
    fields = _fields(chunk) if _is(chunk, "ChunkStorageMetadata") else {}
    begins, sizes = fields.get("offsets"), fields.get("sizes")
    if not isinstance(sizes, tuple):
        raise RefusedPickle("a chunk has no sizes")
    if not isinstance(begins, tuple) or len(begins) != len(sizes) or not all(map(is_count, begins)):
        raise RefusedPickle("a chunk does not say where in its tensor it begins")
    return DcpChunk(begins, sizes)


def _list_items(storage_data: object) -> Iterator[DcpItem]:
    """List the locations of items: a dict from MetadataIndex to _StorageInfo, which other storage writers lack."""
    if not isinstance(storage_data, dict):
        return
    for index, info in storage_data.items():
        if not _is(index, "MetadataIndex") or not _is(info, "_StorageInfo", module=DCP_FILESYSTEM):
            raise RefusedPickle("its storage_data does not say in which file an item stands")
        key, location = _fields(index), _fields(info)
        name, begins = key.get("fqn"), key.get("offset")
        file, offset, length = (location.get(field) for field in ("relative_path", "offset", "length"))
        if not isinstance(name, str) or not isinstance(file, str) or not is_plain_file_name(file):
            raise RefusedPickle("an item's file is not a file name in its folder")
        if not is_count(offset) or not is_count(length):
            raise RefusedPickle("an item's offset or length is not a number of bytes")
        if begins is not None and not (isinstance(begins, tuple) and all(map(is_count, begins))):
            raise RefusedPickle("an item's place in its tensor is not a row of numbers")
        yield DcpItem(name, begins, file, offset, length, bool(location.get("transform_descriptors")))


def _fields(value: object) -> dict[object, object]:
    return value.state if isinstance(value, Inert) and isinstance(value.state, dict) else {}


def _is(value: object, name: str, *, module: str = DCP_METADATA) -> bool:
    return isinstance(value, Inert) and value.name == f"{module}.{name}"


METADATA_NAME = ".metadata"
DATA_SUFFIX = ".distcp"
_SECONDS_APART = 3600.0
"""Pause in the writing of a save's files beyond which those on the other side are held to be of another save. A choice:
longer than a file takes, shorter than most intervals between saves into one folder."""


def seconds_written_apart(written_at: Mapping[str, float]) -> dict[str, float]:
    """Find the files that were written apart from `.metadata`, and by how many seconds after it; negative is before.

    `written_at`: when each file of the save was written, in seconds, by name. A file is apart where a pause of more
    than an hour lies between it and `.metadata`, in which no file of the save was written.

    >>> seconds_written_apart({".metadata": 30_000, "__0_0.distcp": 27_000, "__1_0.distcp": 24_000, "__2_0.distcp": 0})
    {'__2_0.distcp': -30000}
    """
    described_at = first = last = written_at[METADATA_NAME]
    for moment in sorted(written_at.values(), reverse=True):
        first = moment if 0 <= first - moment <= _SECONDS_APART else first
    for moment in sorted(written_at.values()):
        last = moment if 0 <= moment - last <= _SECONDS_APART else last
    return {name: moment - described_at for name, moment in written_at.items() if not first <= moment <= last}


def written_apart_text(seconds_apart: Mapping[str, float]) -> str:
    """Say that files were written apart from the `.metadata` beside them, the one of the longest time by name.

    >>> written_apart_text({"__2_0.distcp": -30_000})
    '__2_0.distcp was written 8.33 h before .metadata: of another save, unless a copy changed the times of files'
    """
    name = max(seconds_apart, key=lambda name: abs(seconds_apart[name]))
    more = f" and {counted_text(len(seconds_apart) - 1, 'more file')} apart from it" if len(seconds_apart) > 1 else ""
    when = "before" if seconds_apart[name] < 0 else "after"
    return (
        f"{name} was written {seconds_text(abs(seconds_apart[name]))} {when} .metadata{more}: of another save, unless "
        "a copy changed the times of files"
    )


def dcp_container(path: Path) -> Container:
    """Read the tensors that a `.metadata` file describes, and list the data files beside it.

    Raises UnreadableFile if the file is refused, or if data files are cut short or partly missing.
    """
    metadata = read_dcp_metadata(path)
    present, absent = _divide_data_files(path, metadata)
    notes = []
    if absent:
        notes.append("No data file is in the folder of .metadata: the sizes are those that .metadata states")
    if metadata.is_transformed:
        notes.append("The data files are compressed or encrypted: tensor bytes are those in memory")
    if apart := seconds_written_apart({file.name: file.stat().st_mtime for file in (path, *present)}):
        notes.append(written_apart_text(apart))
    return Container(
        format="torch-dcp",
        paths=(path, *present),
        tensors=metadata.tensors,
        is_state_dict=not metadata.num_blobs,
        absent_files=absent,
        keys=frozenset(
            re.split(r"[./]", name)[0] for name in (*(tensor.name for tensor in metadata.tensors), *metadata.item_bytes)
        ),
        value_bytes=metadata.value_bytes,
        settings=tuple(settings_in_names(metadata.item_bytes)),
        notes=tuple(notes),
    )


def read_dcp_metadata(path: Path) -> DcpMetadata:
    """Read a `.metadata` file.

    Raises UnreadableFile if the file is refused.
    """
    content = bounded_content(path, max_bytes=MAX_PICKLE_BYTES, what="metadata")
    try:
        return dcp_metadata(content)
    except RefusedPickle as error:
        raise refusal(path, f"is refused as DCP metadata ({error})", DAMAGED_REMEDY) from None


def _divide_data_files(path: Path, metadata: DcpMetadata) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Divide the data files that the metadata names into those that exist and those that do not."""
    ends = metadata.file_ends
    names = sorted(ends)
    present = tuple(path.parent / name for name in names if (path.parent / name).exists())
    if present and len(present) < len(names):
        wrong = f"names {len(names)} data files of which {len(names) - len(present)} are missing"
        raise refusal(path, wrong, "copy the missing files, or give the .metadata file without any")
    for file in present:
        size, end = regular_file_bytes(file), ends[file.name]
        if size < end:
            wrong = f"is cut short: it has {size} bytes, and .metadata places data up to byte {end}"
            raise refusal(file, wrong, DAMAGED_REMEDY)
    return present, () if present else tuple(names)
