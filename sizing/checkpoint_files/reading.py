"""A checkpoint's path in, its CheckpointContents out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Literal

from sizing.checkpoint_files.container import Container, Format, StoredTensor
from sizing.checkpoint_files.contents import CheckpointContents, CheckpointFile, TensorTotal
from sizing.checkpoint_files.dtypes import FLOATING
from sizing.checkpoint_files.folder import container_of_file, read_folder
from sizing.checkpoint_files.parts import PARTS, Part, parts_of
from sizing.checkpoint_files.refusals import printable, regular_file_bytes, unopened

PartedTensor = tuple[Part, StoredTensor]

PACKED = "Weights are stored as integers. One element may hold several parameters, so parameters are not counted"
COPIES = "Weights are in files of {kinds}. If these are copies of one model, inspect one of them alone"
REPEATED = (
    "{count:,} names of weights occur in more than one file. Each occurrence counts: right for shards, too much for "
    "tensors that every rank saves whole"
)


def contents_of(path: Path) -> CheckpointContents:
    """What the checkpoint in a file or folder holds, without loading a tensor or running a pickle.

    Raises UnreadableFile where it is missing, damaged, or of a kind that is not read.
    """
    if _is_folder(path):
        folder = read_folder(path)
        return _contents(path, folder.containers, folder.files)
    container = container_of_file(path)
    return _contents(path.parent, (container,), container.paths)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise unopened(path, error) from None


def _contents(root: Path, containers: tuple[Container, ...], paths: tuple[Path, ...]) -> CheckpointContents:
    parted = [list(zip(parts_of(found), found.tensors, strict=True)) for found in containers]
    totals = _totals(tensor for found in parted for tensor in found)
    files = _files(root, containers, paths)
    disk_bytes = sum(file.num_bytes for file in files)
    tensor_bytes = _tensor_bytes(containers, totals)
    absent = tuple(name for container in containers for name in container.absent_files)
    return CheckpointContents(
        format=_format(containers),
        num_parameters=_num_parameters(containers, totals),
        disk_bytes=disk_bytes,
        tensor_bytes=tensor_bytes,
        overhead_bytes=None if absent else disk_bytes - tensor_bytes,
        part_bytes=_part_bytes(totals),
        num_aliases=sum(tensor.is_alias for found in parted for _, tensor in found),
        largest_file=max(files, key=lambda file: file.num_bytes),
        tensors=totals,
        files=files,
        absent_files=absent,
        notes=tuple(dict.fromkeys(_notes(containers, parted, totals))),
    )


def _format(containers: tuple[Container, ...]) -> Format | Literal["mixed"]:
    formats = {container.format for container in containers}
    return formats.pop() if len(formats) == 1 else "mixed"


def _tensor_bytes(containers: tuple[Container, ...], totals: tuple[TensorTotal, ...]) -> int:
    """Of the tensors that were read, and of those that an index states."""
    stated = sum(container.known_tensor_bytes or 0 for container in containers)
    return sum(total.tensor_bytes for total in totals) + stated


def _totals(parts: Iterable[PartedTensor]) -> tuple[TensorTotal, ...]:
    """Tensors summed by part and dtype, parts in their usual order, the larger dtype first."""
    groups: dict[tuple[Part, str], list[StoredTensor]] = defaultdict(list)
    for part, tensor in parts:
        if not tensor.is_alias:
            groups[part, tensor.dtype].append(tensor)
    totals = [
        TensorTotal(
            part=part,
            dtype=dtype,
            num_tensors=len(tensors),
            num_parameters=sum(tensor.num_elements for tensor in tensors),
            tensor_bytes=sum(tensor.num_bytes for tensor in tensors),
        )
        for (part, dtype), tensors in groups.items()
    ]
    return tuple(sorted(totals, key=lambda total: (PARTS.index(total.part), -total.tensor_bytes, total.dtype)))


def _num_parameters(containers: tuple[Container, ...], totals: tuple[TensorTotal, ...]) -> int | None:
    """Elements of the weights, where each is one parameter and all are known."""
    stated = _stated_parameters(containers)
    if None in stated or _packs_weights(totals):
        return None
    counted = sum(total.num_parameters for total in totals if total.part == "weights")
    return counted + sum(count or 0 for count in stated) or None


def _stated_parameters(containers: tuple[Container, ...]) -> list[int | None]:
    """What an index states of files that are not there; None where it does not."""
    return [container.known_parameters for container in containers if container.absent_files and not container.tensors]


def _packs_weights(totals: tuple[TensorTotal, ...]) -> bool:
    return any(total.part == "weights" and total.dtype not in FLOATING for total in totals)


def _part_bytes(totals: tuple[TensorTotal, ...]) -> dict[Part, int]:
    sums = {part: sum(total.tensor_bytes for total in totals if total.part == part) for part in PARTS}
    return {part: size for part, size in sums.items() if size}


def _files(root: Path, containers: tuple[Container, ...], paths: tuple[Path, ...]) -> tuple[CheckpointFile, ...]:
    formats: dict[Path, Format] = {path: found.format for found in containers for path in found.paths}
    return tuple(
        CheckpointFile(
            name=printable(str(path.relative_to(root))),
            num_bytes=regular_file_bytes(path),
            format=formats.get(path, "other"),
        )
        for path in paths
    )


def _notes(
    containers: tuple[Container, ...], parted: list[list[PartedTensor]], totals: tuple[TensorTotal, ...]
) -> Iterator[str]:
    for container in containers:
        yield from container.notes
    if _packs_weights(totals):
        yield PACKED
    yield from _repetitions(containers, parted)


def _repetitions(containers: tuple[Container, ...], parted: list[list[PartedTensor]]) -> Iterator[str]:
    """Weights that stand in files of two formats, or under one name in several files."""
    names = [{tensor.name for part, tensor in found if part == "weights"} for found in parted]
    kinds = sorted({container.format for container, held in zip(containers, names, strict=True) if held})
    repeated = sum(count > 1 for count in Counter(chain.from_iterable(names)).values())
    if len(kinds) > 1:
        yield COPIES.format(kinds=" and ".join(kinds))
    elif repeated:
        yield REPEATED.format(count=repeated)
