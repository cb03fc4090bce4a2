"""Read the weights of a checkpoint one by one, for a list of a model's tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.folder import container_of_file, read_folder
from sizing.checkpoint_files.parts import parts_of
from sizing.checkpoint_files.safetensors import INDEX_SUFFIX, SHARD_SUFFIX, header_tensors, index_container
from sizing.checkpoint_files.untrusted import is_folder, printable, refusal


class StoredWeights(NamedTuple):
    """The weights of a checkpoint, and how many tensors of other kinds it holds."""

    tensors: tuple[StoredTensor, ...]
    num_others: int


def weights_of(path: Path) -> StoredWeights:
    """Read the weights in a file or folder; for safetensors, the headers are enough.

    Raises UnreadableFile if there are none, if names repeat, or as `contents_of` does.
    """
    containers = tuple(_read_containers(path))
    parted = [
        (part, tensor) for found in containers for part, tensor in zip(parts_of(found), found.tensors, strict=True)
    ]
    tensors = tuple(tensor for part, tensor in parted if part == "weights")
    if any(found.absent_files and not found.tensors for found in containers):
        wrong = "names shards of which none is in its folder, and shapes stand in their headers"
        raise refusal(path, wrong, "put the first bytes of each shard beside it, up to the end of its header")
    if not tensors:
        raise refusal(path, "holds no weights", "give a checkpoint that holds the model's weights")
    counts = Counter(tensor.name for tensor in tensors)
    repeated = next((name for name, count in counts.items() if count > 1), None)
    if repeated is not None:
        wrong = f"has {printable(repeated)!r} in several files, each of which may hold a part of it"
        raise refusal(path, wrong, "give a checkpoint of whole tensors: safetensors, torch DCP or torch-dist")
    return StoredWeights(tensors, len(parted) - len(tensors))


def _read_containers(path: Path) -> Iterator[Container]:
    if not is_folder(path):
        yield _read_file(path)
        return
    indexes = sorted(path.glob(f"*{INDEX_SUFFIX}"))
    if len(indexes) == 1:
        yield _read_file(indexes[0])
    else:
        yield from read_folder(path).containers


def _read_file(path: Path) -> Container:
    """Read the container of a file; of safetensors, only the headers."""
    if path.name.endswith(INDEX_SUFFIX):
        return index_container(path, read_shard=header_tensors)
    if path.suffix == SHARD_SUFFIX:
        return Container(format="safetensors", paths=(path,), tensors=header_tensors(path), is_state_dict=True)
    return container_of_file(path)
