"""Read the tensors of a torch.save file, without its data and without running its pickle.

The file is a zip archive with a pickle and a record for each storage. The pickle says where each tensor lies in its
storage. torch never compresses a record, so a file whose records claim more bytes than it has is refused before
anything is read.
"""

from __future__ import annotations

import contextlib
import io
import struct
import zipfile
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from sizing.checkpoint_files.allowed_names import REBUILD_FROM_TYPE, REBUILD_TENSOR, allowed_in_torch_save
from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import STORAGE_DTYPES, TORCH_DTYPE_BITS, num_elements
from sizing.checkpoint_files.optimizers import optimizer_settings
from sizing.checkpoint_files.pickle_reading import (
    MAX_NAME_CHARACTERS,
    MAX_PICKLE_BYTES,
    PERSISTENT,
    Inert,
    Name,
    RefusedPickle,
    is_count,
    read_pickle,
)
from sizing.checkpoint_files.saving_ranks import saving_ranks_in
from sizing.checkpoint_files.untrusted import (
    DAMAGED_REMEDY,
    leading_bytes,
    refusal,
    regular_file_bytes,
    too_large,
    unopened,
)

ZIP_MAGIC = b"PK\x03\x04"
LEGACY_MAGIC = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
"""Bytes in the first pickle of the format before torch 1.6, after its header: `torch.serialization.MAGIC_NUMBER`."""
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
MAX_DIRECTORY_BYTES = 16 * 1024**2
"""Max size of the zip directory, which zipfile reads whole into memory. torch.save takes 63 bytes for a tensor, so this
is 260,000 tensors.
"""
SAVE_AGAIN = "load it with the torch that wrote it and torch.save it again"
_BLOCK_BYTES = 1024**2
"""Block in which a pickle is read: its size is only a claim of the archive."""

_ZIP_ERRORS = (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, struct.error)


@dataclass(frozen=True, slots=True)
class TorchArchive:
    """The pickle of a torch.save file, and for each storage by key its bytes and, if it has one, its CRC-32."""

    pickle: bytes
    storage_bytes: dict[str, int]
    storage_checksums: dict[str, int]


def is_torch_file(path: Path) -> bool:
    """Return whether a file begins like one of torch.save, in the current format or an old one."""
    start = leading_bytes(path, TAR_MAGIC_AT + len(TAR_MAGIC))
    return start.startswith(ZIP_MAGIC) or _name_old_format(start) is not None


def torch_archive(path: Path) -> TorchArchive:
    """Read the pickle and the storage sizes of a torch.save file.

    Raises UnreadableFile if the file is of an old format, damaged, or claims impossible sizes.
    """
    start = leading_bytes(path, TAR_MAGIC_AT + len(TAR_MAGIC))
    if old := _name_old_format(start):
        raise refusal(path, f"is a torch.save file of the old {old} format, which is not read", SAVE_AGAIN)
    if not start.startswith(ZIP_MAGIC):
        raise refusal(path, "is no torch.save file (it is not a zip archive)", "give a checkpoint")
    try:
        with path.open("rb") as file, zipfile.ZipFile(_BoundedReads(file)) as archive:
            return _read_records(path, archive)
    except OSError as error:
        raise unopened(path, error) from None
    except _ZIP_ERRORS as error:
        raise refusal(path, f"is a damaged zip archive ({error})", DAMAGED_REMEDY) from None


def read_storages(path: Path, keys: Collection[str]) -> dict[str, bytes]:
    """Read the bytes of a few small storages of a torch.save file, by key; one that is damaged or large is left out."""
    values: dict[str, bytes] = {}
    with path.open("rb") as file, zipfile.ZipFile(_BoundedReads(file)) as archive:
        for record in archive.infolist() if keys else ():
            key = record.filename.rpartition("/data/")[2]
            if key in keys and record.file_size <= _BLOCK_BYTES:
                with contextlib.suppress(*_ZIP_ERRORS):
                    values[key] = archive.read(record)
    return values


class _BoundedReads(io.BufferedIOBase):
    """File that returns at most a directory's bytes per read, whatever size the archive claims."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:  # zipfile reads so only the few bytes at the end
            size = MAX_DIRECTORY_BYTES
        if size > MAX_DIRECTORY_BYTES:
            raise ValueError(f"its directory takes more than {MAX_DIRECTORY_BYTES} bytes")
        return self._file.read(size)


def _read_records(path: Path, archive: zipfile.ZipFile) -> TorchArchive:
    """Read the pickle of an archive, and of its storages the sizes and checksums that the zip directory states."""
    records = {record.filename: record for record in archive.infolist()}
    _check_records(path, records, archive)
    pickles = [name for name in records if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(pickles) != 1:
        raise refusal(path, "is a zip archive without the data.pkl of torch.save", "give a checkpoint")
    root = pickles[0].removesuffix("data.pkl")
    if f"{root}constants.pkl" in records:
        raise refusal(path, "is a TorchScript archive, a program and not a checkpoint", "give a checkpoint")
    record = records[pickles[0]]
    if record.file_size > MAX_PICKLE_BYTES:
        raise too_large(path, "a pickle", size=record.file_size, max_bytes=MAX_PICKLE_BYTES)
    if _has_no_checksum(record):
        del record.CRC  # zipfile compares only where there is one
    with archive.open(record) as file:
        content = b"".join(iter(lambda: file.read(_BLOCK_BYTES), b""))
    prefix = f"{root}data/"
    storages = {name.removeprefix(prefix): record for name, record in records.items() if name.startswith(prefix)}
    return TorchArchive(
        pickle=content,
        storage_bytes={key: record.file_size for key, record in storages.items()},
        storage_checksums={key: record.CRC for key, record in storages.items() if not _has_no_checksum(record)},
    )


def _has_no_checksum(record: zipfile.ZipInfo) -> bool:
    """Return whether torch wrote a zero in place of a CRC-32 (`torch.serialization.set_crc32_options`)."""
    return not record.CRC and record.file_size > 0


def _check_records(path: Path, records: dict[str, zipfile.ZipInfo], archive: zipfile.ZipFile) -> None:
    """Refuse duplicate names, compressed records, and records that do not fit into the file."""
    if len(records) != len(archive.infolist()):
        raise refusal(path, "holds two zip records of one name", DAMAGED_REMEDY)
    for record in records.values():
        if record.compress_type != zipfile.ZIP_STORED or record.file_size != record.compress_size:
            raise refusal(path, "holds compressed zip records, which torch.save never writes", SAVE_AGAIN)
    claimed, size = sum(record.file_size for record in records.values()), regular_file_bytes(path)
    if claimed > size:
        raise refusal(path, f"claims zip records of {claimed} bytes in a file of {size}", DAMAGED_REMEDY)


def _name_old_format(start: bytes) -> str | None:
    if start[:1] == b"\x80" and start[2:].startswith(LEGACY_MAGIC):
        return "non-zip"
    if start[TAR_MAGIC_AT:].startswith(TAR_MAGIC):
        return "tar"
    return None


MAX_LEVELS = 64
"""Max depth; checkpoints nest about ten levels. Names join the keys on the way, so unbounded depth takes unbounded
memory.
"""

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PickledTensor:
    """A tensor as the pickle describes it. `begin` and `end` are the range of its storage that it spans.

    `num_bytes` is the size of its elements, less than the range if it is a view with gaps.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    storage: str
    storage_bytes: int
    begin: int
    end: int
    num_elements: int
    num_bytes: int


def pickled_tensors(root: object) -> Iterator[PickledTensor]:
    """List every tensor of the pickle in order, named by the keys and indices that lead to it.

    An object that is reached a second time is skipped: a pickle of a few bytes can lead to the same list in 2^60 ways.

    Raises RefusedPickle for an impossible tensor, or for too many levels.
    """
    waiting: list[tuple[Keys, object]] = [((), root)]
    seen: set[int] = set()
    while waiting:
        path, value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        call = _find_rebuild_call(value)
        if call is not None:
            yield _read_tensor(".".join(path), call)
        elif len(path) > MAX_LEVELS:
            raise RefusedPickle(f"it nests deeper than {MAX_LEVELS} levels")
        else:
            waiting.extend(reversed(list(_list_children(path, value))))


def is_flat_mapping_of_tensors(root: object) -> bool:
    """Return whether the pickle is one dict of tensors by name, as `torch.save(model.state_dict())` writes."""
    return isinstance(root, dict) and bool(root) and all(_holds_one_tensor(value) for value in root.values())


def _list_children(path: Keys, value: object) -> Iterator[tuple[Keys, object]]:
    """List the values directly below a value that may hold tensors, those of a container by key or by index."""
    if isinstance(value, Inert):
        below = (*value.arguments, value.state, *(value.items or ()))
        yield from ((path, item) for item in below if _may_hold_tensors(item))
        return
    entries: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        entries = value.items()
    elif isinstance(value, (list, tuple)):
        entries = enumerate(value)
    for key, item in entries:
        if not _may_hold_tensors(item):
            continue
        text = key.text if isinstance(key, Name) else str(key) if isinstance(key, (str, int)) else type(key).__name__
        if len(text) > MAX_NAME_CHARACTERS:
            raise RefusedPickle(f"a key is longer than {MAX_NAME_CHARACTERS} characters")
        yield (*path, text), item


def _may_hold_tensors(value: object) -> bool:
    return isinstance(value, (dict, list, tuple, Inert))


def _holds_one_tensor(value: object) -> bool:
    while isinstance(value, Inert) and value.name.startswith("torch._utils._rebuild_parameter"):
        value = value.arguments[0] if value.arguments else None
    return _find_rebuild_call(value) is not None


def _find_rebuild_call(value: object) -> Inert | None:
    """Find the call that rebuilds a dense tensor from its storage, None if the value is not one."""
    if not isinstance(value, Inert):
        return None
    if value.name in REBUILD_TENSOR:
        return value
    if value.name == REBUILD_FROM_TYPE and len(value.arguments) >= 3:
        function, _, arguments = value.arguments[:3]
        if isinstance(function, Name) and function.text in REBUILD_TENSOR and isinstance(arguments, tuple):
            return Inert(function.text, arguments)
    return None


def _read_tensor(name: str, call: Inert) -> PickledTensor:
    """Read a tensor from the arguments of its call: storage, offset, shape, strides; in version 3, dtype is seventh."""
    arguments = call.arguments
    if len(arguments) < 4:
        raise RefusedPickle("a tensor is rebuilt from too little")
    key, storage_dtype, storage_elements = _read_storage(arguments[0])
    offset, shape, strides = arguments[1:4]
    dtype = read_dtype(arguments[6]) if call.name.endswith("_v3") and len(arguments) > 6 else storage_dtype
    sizes, steps = _read_shape(shape, strides)
    count, span = _count_and_span(sizes, steps)
    if type(offset) is not int or offset < 0:
        raise RefusedPickle("a tensor has no offset")
    size = TORCH_DTYPE_BITS[dtype] // 8
    storage_bytes = storage_elements * TORCH_DTYPE_BITS[storage_dtype] // 8
    begin, end = offset * size, (offset + span) * size
    if end > storage_bytes and span:
        raise RefusedPickle(f"tensor {name[:80]!r} reaches beyond its storage")
    return PickledTensor(name, dtype, sizes, key, storage_bytes, begin, end, count, count * size)


def _read_shape(shape: object, strides: object) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        raise RefusedPickle("a tensor has no shape and strides")
    sizes = tuple(size for size in shape if type(size) is int)
    steps = tuple(filter(is_count, strides))
    if len(sizes) != len(shape) or len(steps) != len(strides):
        raise RefusedPickle("a shape or stride is not a whole number")
    return sizes, steps


def _count_and_span(sizes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[int, int]:
    """Count a tensor's elements, and those from the first to the last it touches: 1 + sum of (size - 1) x stride."""
    try:
        count = num_elements(sizes)
    except ValueError as error:
        raise RefusedPickle(f"a tensor is impossible: {error}") from None
    if not count:
        return 0, 0
    return count, 1 + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))


def _read_storage(value: object) -> tuple[str, str, int]:
    """Read key, dtype and elements of a storage, saved as ("storage", class, key, location, elements)."""
    arguments = value.arguments if isinstance(value, Inert) and value.name == PERSISTENT else ()
    identity = arguments[0] if arguments else None
    if not isinstance(identity, tuple) or len(identity) != 5 or identity[0] != "storage":
        raise RefusedPickle("a tensor has no storage in the file")
    _, kind, key, _, count = identity
    class_name = kind.text.rpartition(".")[2] if isinstance(kind, Name) else ""
    dtype = "uint8" if class_name == "UntypedStorage" else STORAGE_DTYPES.get(class_name)
    if dtype is None or not isinstance(key, str) or not is_count(count):
        raise RefusedPickle("a storage has no key, dtype or size")
    return key, dtype, count


def read_dtype(value: object) -> str:
    """Read a dtype that a pickle names, without its `torch.`; raises RefusedPickle where it names none."""
    name = value.text.removeprefix("torch.") if isinstance(value, Name) else ""
    if name not in TORCH_DTYPE_BITS:
        raise RefusedPickle("a tensor has no dtype")
    return name


TRUST_REMEDY = "do not load it with plain pickle; give a checkpoint of tensors, numbers and text"


def torch_container(path: Path) -> Container:
    """Read the tensors of a torch.save file; each byte of a shared storage counts once.

    Raises UnreadableFile if the file is damaged, or if its pickle names anything that no checkpoint needs.
    """
    archive = torch_archive(path)
    try:
        root = read_pickle(archive.pickle, allows=allowed_in_torch_save)
        tensors = list(pickled_tensors(root))
        _check_storages(tensors, archive.storage_bytes)
        known_parameters = _count_partitioned_parameters(path, root)
    except RefusedPickle as error:
        raise refusal(path, f"is refused as a torch.save file ({error})", TRUST_REMEDY) from None
    return Container(
        format="torch-save",
        paths=(path,),
        tensors=stored_once(tensors, archive.storage_checksums),
        is_state_dict=is_flat_mapping_of_tensors(root),
        known_parameters=known_parameters,
        keys=frozenset(map(str, root)) if isinstance(root, dict) else frozenset(),
        settings=tuple(optimizer_settings(root)),
        ranks=saving_ranks_in(root),
    )


def _count_partitioned_parameters(path: Path, root: object) -> int | None:
    """Count the parameters of a model that ZeRO 3 has partitioned, whose weights are in no file.

    Every data rank states the shapes of the whole model, or of its tensor rank's part; those of rank 0 count. Source:
    DeepSpeed, runtime/engine.py, _common_checkpoint_state; utils/zero_to_fp32.py.
    """
    if not isinstance(root, dict) or not path.name.startswith("zero_pp_rank_"):
        return None
    groups = root.get("param_shapes")
    if not isinstance(groups, list):
        return None
    is_first = path.name.startswith("zero_pp_rank_0_")
    by_name = [group for group in (*groups, root.get("frozen_param_shapes")) if isinstance(group, dict)]
    return sum(_count_elements(shape) for group in by_name for shape in group.values()) if is_first else 0


def _count_elements(shape: object) -> int:
    if not isinstance(shape, tuple):
        raise RefusedPickle("a partitioned parameter has no shape")
    try:
        return num_elements(shape)
    except ValueError as error:
        raise RefusedPickle(f"a partitioned parameter is impossible: {error}") from None


def stored_once(
    tensors: Iterable[PickledTensor], checksums: Mapping[str, int] = MappingProxyType({})
) -> tuple[StoredTensor, ...]:
    """Return the tensors in order, each with the bytes of its storage that no other tensor counts.

    `checksums` are those of storages. The one of a storage that a tensor fills stands for the content of the tensor.
    """
    by_storage: dict[str, list[PickledTensor]] = defaultdict(list)
    tensors = list(tensors)
    for tensor in tensors:
        by_storage[tensor.storage].append(tensor)
    sizes = {id(tensor): size for views in by_storage.values() for tensor, size in _count_bytes(views)}
    stored: list[StoredTensor] = []
    for tensor in tensors:
        size = sizes[id(tensor)]
        count = size * 8 // TORCH_DTYPE_BITS[tensor.dtype]
        is_alias = tensor.num_bytes > 0 and size == 0
        content = checksums.get(tensor.storage) if tensor.num_bytes == tensor.storage_bytes else None
        stored.append(StoredTensor(tensor.name, tensor.dtype, tensor.shape, count, size, is_alias, content))
    return tuple(stored)


def _count_bytes(views: list[PickledTensor]) -> Iterator[tuple[PickledTensor, int]]:
    """Count the bytes that each view of one storage adds, in all at most the bytes of the storage.

    Views without gaps add the union of their ranges. One with gaps (a column, or one value repeated) adds its
    elements, unless the same view or the whole was counted before.
    """
    reached, left, seen = 0, views[0].storage_bytes, set()
    for view in sorted(views, key=lambda view: (view.begin, -view.end)):
        place = (view.begin, view.end, view.shape)
        if place in seen:
            added = 0
        elif view.end - view.begin == view.num_bytes:
            added = max(0, view.end - max(view.begin, reached))
            reached = max(reached, view.end)
        else:
            added = view.num_bytes
        added = min(added, left, view.end - view.begin)
        left -= added
        seen.add(place)
        yield view, added


def _check_storages(tensors: list[PickledTensor], record_bytes: dict[str, int]) -> None:
    """Refuse a tensor whose storage is not a record of the archive, or has another size."""
    for tensor in tensors:
        record = record_bytes.get(tensor.storage)
        if record is None:
            raise RefusedPickle(f"the storage of tensor {tensor.name[:80]!r} is missing")
        if record != tensor.storage_bytes:
            wrong = f"has {record} bytes instead of {tensor.storage_bytes}"
            raise RefusedPickle(f"the storage of tensor {tensor.name[:80]!r} {wrong}")
