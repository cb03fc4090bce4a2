"""Read the arrays of an Orbax checkpoint: a folder with `_METADATA`, and the files that its processes wrote.

`_METADATA` names every array with the shape in which it was written, `_sharding` its mesh. Together they give the shape
of the whole array. Dtypes are only in the compressed database, so that bytes by part are not known. Source: Orbax 0.12,
checkpoint/_src/metadata/tree.py, serialization/replica_slices.py.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
from pathlib import Path
from typing import Any

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import NOT_STATED, num_elements
from sizing.checkpoint_files.untrusted import DAMAGED_REMEDY, bounded_content, json_object, refusal

METADATA_NAME = "_METADATA"
SHARDING_NAME = "_sharding"
MAX_METADATA_BYTES = 256 * 1024**2
"""Max size of either file. Orbax writes 270 bytes for an array in `_METADATA` and 390 in `_sharding`, so this is
600,000 arrays.
"""

_NOTE = "Orbax states dtypes in its compressed database alone: bytes by part are not known, bytes on disk are"


def orbax_container(path: Path) -> Container:
    """Read the arrays that a `_METADATA` file names, and list all files of its folder.

    Raises UnreadableFile if it, or `_sharding` beside it, was not written by Orbax.
    """
    tree = _read_document(path).get("tree_metadata")
    if not isinstance(tree, dict):
        raise refusal(path, "is no metadata of Orbax (it has no tree_metadata)", "give the folder of a checkpoint")
    shardings = _read_shardings(path.parent / SHARDING_NAME)
    try:
        arrays = [entry for entry in tree.values() if isinstance(entry["value_metadata"].get("write_shape"), list)]
        tensors = tuple(_read_array(entry, shardings) for entry in arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise refusal(path, f"is no metadata of Orbax ({error})", DAMAGED_REMEDY) from None
    files = [Path(folder) / name for folder, _, names in os.walk(path.parent) for name in names]
    return Container(
        format="orbax",
        paths=(path, *sorted(file for file in files if file != path)),
        tensors=tensors,
        is_state_dict=False,
        keys=frozenset(tensor.name.split(".")[0] for tensor in tensors),
        notes=(_NOTE,),
    )


def _read_document(path: Path) -> dict[str, Any]:
    content = bounded_content(path, max_bytes=MAX_METADATA_BYTES, what="metadata")
    try:
        return json_object(content)
    except ValueError as error:
        raise refusal(path, f"is no metadata of Orbax ({error})", DAMAGED_REMEDY) from None


def _read_shardings(path: Path) -> dict[str, dict[str, Any]]:
    """Read the sharding of each array by name; empty if one process wrote without sharding."""
    if not path.exists():
        return {}
    shardings = {}
    for name, text in _read_document(path).items():
        try:
            sharding = json.loads(text)
            shardings[base64.b64decode(name).decode()] = sharding if isinstance(sharding, dict) else {}
        except (TypeError, ValueError, binascii.Error) as error:
            raise refusal(path, f"is no sharding of Orbax ({error})", DAMAGED_REMEDY) from None
    return shardings


def _read_array(entry: dict[str, Any], shardings: dict[str, dict[str, Any]]) -> StoredTensor:
    name = ".".join(str(part["key"]) for part in entry["key_metadata"])
    shape = tuple(entry["value_metadata"]["write_shape"])
    num_elements(shape)
    whole = whole_shape(shape, *_read_mesh(shardings.get(name, {}), len(shape)))
    return StoredTensor(name, NOT_STATED, whole, num_elements(whole), 0)


def _read_mesh(sharding: dict[str, Any], num_dimensions: int) -> tuple[list[int], int]:
    """Return into how many shards each dimension is cut, and how many devices hold each shard."""
    sizes = dict(zip(sharding.get("axis_names", []), sharding.get("shape", []), strict=True))
    spec = [*sharding.get("partition_spec", []), *[None] * num_dimensions][:num_dimensions]
    axes = [[axis] if isinstance(axis, str) else axis or [] for axis in spec]
    cuts = [math.prod(sizes[axis] for axis in some) for some in axes]
    return cuts, math.prod(sizes.values()) // math.prod(cuts)


def whole_shape(written_shape: tuple[int, ...], cuts: list[int], num_copies: int) -> tuple[int, ...]:
    """Compute the shape of a whole array from the shape of its shards, or slices of shards, as written.

    Of R copies of a shard each writes a slice, s / R along the first dimension that R divides. If R divides no
    dimension, one copy writes the whole shard. So the written shape is that of a slice if R divides one of its
    dimensions, otherwise that of a shard. The dimension of the cut does not change the size; the first is assumed.
    Source: Orbax 0.12, serialization/replica_slices.py, calculate_replica_parallel_axis_and_local_shape.

    >>> whole_shape((4, 6), [2, 1], num_copies=1), whole_shape((4, 6), [2, 1], num_copies=2)
    ((8, 6), (16, 6))
    >>> whole_shape((511,), [1], num_copies=4), whole_shape((), [], num_copies=4)
    ((511,), ())
    """
    shape = [size * cut for size, cut in zip(written_shape, cuts, strict=True)]
    if any(size % num_copies == 0 for size in written_shape):
        shape[0] *= num_copies
    return tuple(shape)
