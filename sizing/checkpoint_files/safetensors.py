"""Read the tensors of a safetensors file from its header alone, or of a sharded model through its index.

The layout of a file: 8 bytes little-endian length N, N bytes of JSON, then the data without a gap. Source: the format
section of the safetensors README (version 0.8), whose rules on offsets are checked here. The index is
`*.safetensors.index.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import SAFETENSORS_DTYPES, num_elements
from sizing.checkpoint_files.untrusted import (
    DAMAGED_REMEDY,
    bounded_content,
    json_object,
    leading_bytes,
    printable,
    refusal,
    regular_file_bytes,
    too_large,
)

LENGTH_BYTES = 8
"""Length of the first field: the header's length as a 64-bit number."""
MAX_HEADER_BYTES = 32 * 1024**2
"""Max length of a header. The format allows 100 MB, and a tensor takes about 100 bytes, so this holds 300,000. Parsed
JSON takes some ten times its text in memory, and the sender chooses the size."""
_ENTRY_FIELDS = {"dtype", "shape", "data_offsets"}


def safetensors_container(path: Path) -> Container:
    """Read the tensors of one safetensors file.

    Raises UnreadableFile if it is damaged, cut short or not a safetensors file.
    """
    return Container(format="safetensors", paths=(path,), tensors=safetensors_tensors(path), is_state_dict=True)


def safetensors_tensors(path: Path) -> tuple[StoredTensor, ...]:
    """List every tensor in the header of a safetensors file, in the order of its data."""
    size = regular_file_bytes(path)
    header_bytes = _header_bytes(path)
    data_bytes = size - LENGTH_BYTES - header_bytes
    if size < LENGTH_BYTES or data_bytes < 0:
        wrong = f"is no whole safetensors file: its header claims {header_bytes} bytes, the file has {size}"
        raise refusal(path, wrong, DAMAGED_REMEDY)
    return _tensors(path, header_bytes, data_bytes=data_bytes)


def header_tensors(path: Path) -> tuple[StoredTensor, ...]:
    """List the tensors that the header of a file names; of the file only the bytes up to the header's end are read."""
    size, header_bytes = regular_file_bytes(path), _header_bytes(path)
    if size < LENGTH_BYTES + header_bytes:
        wrong = f"ends within its header of {header_bytes} bytes"
        raise refusal(path, wrong, f"give at least its first {LENGTH_BYTES + header_bytes} bytes")
    return _tensors(path, header_bytes, data_bytes=None)


def _header_bytes(path: Path) -> int:
    return int.from_bytes(leading_bytes(path, LENGTH_BYTES), "little")


def _tensors(path: Path, header_bytes: int, *, data_bytes: int | None) -> tuple[StoredTensor, ...]:
    """Read the tensors of a header; `data_bytes` of data must be in the file, any number where None."""
    if header_bytes > MAX_HEADER_BYTES:
        raise too_large(path, "a header", size=header_bytes, max_bytes=MAX_HEADER_BYTES)
    try:
        header = json_object(leading_bytes(path, header_bytes, at=LENGTH_BYTES))
        header.pop("__metadata__", None)
        placed = sorted(_place_tensors(header), key=lambda entry: entry[:2])
        end = placed[-1][1] if placed else 0
        _check_coverage([entry[:2] for entry in placed], data_bytes=end if data_bytes is None else data_bytes)
    except ValueError as error:
        raise refusal(path, f"has a header that breaks the safetensors format ({error})", DAMAGED_REMEDY) from None
    return tuple(tensor for _, _, tensor in placed)


def _place_tensors(header: dict[str, Any]) -> Iterator[tuple[int, int, StoredTensor]]:
    for name, entry in header.items():
        try:
            yield _place_tensor(name, entry)
        except ValueError as error:
            raise ValueError(f"tensor {printable(name)!r}: {error}") from None


def _place_tensor(name: str, entry: object) -> tuple[int, int, StoredTensor]:
    if not isinstance(entry, dict) or set(entry) != _ENTRY_FIELDS:
        raise ValueError("it must have dtype, shape and data_offsets")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not _is_range(offsets):
        raise ValueError("its shape or its data_offsets are not lists of whole numbers in order")
    known = SAFETENSORS_DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if known is None:
        raise ValueError(f"its dtype {printable(str(entry['dtype']))!r} is not known")
    dtype, bits = known
    count = num_elements(tuple(shape))
    if count * bits != 8 * (offsets[1] - offsets[0]):
        raise ValueError(f"its data has {offsets[1] - offsets[0]} bytes, its shape needs {count * bits / 8:g}")
    tensor = StoredTensor(name, dtype, tuple(shape), count, offsets[1] - offsets[0])
    return offsets[0], offsets[1], tensor


def _is_range(offsets: object) -> bool:
    return (
        isinstance(offsets, list)
        and len(offsets) == 2
        and all(type(offset) is int for offset in offsets)
        and 0 <= offsets[0] <= offsets[1] < 2**63
    )


def _check_coverage(ranges: list[tuple[int, int]], *, data_bytes: int) -> None:
    """Refuse sorted ranges that overlap, leave a gap, or do not fill the data."""
    reached = 0
    for begin, end in ranges:
        if begin != reached:
            raise ValueError(f"data_offsets {'overlap' if begin < reached else 'leave a gap'} at byte {begin}")
        reached = end
    if reached != data_bytes:
        raise ValueError(f"its tensors take {reached} bytes, the file holds {data_bytes}")


SHARD_SUFFIX = ".safetensors"
INDEX_SUFFIX = f"{SHARD_SUFFIX}.index.json"
MAX_INDEX_BYTES = 32 * 1024**2
"""Max size of an index, as MAX_HEADER_BYTES for a file: it has one line for each tensor of all shards."""
MAX_SHARDS = 10_000
"""Max shards, each of which is opened; the largest public models have about 200."""
INDEX_REMEDY = "give the index of a sharded safetensors model"


def index_container(
    path: Path, *, read_shard: Callable[[Path], tuple[StoredTensor, ...]] = safetensors_tensors
) -> Container:
    """Read the tensors of the shards that an index names, or its totals if no shard is beside it.

    Raises UnreadableFile if the index is not one, if some shards are missing, or if shards and index disagree.
    """
    index = _index(path)
    shards = _shard_names(path, index)
    absent = absent_shards(path)
    if len(absent) == len(shards):
        return _index_alone(path, index, absent)
    if absent:
        wrong = f"names {len(shards)} shards of which {len(absent)} are missing ({printable(absent[0])})"
        raise refusal(path, wrong, "download or copy the missing shards, or give the index without any")
    paths = tuple(path.parent / name for name in shards)
    tensors = tuple(_checked_tensors(path, index, shards, read_shard))
    return Container("safetensors", (path, *paths), tensors, is_state_dict=True)


def absent_shards(path: Path) -> tuple[str, ...]:
    """List the shards that an index names and that are not in its folder.

    Raises UnreadableFile if the index is not one.
    """
    return tuple(name for name in _shard_names(path, _index(path)) if not (path.parent / name).exists())


def _index(path: Path) -> dict[str, Any]:
    content = bounded_content(path, max_bytes=MAX_INDEX_BYTES, what="an index")
    try:
        index = json_object(content)
    except ValueError as error:
        raise refusal(path, f"is not a safetensors index ({error})", INDEX_REMEDY) from None
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise refusal(path, "is not a safetensors index (it has no weight_map)", INDEX_REMEDY)
    return index


def _shard_names(path: Path, index: dict[str, Any]) -> list[str]:
    """List the file names in a weight_map, sorted; refuse one that leads out of the folder."""
    names: dict[str, None] = {}
    for name in index["weight_map"].values():
        if not isinstance(name, str) or not is_plain_file_name(name):
            wrong = f"names the shard {printable(str(name))!r}, which is not a file name in its folder"
            raise refusal(path, wrong, INDEX_REMEDY)
        if not name.endswith(SHARD_SUFFIX):
            raise refusal(path, f"names the shard {name!r}, which is no safetensors file", "give the folder")
        names[name] = None
    if len(names) > MAX_SHARDS:
        raise refusal(path, f"names {len(names)} shards, more than {MAX_SHARDS}", INDEX_REMEDY)
    return sorted(names)


def is_plain_file_name(name: str) -> bool:
    """Return whether a name from a file's content stays inside the folder to which it is joined.

    >>> [is_plain_file_name(name) for name in ("a.safetensors", "../a", "/a", "..", "")]
    [True, False, False, False, False]
    """
    return 0 < len(name) < 256 and name.isprintable() and name not in (".", "..") and not set(name) & set("/\\")


def _index_alone(path: Path, index: dict[str, Any], absent: tuple[str, ...]) -> Container:
    metadata = index.get("metadata")
    totals = metadata if isinstance(metadata, dict) else {}
    size = _whole(totals.get("total_size"))
    if size is None:
        wrong = "has no metadata.total_size, and none of its shards is in its folder"
        raise refusal(path, wrong, "copy the shards to the folder of the index")
    return Container(
        "safetensors",
        (path,),
        tensors=(),
        is_state_dict=True,
        absent_files=absent,
        known_parameters=_whole(totals.get("total_parameters")),
        known_tensor_bytes=size,
        notes=("No shard is in the folder of the index: the sizes are those that the index states",),
    )


def _whole(value: object) -> int | None:
    """Convert a total of an index to a whole number: transformers has written 1.0e9 as well as 1000000000."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 < value < 2**63 else None


def _checked_tensors(
    path: Path, index: dict[str, Any], shards: list[str], read_shard: Callable[[Path], tuple[StoredTensor, ...]]
) -> list[StoredTensor]:
    """List the tensors of all shards; each must be in the shard that the weight_map names."""
    weight_map, tensors = index["weight_map"], []
    for shard in shards:
        for tensor in read_shard(path.parent / shard):
            if weight_map.get(tensor.name) != shard:
                wrong = f"does not list {printable(tensor.name)!r} in {shard}, which holds it"
                raise refusal(path, wrong, DAMAGED_REMEDY)
            tensors.append(tensor)
    if len(tensors) != len(weight_map):
        missing = len(weight_map) - len(tensors)
        raise refusal(path, f"lists {missing} tensors that no shard holds", DAMAGED_REMEDY)
    return tensors
