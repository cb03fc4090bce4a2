"""A checkpoint's path in, its CheckpointContents out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.contents import CheckpointContents, CheckpointFile, Held, TensorTotal
from sizing.checkpoint_files.dtypes import FLOATING, NOT_STATED
from sizing.checkpoint_files.folder import container_of_file, read_folder
from sizing.checkpoint_files.folder_layouts import (
    layouts_of,
    state_of_file,
    state_of_name,
)
from sizing.checkpoint_files.kinds import PARTS, SMALL_STATES, Format, Part, SmallState
from sizing.checkpoint_files.parts import parts_of
from sizing.checkpoint_files.rank_copies import Weight, copies
from sizing.checkpoint_files.refusals import printable, regular_file_bytes, unopened

PartedTensor = tuple[Part, StoredTensor]

PACKED = "Weights are stored as integers. One element may hold several parameters, so parameters are not counted"
COPIES = "Weights are in files of {kinds}. If these are copies of one model, inspect one of them alone"
COPIED = "Copies of weights in the files of several ranks: {count:,}. As parameters they count once"


def contents_of(path: Path) -> CheckpointContents:
    """What the checkpoint in a file or folder holds, without loading a tensor or running a pickle.

    Raises UnreadableFile where it is missing, damaged, or of a kind that is not read.
    """
    if _is_folder(path):
        folder = read_folder(path)
        return _contents(path, folder.containers, folder.files)
    return contents_of_container(container_of_file(path))


def contents_of_container(container: Container) -> CheckpointContents:
    """What one container holds."""
    return _contents(container.paths[0].parent, (container,), container.paths)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError) as error:
        raise unopened(path, error) from None


def _contents(root: Path, containers: tuple[Container, ...], paths: tuple[Path, ...]) -> CheckpointContents:
    parted = [list(zip(parts_of(found), found.tensors, strict=True)) for found in containers]
    totals = _totals(tensor for found in parted for tensor in found)
    weights = [
        Weight(number, tensor) for number, found in enumerate(parted) for part, tensor in found if part == "weights"
    ]
    copied = list(copies(containers, weights))
    files = tuple(_files(root, containers, parted, paths))
    layouts = layouts_of([file.name for file in files], [key for container in containers for key in container.keys])
    disk_bytes = sum(file.num_bytes for file in files)
    tensor_bytes = _tensor_bytes(containers, totals)
    absent = tuple(name for container in containers for name in container.absent_files)
    return CheckpointContents(
        format=_format(containers),
        layout=layouts[0].name if layouts else None,
        flags=layouts[-1].flags if layouts else "",
        num_parameters=_num_parameters(containers, totals, num_copied=sum(c.tensor.num_elements for c in copied)),
        disk_bytes=disk_bytes,
        tensor_bytes=tensor_bytes,
        overhead_bytes=None if absent or _states_no_dtypes(totals) else disk_bytes - tensor_bytes,
        part_bytes=_part_bytes(totals),
        small_state_bytes=_small_state_bytes(containers, files),
        num_aliases=sum(tensor.is_alias for found in parted for _, tensor in found),
        largest_file=max(files, key=lambda file: file.num_bytes),
        tensors=totals,
        files=files,
        absent_files=absent,
        notes=tuple(dict.fromkeys(_notes(containers, parted, totals, num_copies=len(copied)))),
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


def _num_parameters(
    containers: tuple[Container, ...], totals: tuple[TensorTotal, ...], *, num_copied: int
) -> int | None:
    """Elements of the weights, each once, where each is one parameter and all are known.

    Where there are no weights, their fp32 copy counts if it is whole tensors, as in a universal checkpoint.
    """
    stated = _stated_parameters(containers)
    if None in stated or _packs_weights(totals):
        return None
    counted = sum(total.num_parameters for total in totals if total.part == "weights") - num_copied
    found = counted + sum(count or 0 for count in stated)
    return found or sum(_unpartitioned_master(container) for container in containers) or None


def _unpartitioned_master(container: Container) -> int:
    is_of_one_parameter = container.paths[0].name == "fp32.pt" and "param" in container.keys
    return sum(tensor.num_elements for tensor in container.tensors) if is_of_one_parameter else 0


def _stated_parameters(containers: tuple[Container, ...]) -> list[int | None]:
    """What an index states of files that are not there, and ZeRO 3 of a partitioned model; None where it does not."""
    return [
        container.known_parameters
        for container in containers
        if (container.absent_files and not container.tensors) or container.known_parameters is not None
    ]


def _states_no_dtypes(totals: tuple[TensorTotal, ...]) -> bool:
    return any(total.dtype == NOT_STATED for total in totals)


def _packs_weights(totals: tuple[TensorTotal, ...]) -> bool:
    return any(total.part == "weights" and total.dtype not in FLOATING | {NOT_STATED} for total in totals)


def _part_bytes(totals: tuple[TensorTotal, ...]) -> dict[Part, int]:
    sums = {part: sum(total.tensor_bytes for total in totals if total.part == part) for part in PARTS}
    return {part: size for part, size in sums.items() if size}


def _files(
    root: Path, containers: tuple[Container, ...], parted: list[list[PartedTensor]], paths: tuple[Path, ...]
) -> Iterator[CheckpointFile]:
    formats: dict[Path, Format] = {path: found.format for found in containers for path in found.paths}
    held = {path: _held(c, found) for c, found in zip(containers, parted, strict=True) for path in c.paths}
    for path in paths:
        name = printable(str(path.relative_to(root)))
        small = state_of_file(name)
        yield CheckpointFile(
            name=name,
            num_bytes=regular_file_bytes(path),
            format=formats.get(path, "other"),
            holds=(small,) if small else held.get(path) or ("settings",),
        )


def _held(container: Container, found: list[PartedTensor]) -> tuple[Held, ...]:
    """What the files of a container hold."""
    parts = {part for part, _ in found} if found else {"weights"} if container.known_tensor_bytes else set()
    small = {state_of_name(name) for name in (*container.keys, *(name for name, _ in container.value_bytes))}
    return (
        *(("weights",) if "weights" in parts else ()),
        *(("optimizer",) if parts & {"master", "moments"} else ()),
        *(kind for kind in SMALL_STATES if kind in small),
    )


def _small_state_bytes(containers: tuple[Container, ...], files: tuple[CheckpointFile, ...]) -> dict[SmallState, int]:
    sums: dict[SmallState, int] = dict.fromkeys(SMALL_STATES, 0)
    for file in files:
        for kind in SMALL_STATES:
            sums[kind] += file.num_bytes if file.holds == (kind,) else 0
    for container in containers:
        for name, num_bytes in container.value_bytes:
            sums[state_of_name(name) or "settings"] += num_bytes
    return {kind: num_bytes for kind, num_bytes in sums.items() if num_bytes}


def _notes(
    containers: tuple[Container, ...],
    parted: list[list[PartedTensor]],
    totals: tuple[TensorTotal, ...],
    *,
    num_copies: int,
) -> Iterator[str]:
    for container in containers:
        yield from container.notes
    if _packs_weights(totals):
        yield PACKED
    kinds = sorted({c.format for c, found in zip(containers, parted, strict=True) if "weights" in dict(found)})
    if len(kinds) > 1:
        yield COPIES.format(kinds=" and ".join(kinds))
    if num_copies:
        yield COPIED.format(count=num_copies)
