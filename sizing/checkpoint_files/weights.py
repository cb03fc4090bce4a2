"""The weights of a checkpoint one by one, for a list of a model's tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.folder import container_of_file, read_folder
from sizing.checkpoint_files.parts import parts_of
from sizing.checkpoint_files.refusals import printable, refusal, unopened
from sizing.checkpoint_files.safetensors_file import header_tensors
from sizing.checkpoint_files.safetensors_index import INDEX_SUFFIX, SHARD_SUFFIX, index_container


class Weights(NamedTuple):
    """The weights of a checkpoint, and how many tensors of other kinds it holds."""

    tensors: tuple[StoredTensor, ...]
    num_others: int


def weights_of(path: Path) -> Weights:
    """The weights in a file or folder; of safetensors the headers are enough.

    Raises UnreadableFile where there are none, where names repeat, or as `contents_of` does.
    """
    containers = tuple(_containers(path))
    parted = [
        (part, tensor) for found in containers for part, tensor in zip(parts_of(found), found.tensors, strict=True)
    ]
    tensors = tuple(tensor for part, tensor in parted if part == "weights")
    if any(found.absent_files and not found.tensors for found in containers):
        wrong = "names shards of which none is in its folder, and shapes stand in their headers"
        raise refusal(path, wrong, "put the first bytes of each shard beside it, up to the end of its header")
    if not tensors:
        raise refusal(path, "holds no weights", "give a checkpoint that holds the model's weights")
    _check_whole(path, tensors)
    return Weights(tensors, len(parted) - len(tensors))


def _containers(path: Path) -> Iterator[Container]:
    if not _is_folder(path):
        yield _of_file(path)
        return
    indexes = sorted(path.glob(f"*{INDEX_SUFFIX}"))
    if len(indexes) == 1:
        yield _of_file(indexes[0])
    else:
        yield from read_folder(path).containers


def _of_file(path: Path) -> Container:
    """The container of a file, of safetensors by its headers."""
    if path.name.endswith(INDEX_SUFFIX):
        return index_container(path, read_shard=header_tensors)
    if path.suffix == SHARD_SUFFIX:
        return Container(format="safetensors", paths=(path,), tensors=header_tensors(path), is_state_dict=True)
    return container_of_file(path)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise unopened(path, error) from None


def _check_whole(path: Path, tensors: tuple[StoredTensor, ...]) -> None:
    """Refuse names that several files have: each may hold a part of the tensor."""
    counts = Counter(tensor.name for tensor in tensors)
    repeated = next((name for name, count in counts.items() if count > 1), None)
    if repeated is not None:
        wrong = f"has {printable(repeated)!r} in several files, each of which may hold a part of it"
        raise refusal(path, wrong, "give a checkpoint of whole tensors: safetensors, torch DCP or torch-dist")
