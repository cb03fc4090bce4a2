"""Find the containers in a folder tree by names and first bytes.

Links to files are followed, because model hubs store files behind links. Links to folders are not followed, so that
loops end. Hidden folders (`.git`, `.cache`) are skipped.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NoReturn

from sizing.checkpoint_files import orbax_folder
from sizing.checkpoint_files.container import Container
from sizing.checkpoint_files.dcp import DATA_SUFFIX, METADATA_NAME, dcp_container
from sizing.checkpoint_files.folder_layouts import SETTINGS_FILES, state_of_file
from sizing.checkpoint_files.parts import parts_of
from sizing.checkpoint_files.safetensors import INDEX_SUFFIX, SHARD_SUFFIX, index_container, safetensors_container
from sizing.checkpoint_files.steps import is_further_copy, step_of, step_of_file
from sizing.checkpoint_files.torch_save import is_torch_file, torch_container
from sizing.checkpoint_files.untrusted import refusal, unopened
from sizing.errors import UnreadableFile

MAX_FILES = 100_000
"""Max files. A training of 100,000 ranks writes about as many; a folder with more is the root of something else, and
takes minutes to list."""
TORCH_SUFFIXES = frozenset({".pt", ".pth", ".ckpt"})
MAYBE_TORCH_SUFFIX = ".bin"
_ALWAYS_TORCH = re.compile(r"(optimizer|pytorch_model|adapter_model)([_-].*)?\.bin")
"""Files of accelerate, transformers and PEFT that torch.save writes; other `.bin` files may be anything."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The containers of a folder tree and all its files."""

    containers: tuple[Container, ...]
    files: tuple[Path, ...]


def read_folder(root: Path) -> Folder:
    """Read every container in a folder tree.

    Raises UnreadableFile if one is refused, if there is none, or if there are several checkpoints.
    """
    files = tuple(sorted(files_below(root)))
    containers = tuple(_find_containers(root, files))
    if not containers:
        wrong = "holds no safetensors file, no DCP .metadata, no Orbax _METADATA and no torch.save file"
        raise refusal(root, wrong, "give a checkpoint's file or folder")
    _check_one_checkpoint(root, containers)
    return Folder(containers, files)


_MAX_SAVES_BESIDE = 4
"""Max other saves of a run to compare with: more would add nothing, and may be on slow storage."""


def names_beside(root: Path) -> dict[str, tuple[str, ...]]:
    """Return the names of state files in other saves of the same run, by save, the nearest steps first.

    These saves are in the parent folder of `root`, whose own name has a step. Empty if it cannot be listed.
    """
    own = step_of(root.name)
    if own is None:
        return {}
    try:
        folders = [path for path in root.resolve().parent.iterdir() if path.name != root.resolve().name]
        steps = {path: step for path in folders if (step := step_of(path.name)) is not None and path.is_dir()}
        nearest = sorted(steps, key=lambda path: (abs(steps[path] - own), path))[:_MAX_SAVES_BESIDE]
        return {
            path.name: tuple(str(f.relative_to(path)) for f in files_below(path) if is_state(f)) for path in nearest
        }
    except (OSError, UnreadableFile):
        return {}


def saves_within(names: Iterable[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the names of files in saves of one run, by save, for each save; the nearest steps first.

    `names` are paths from a folder in which there are several folders named by steps. Empty where there are none.

    >>> saves_within(["step-1/a.pt", "step-2/a.pt", "latest"])
    {'step-1': {'step-2': ('a.pt',)}, 'step-2': {'step-1': ('a.pt',)}}
    """
    saves: dict[PurePosixPath, list[str]] = defaultdict(list)
    for path in map(PurePosixPath, names):
        folder = next((folder for folder in reversed(path.parents) if step_of(folder.name) is not None), None)
        if folder is not None:
            saves[folder].append(str(path.relative_to(folder)))
    steps = {folder: step_of(folder.name) or 0 for folder in saves}
    beside = {
        folder: sorted(
            (other for other in saves if other.parent == folder.parent and other != folder),
            key=lambda other: (abs(steps[other] - steps[folder]), other),
        )
        for folder in saves
    }
    return {
        str(folder): {other.name: tuple(saves[other]) for other in others[:_MAX_SAVES_BESIDE]}
        for folder, others in beside.items()
        if others
    }


def is_state(path: Path) -> bool:
    """Return whether a file holds state of the run, by its name: a container, or a trainer's small state."""
    suffixes = TORCH_SUFFIXES | {MAYBE_TORCH_SUFFIX, DATA_SUFFIX, SHARD_SUFFIX}
    is_named = path.suffix in suffixes or path.name == METADATA_NAME or state_of_file(path.name) is not None
    return is_named and path.name not in SETTINGS_FILES


def files_below(root: Path, *, max_files: int | None = None) -> Iterator[Path]:
    """List every file in a folder tree, in no order.

    Raises UnreadableFile if there are more than `max_files`, by default MAX_FILES.
    """
    folders, num_files, most = [root], 0, max_files or MAX_FILES
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            raise unopened(folder, error) from None
        num_files += len(entries)
        if num_files > most:
            raise refusal(root, f"holds more than {most} files", "give a folder further down")
        visible = (entry for entry in entries if not entry.name.startswith("."))
        folders += [folder / entry.name for entry in visible if entry.is_dir(follow_symlinks=False)]
        yield from (folder / entry.name for entry in entries if _is_file(entry))


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a regular file or a link to one; a broken or looping link is refused when read."""
    try:
        return entry.is_file() or (entry.is_symlink() and not entry.is_dir())
    except OSError:
        return True


def _find_containers(root: Path, files: tuple[Path, ...]) -> Iterator[Container]:
    claimed: set[Path] = set()
    for path in files:
        if path.name in (METADATA_NAME, orbax_folder.METADATA_NAME) or path.name.endswith(INDEX_SUFFIX):
            container = container_of_file(path)
            claimed.update(container.paths)
            yield container
    for path in files:
        if path in claimed:
            continue
        if path.suffix == DATA_SUFFIX:
            if path.parent / METADATA_NAME in claimed:
                continue  # of another save into this folder, by more ranks
            wrong = "is a data file of torch DCP, and no .metadata in its folder names it"
            raise refusal(path, wrong, f"the save of {root} was not finished: save it again")
        if path.suffix == SHARD_SUFFIX or _is_torch(path):
            yield container_of_file(path)


def container_of_file(path: Path) -> Container:
    """Read the container that a file is, or stands for.

    Raises UnreadableFile if it is none.
    """
    if path.name == METADATA_NAME:
        return dcp_container(path)
    if path.name == orbax_folder.METADATA_NAME:
        return orbax_folder.orbax_container(path)
    if path.suffix == ".json":
        return index_container(path)
    if path.suffix == SHARD_SUFFIX:
        return safetensors_container(path)
    if path.suffix == DATA_SUFFIX:
        raise refusal(path, "is one data file of a torch DCP checkpoint", "give its folder or its .metadata file")
    if path.suffix in TORCH_SUFFIXES or is_torch_file(path):
        return torch_container(path)
    wrong = "is neither a safetensors file or index, nor DCP .metadata, nor a torch.save file"
    raise refusal(path, wrong, "give a checkpoint's file or folder")


def _is_torch(path: Path) -> bool:
    if path.name in SETTINGS_FILES:
        return False
    if path.suffix == MAYBE_TORCH_SUFFIX:
        return _ALWAYS_TORCH.fullmatch(path.name) is not None or is_torch_file(path)
    return path.suffix in TORCH_SUFFIXES


def _check_one_checkpoint(root: Path, containers: tuple[Container, ...]) -> None:
    """Refuse containers in several sibling folders or files that are each named by a step, or hold the same state."""
    steps: dict[Path, int] = {}
    for container in containers:
        parts = container.paths[0].relative_to(root).parts
        for depth, part in enumerate(parts):
            is_file = depth == len(parts) - 1
            step = step_of_file(part) if is_file else step_of(part, is_orbax=container.format == "orbax")
            if step is not None:
                steps[Path(*parts[: depth + 1])] = step
    siblings = [step for step in steps if len({steps[other] for other in steps if other.parent == step.parent}) > 1]
    if siblings:
        oldest, *_, newest = sorted(siblings, key=lambda path: (steps[path], path))
        folder = newest.parent
        first_files = [container.paths[0] for container in containers]
        further = [path for path in first_files if is_further_copy(path.name)]
        beside = f", and {further[0].name} beside them" if any(path.parent == root / folder for path in further) else ""
        num_saves = len({(path.parent, steps[path]) for path in siblings})
        of_newest = sorted(root / path for path in siblings if (path.parent, steps[path]) == (folder, steps[newest]))
        _refuse_several(root, f"{num_saves} checkpoints ({oldest} to {newest}{beside})", of_newest)
    for saves in _find_whole_saves(containers):
        last = max(saves, key=lambda path: (path.stat().st_mtime, path))
        _refuse_several(root, f"{len(saves)} checkpoints ({saves[0].name} to {saves[-1].name})", [last])


def _refuse_several(root: Path, what: str, newest: Sequence[Path]) -> NoReturn:
    """Refuse a folder of several checkpoints; `newest` are the files of the newest one, or its folder."""
    if len(newest) == 1:
        raise refusal(root, f"holds {what}", f"give one of them: {newest[0]}")
    names = ", ".join(path.name for path in newest)
    raise refusal(root, f"holds {what}", f"put the files of one of them into a folder of its own: {names}")


_NUMBER = re.compile(r"\d+")
_SAYS_RANK = re.compile(r".*(rank|shard|part|node|worker|[tpdm]p[-_]?\d|-of-).*")


def _find_whole_saves(containers: tuple[Container, ...]) -> Iterator[list[Path]]:
    """List files in one folder that each hold the same weights with an optimizer: saves whose names have no step.

    Files that ranks wrote have such contents too, where each rank has an equal share: their names say so, or count from
    0 on.
    """
    groups: dict[tuple[object, ...], list[Path]] = defaultdict(list)
    for container in containers:
        parts = set(parts_of(container)) if container.format == "torch-save" else set()
        if "weights" in parts and ("moments" in parts or container.settings):
            weights = frozenset((tensor.name, tensor.shape, tensor.dtype) for tensor in container.tensors)
            groups[container.paths[0].parent, weights].append(container.paths[0])
    for saves in groups.values():
        if len(saves) > 1 and not _are_of_ranks([path.stem for path in saves]):
            yield saves


def _are_of_ranks(names: Sequence[str]) -> bool:
    """Return whether names are of the ranks of one save: by a word, or as they differ in numbers from 0 on alone.

    >>> _are_of_ranks(["rank0", "rank1"]), _are_of_ranks(["0", "1"]), _are_of_ranks(["best", "last"])
    (True, True, False)
    """
    if all(map(_SAYS_RANK.fullmatch, names)):
        return True
    last_numbers = [_NUMBER.findall(name)[-1:] for name in names]
    frames = {_NUMBER.sub("", name) for name in names}
    return len(frames) == 1 and sorted(int(each[0]) for each in last_numbers if each) == list(range(len(names)))
