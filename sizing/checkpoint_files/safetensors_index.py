"""Tensors of a sharded safetensors model, found through its `*.safetensors.index.json`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.json_object import json_object
from sizing.checkpoint_files.refusals import DAMAGED_REMEDY, bounded_content, printable, refusal
from sizing.checkpoint_files.safetensors_file import safetensors_tensors

SHARD_SUFFIX = ".safetensors"
INDEX_SUFFIX = f"{SHARD_SUFFIX}.index.json"
MAX_INDEX_BYTES = 32 * 1024**2
"""As MAX_HEADER_BYTES of a file: the index has one line for each tensor of all shards."""
MAX_SHARDS = 10_000
"""The largest public models have about 200; each is opened."""
INDEX_REMEDY = "give the index of a sharded safetensors model"


def index_container(
    path: Path, *, read_shard: Callable[[Path], tuple[StoredTensor, ...]] = safetensors_tensors
) -> Container:
    """The tensors of the shards that an index names, or its totals where no shard stands beside it.

    Raises UnreadableFile where the index is not one, where some shards are missing, or where shards and index
    disagree.
    """
    index = _index(path)
    shards = _shard_names(path, index)
    absent = tuple(name for name in shards if not (path.parent / name).exists())
    if len(absent) == len(shards):
        return _index_alone(path, index, absent)
    if absent:
        wrong = f"names {len(shards)} shards of which {len(absent)} are missing ({printable(absent[0])})"
        raise refusal(path, wrong, "download or copy the missing shards, or give the index without any")
    paths = tuple(path.parent / name for name in shards)
    tensors = tuple(_checked_tensors(path, index, shards, read_shard))
    return Container("safetensors", (path, *paths), tensors, is_state_dict=True)


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
    """The file names in a weight_map, each once, in order; none may lead out of the folder."""
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
    """Whether a name taken from a file stays inside the folder that it is joined to.

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
    """A total of an index; transformers has written it as 1.0e9 as well as 1000000000."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 < value < 2**63 else None


def _checked_tensors(
    path: Path, index: dict[str, Any], shards: list[str], read_shard: Callable[[Path], tuple[StoredTensor, ...]]
) -> list[StoredTensor]:
    """The tensors of all shards; each must stand in the shard that the weight_map names."""
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
