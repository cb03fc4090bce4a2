"""Tensors of a torch.save file, without its data and without running its pickle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from sizing.checkpoint_files.allowed_names import allowed_in_torch_save
from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import TORCH_DTYPE_BITS
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
    except RefusedPickle as error:
        raise refusal(path, f"is refused as a torch.save file ({error})", TRUST_REMEDY) from None
    return Container(
        format="torch-save",
        paths=(path,),
        tensors=stored_once(found),
        is_state_dict=is_flat_mapping_of_tensors(root),
    )


def stored_once(found: Iterable[PickledTensor]) -> tuple[StoredTensor, ...]:
    """Tensors in their order, each with the bytes of its storage that no other counts already."""
    by_storage: dict[str, list[PickledTensor]] = defaultdict(list)
    tensors = list(found)
    for tensor in tensors:
        by_storage[tensor.storage].append(tensor)
    counted = {id(tensor): size for views in by_storage.values() for tensor, size in _counted_bytes(views)}
    return tuple(_stored(tensor, counted[id(tensor)]) for tensor in tensors)


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


def _stored(view: PickledTensor, added_bytes: int) -> StoredTensor:
    count = added_bytes * 8 // TORCH_DTYPE_BITS[view.dtype]
    is_alias = view.num_bytes > 0 and added_bytes == 0
    return StoredTensor(view.name, view.dtype, view.shape, count, added_bytes, is_alias)


def _check_storages(found: list[PickledTensor], record_bytes: dict[str, int]) -> None:
    """That each storage that a tensor stands in is a record of the archive, and of the same size."""
    for tensor in found:
        record = record_bytes.get(tensor.storage)
        if record is None:
            raise RefusedPickle(f"the storage of tensor {tensor.name[:80]!r} is missing")
        if record != tensor.storage_bytes:
            wrong = f"has {record} bytes instead of {tensor.storage_bytes}"
            raise RefusedPickle(f"the storage of tensor {tensor.name[:80]!r} {wrong}")
