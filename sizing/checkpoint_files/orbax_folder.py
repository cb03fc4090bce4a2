"""Arrays of an Orbax checkpoint: a folder with `_METADATA`, and the files that its processes wrote.

`_METADATA` names every array with the shape in which it was written, `_sharding` on which mesh. Together they give the
shape of the whole array. The dtypes stand in the database alone, compressed, so that bytes by part are not known.
Source: Orbax 0.12, checkpoint/_src/metadata/tree.py, serialization/replica_slices.py.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import NOT_STATED, num_elements
from sizing.checkpoint_files.json_object import json_object
from sizing.checkpoint_files.refusals import DAMAGED_REMEDY, bounded_content, refusal

METADATA_NAME = "_METADATA"
SHARDING_NAME = "_sharding"
MAX_METADATA_BYTES = 256 * 1024**2
"""Orbax writes 270 bytes for an array in `_METADATA` and 390 in `_sharding`, so this is 600,000 arrays."""

_NOTE = "Orbax states dtypes in its compressed database alone: bytes by part are not known, bytes on disk are"


def orbax_container(path: Path) -> Container:
    """The arrays that a `_METADATA` file names, and all files of its folder.

    Raises UnreadableFile where it, or `_sharding` beside it, is not one of Orbax's.
    """
    tree = _document(path).get("tree_metadata")
    if not isinstance(tree, dict):
        raise refusal(path, "is no metadata of Orbax (it has no tree_metadata)", "give the folder of a checkpoint")
    shardings = _shardings(path.parent / SHARDING_NAME)
    try:
        tensors = tuple(_tensor(entry, shardings) for entry in tree.values() if _is_array(entry))
    except (KeyError, TypeError, ValueError) as error:
        raise refusal(path, f"is no metadata of Orbax ({error})", DAMAGED_REMEDY) from None
    return Container(
        format="orbax",
        paths=(path, *sorted(found for found in _files(path.parent) if found != path)),
        tensors=tensors,
        is_state_dict=False,
        keys=frozenset(tensor.name.split(".")[0] for tensor in tensors),
        notes=(_NOTE,),
    )


def _document(path: Path) -> dict[str, Any]:
    content = bounded_content(path, max_bytes=MAX_METADATA_BYTES, what="metadata")
    try:
        return json_object(content)
    except ValueError as error:
        raise refusal(path, f"is no metadata of Orbax ({error})", DAMAGED_REMEDY) from None


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names)


def _shardings(path: Path) -> dict[str, dict[str, Any]]:
    """The sharding of each array by its name; empty where one process wrote without one."""
    if not path.exists():
        return {}
    found = {}
    for name, text in _document(path).items():
        try:
            sharding = json.loads(text)
            found[base64.b64decode(name).decode()] = sharding if isinstance(sharding, dict) else {}
        except (TypeError, ValueError, binascii.Error) as error:
            raise refusal(path, f"is no sharding of Orbax ({error})", DAMAGED_REMEDY) from None
    return found


def _is_array(entry: Any) -> bool:
    return isinstance(entry["value_metadata"].get("write_shape"), list)


def _tensor(entry: dict[str, Any], shardings: dict[str, dict[str, Any]]) -> StoredTensor:
    name = ".".join(str(part["key"]) for part in entry["key_metadata"])
    shape = tuple(entry["value_metadata"]["write_shape"])
    num_elements(shape)
    whole = whole_shape(shape, *_mesh(shardings.get(name, {}), len(shape)))
    return StoredTensor(name, NOT_STATED, whole, num_elements(whole), 0)


def _mesh(sharding: dict[str, Any], num_dimensions: int) -> tuple[list[int], int]:
    """Into how many shards each dimension is cut, and on how many devices each of the shards stands."""
    sizes = dict(zip(sharding.get("axis_names", []), sharding.get("shape", []), strict=True))
    spec = [*sharding.get("partition_spec", []), *[None] * num_dimensions][:num_dimensions]
    axes = [[axis] if isinstance(axis, str) else axis or [] for axis in spec]
    cuts = [math.prod(sizes[axis] for axis in some) for some in axes]
    return cuts, math.prod(sizes.values()) // math.prod(cuts)


def whole_shape(written: tuple[int, ...], cuts: list[int], num_copies: int) -> tuple[int, ...]:
    """The shape of an array of which shards, or slices of shards, of a shape were written.

    Of R copies of a shard each writes a slice, s / R along the first dimension that R divides; without such a dimension
    one of them writes all of it. So what was written is a slice where R still divides a dimension of it, and is taken
    for whole where R divides none. Along which dimension it was cut does not change the size, and the first is taken.
    Source: Orbax 0.12, serialization/replica_slices.py, calculate_replica_parallel_axis_and_local_shape.

    >>> whole_shape((4, 6), [2, 1], num_copies=1), whole_shape((4, 6), [2, 1], num_copies=2)
    ((8, 6), (16, 6))
    >>> whole_shape((511,), [1], num_copies=4), whole_shape((), [], num_copies=4)
    ((511,), ())
    """
    shape = [size * cut for size, cut in zip(written, cuts, strict=True)]
    if any(size % num_copies == 0 for size in written):
        shape[0] *= num_copies
    return tuple(shape)
