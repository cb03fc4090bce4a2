"""The containers in a folder tree, found by name and first bytes.

Links to files are followed, because model hubs store files behind links; links to folders are not, so that a
loop ends where it begins. Hidden folders (`.git`, `.cache`) are passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sizing.checkpoint_files import orbax_folder
from sizing.checkpoint_files.container import Container
from sizing.checkpoint_files.dcp_folder import DATA_SUFFIX, METADATA_NAME, dcp_container
from sizing.checkpoint_files.refusals import refusal, unopened
from sizing.checkpoint_files.safetensors_file import safetensors_container
from sizing.checkpoint_files.safetensors_index import INDEX_SUFFIX, SHARD_SUFFIX, index_container
from sizing.checkpoint_files.steps import step_of
from sizing.checkpoint_files.torch_file import torch_container
from sizing.checkpoint_files.torch_zip import is_torch_file

MAX_FILES = 100_000
"""A training of 100,000 ranks writes about as many. Above, it is the root of something else, and listing takes
minutes."""
TORCH_SUFFIXES = frozenset({".pt", ".pth", ".ckpt"})
MAYBE_TORCH_SUFFIX = ".bin"
SETTINGS_FILES = frozenset({"training_args.bin"})
"""Torch files by name and ending that pickle settings of a trainer and no tensor; counted, not read."""


@dataclass(frozen=True, slots=True)
class Folder:
    """The containers of a folder tree and all its files."""

    containers: tuple[Container, ...]
    files: tuple[Path, ...]


def read_folder(root: Path) -> Folder:
    """Every container in a folder tree.

    Raises UnreadableFile where one is refused, where there is none, or where there are several checkpoints.
    """
    files = tuple(sorted(files_below(root)))
    containers = tuple(_containers(root, files))
    if not containers:
        wrong = "holds no safetensors file, no DCP .metadata, no Orbax _METADATA and no torch.save file"
        raise refusal(root, wrong, "give a checkpoint's file or folder")
    _check_one_checkpoint(root, containers)
    return Folder(containers, files)


def files_below(root: Path, *, max_files: int | None = None) -> Iterator[Path]:
    """Every file in a folder tree, in no order. Raises UnreadableFile where there are more than MAX_FILES, or given."""
    folders, found, most = [root], 0, max_files or MAX_FILES
    while folders:
        folder = folders.pop()
        entries = _entries(folder)
        found += len(entries)
        if found > most:
            raise refusal(root, f"holds more than {most} files", "give a folder further down")
        folders += [folder / entry.name for entry in entries if _is_folder(entry)]
        yield from (folder / entry.name for entry in entries if _is_file(entry))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError as error:
        raise unopened(folder, error) from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder to look into: no link, and not hidden."""
    return entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a regular file or a link to one; a broken or looping link is refused when read."""
    try:
        return entry.is_file() or (entry.is_symlink() and not entry.is_dir())
    except OSError:
        return True


def _containers(root: Path, files: tuple[Path, ...]) -> Iterator[Container]:
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
            wrong = "is a data file of torch DCP, and no .metadata in its folder names it"
            raise refusal(path, wrong, f"the save of {root} was not finished: save it again")
        if path.suffix == SHARD_SUFFIX or _is_torch(path):
            yield container_of_file(path)


def container_of_file(path: Path) -> Container:
    """The container that a file is, or stands for.

    Raises UnreadableFile where it is none.
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
        return is_torch_file(path)
    return path.suffix in TORCH_SUFFIXES


def _check_one_checkpoint(root: Path, containers: tuple[Container, ...]) -> None:
    """That the containers do not stand below several folders that are each named for a step."""
    steps = {
        Path(*parts[: i + 1])
        for container in containers
        for parts in [container.paths[0].relative_to(root).parts[:-1]]
        for i, part in enumerate(parts)
        if step_of(part, is_orbax=container.format == "orbax") is not None
    }
    siblings = sorted(step for step in steps if sum(other.parent == step.parent for other in steps) > 1)
    if siblings:
        wrong = f"holds {len(siblings)} checkpoints ({siblings[0]} to {siblings[-1]})"
        raise refusal(root, wrong, f"give one of them: {root / siblings[-1]}")
