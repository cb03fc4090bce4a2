"""Tensors of a torch.save file, without its data and without running its pickle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from sizing.checkpoint_files.allowed_names import allowed_in_torch_save
from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import TORCH_DTYPE_BITS, num_elements
from sizing.checkpoint_files.pickle_reading import read_pickle
from sizing.checkpoint_files.pickle_values import RefusedPickle
from sizing.checkpoint_files.pickled_tensors import (
    PickledTensor,
    is_flat_mapping_of_tensors,
    pickled_tensors,
)
from sizing.checkpoint_files.refusals import refusal
from sizing.checkpoint_files.torch_zip import torch_archive

TRUST_REMEDY = "do not load it with plain pickle; give a checkpoint of tensors, numbers and text"


def torch_container(path: Path) -> Container:
    """The tensors of a torch.save file, each byte of a shared storage counted once.

    Raises UnreadableFile where the file is damaged, or its pickle names what no checkpoint needs.
    """
    archive = torch_archive(path)
    try:
        root = read_pickle(archive.pickle, allows=allowed_in_torch_save)
        found = list(pickled_tensors(root))
        _check_storages(found, archive.storage_bytes)
        partitioned = _partitioned_parameters(path, root)
    except RefusedPickle as error:
        raise refusal(path, f"is refused as a torch.save file ({error})", TRUST_REMEDY) from None
    return Container(
        format="torch-save",
        paths=(path,),
        tensors=stored_once(found, archive.storage_checksums),
        is_state_dict=is_flat_mapping_of_tensors(root),
        known_parameters=partitioned,
        keys=frozenset(map(str, root)) if isinstance(root, dict) else frozenset(),
    )


def _partitioned_parameters(path: Path, root: object) -> int | None:
    """Parameters of a model that ZeRO 3 has partitioned, of whose weights no file has a value.

    Every data rank states the shapes of the whole model, or of what its tensor rank holds; those of rank 0 count.
    Source: DeepSpeed, runtime/engine.py, _common_checkpoint_state; utils/zero_to_fp32.py.
    """
    if not isinstance(root, dict) or not path.name.startswith("zero_pp_rank_"):
        return None
    groups = root.get("param_shapes")
    if not isinstance(groups, list):
        return None
    is_first = path.name.startswith("zero_pp_rank_0_")
    by_name = [group for group in (*groups, root.get("frozen_param_shapes")) if isinstance(group, dict)]
    return sum(_num_elements_of(shape) for group in by_name for shape in group.values()) if is_first else 0


def _num_elements_of(shape: object) -> int:
    if not isinstance(shape, tuple):
        raise RefusedPickle("a partitioned parameter has no shape")
    try:
        return num_elements(shape)
    except ValueError as error:
        raise RefusedPickle(f"a partitioned parameter is impossible: {error}") from None


def stored_once(
    found: Iterable[PickledTensor], checksums: Mapping[str, int] = MappingProxyType({})
) -> tuple[StoredTensor, ...]:
    """Tensors in their order, each with the bytes of its storage that no other counts already.

    `checksums` are those of storages; one tells the content of a tensor that fills its storage.
    """
    by_storage: dict[str, list[PickledTensor]] = defaultdict(list)
    tensors = list(found)
    for tensor in tensors:
        by_storage[tensor.storage].append(tensor)
    counted = {id(tensor): size for views in by_storage.values() for tensor, size in _counted_bytes(views)}
    return tuple(_stored(tensor, counted[id(tensor)], checksums) for tensor in tensors)


def _counted_bytes(views: list[PickledTensor]) -> Iterator[tuple[PickledTensor, int]]:
    """The bytes that each view of one storage adds; in all they are at most those of the storage.

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


def _stored(view: PickledTensor, added_bytes: int, checksums: Mapping[str, int]) -> StoredTensor:
    count = added_bytes * 8 // TORCH_DTYPE_BITS[view.dtype]
    is_alias = view.num_bytes > 0 and added_bytes == 0
    content = checksums.get(view.storage) if view.num_bytes == view.storage_bytes else None
    return StoredTensor(view.name, view.dtype, view.shape, count, added_bytes, is_alias, content)


def _check_storages(found: list[PickledTensor], record_bytes: dict[str, int]) -> None:
    """That each storage that a tensor stands in is a record of the archive, and of the same size."""
    for tensor in found:
        record = record_bytes.get(tensor.storage)
        if record is None:
            raise RefusedPickle(f"the storage of tensor {tensor.name[:80]!r} is missing")
        if record != tensor.storage_bytes:
            wrong = f"has {record} bytes instead of {tensor.storage_bytes}"
            raise RefusedPickle(f"the storage of tensor {tensor.name[:80]!r} {wrong}")
