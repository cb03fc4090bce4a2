"""The saves of a run, grouped from the files that it left by step and rank, with the times of each."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import re
import statistics
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Literal

from io_bench.errors import reason_of
from io_bench.target.address import is_url
from sizing.checkpoint_files import orbax_folder
from sizing.checkpoint_files.dcp import DATA_SUFFIX, METADATA_NAME
from sizing.checkpoint_files.folder import MAYBE_TORCH_SUFFIX, TORCH_SUFFIXES, files_below
from sizing.checkpoint_files.missing_files import fewer_than_beside, missing_files
from sizing.checkpoint_files.safetensors import SHARD_SUFFIX
from sizing.checkpoint_files.steps import is_epoch, is_further_copy, step_of, step_of_file
from sizing.errors import InvalidInput, UnreadableFile

MAX_FILES = 2_000_000
"""Some hundred saves of ten thousand ranks. Above, it is the root of many runs, and listing takes hours."""
_SECONDS_OF_A_COPY = 1.0
"""A file that was born this much after its last change was copied. Clocks of clients differ by less."""


@dataclass(frozen=True, slots=True)
class FileTimes:
    """A file: its path from the folder of the run, its size, and its times in seconds since 1970.

    `created_at` is None where the file system keeps no birth time, or that of a copy.
    """

    name: str
    num_bytes: int
    modified_at: float
    created_at: float | None = None


def list_files(place: str) -> list[FileTimes]:
    """List the files below a folder or a URL. Raises UnreadableFile or InvalidInput where that is impossible."""
    return list(_list_store(place) if is_url(place) else _list_folder(Path(place)))


def _list_folder(root: Path) -> Iterator[FileTimes]:
    if not root.is_dir():
        raise UnreadableFile(f"{root} is not a folder: give the folder in which the run has left its checkpoints.")
    for path in files_below(root, max_files=MAX_FILES):
        with contextlib.suppress(FileNotFoundError):  # a run that goes on removes old saves, and links break
            if path.is_symlink() and path.resolve().is_relative_to(root.resolve()):
                continue  # Lightning can keep its last save as a link to one that stands there already
            num_bytes, modified_at, created_at = _statx(path)
            if created_at is not None and created_at > modified_at + _SECONDS_OF_A_COPY:
                created_at = None
            yield FileTimes(str(path.relative_to(root)), num_bytes, modified_at, created_at)


def _list_store(url: str) -> Iterator[FileTimes]:
    from io_bench.target.object_store.url_target import UrlTarget  # noqa: PLC0415 - fsspec, where it is needed

    target = UrlTarget.checked(url, is_first=True, field="the URL")
    try:
        objects = target.store.objects(target.path)
    except OSError as error:
        rule = f"cannot be listed ({reason_of(error).rstrip('.')})"
        raise InvalidInput.of("the URL", rule, value=url, remedy="check the permission to list") from error
    for each in objects:
        yield FileTimes(each.path.removeprefix(f"{target.path}/"), each.num_bytes, each.changed_at)


_AT_FDCWD = -100
"""linux/fcntl.h: a path that is not absolute begins at the working directory."""
_STATX_MTIME, _STATX_SIZE, _STATX_BTIME = 0x40, 0x200, 0x800
"""linux/stat.h: bits of what is asked for, and of what was answered."""
_STATX_LAYOUT = struct.Struct("=I36xQ32xqIi16xqIi")
"""linux/stat.h, struct statx: mask, size, birth time and time of change among what is not asked for."""
_STATX_STRUCTURE_BYTES = 256
"""Size of the whole statx structure, which the kernel fills."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _statx(path: Path) -> tuple[int, float, float | None]:
    """Read size, time of change and birth time of a file by statx(2): os.stat has no birth time on Linux.

    Where the C library is older than the call, there is no birth time. Raises OSError.
    """
    if not hasattr(_libc(), "statx"):
        status = path.stat()
        return status.st_size, status.st_mtime, None
    buffer = ctypes.create_string_buffer(_STATX_STRUCTURE_BYTES)
    fields = _STATX_MTIME | _STATX_SIZE | _STATX_BTIME
    if _libc().statx(_AT_FDCWD, os.fsencode(path), 0, fields, buffer) != 0:
        code = ctypes.get_errno() or errno.EIO
        raise OSError(code, os.strerror(code), str(path))
    mask, size, born, born_ns, _, changed, changed_ns, _ = _STATX_LAYOUT.unpack_from(buffer)
    has_birth = bool(mask & _STATX_BTIME) and born > 0
    return size, changed + changed_ns / 1e9, born + born_ns / 1e9 if has_birth else None


_STATE_SUFFIXES = TORCH_SUFFIXES | {MAYBE_TORCH_SUFFIX, DATA_SUFFIX, SHARD_SUFFIX}
_SMALL_FRACTION = 0.1
"""A writer of less than this part of what the largest one writes is done early, and tells nothing of the storage."""
_NUM_BEFORE = 4
"""Saves before the newest that it is held against."""

_WRITERS = (
    re.compile(r"__(\d+)_\d+\.distcp"),
    re.compile(r".*(zero_pp_rank_\d+_mp_rank_\d+).*\.pt"),
    re.compile(r"(?:rng_state|random_states|rank)[-_](\d+)\.\w+"),
)
"""Names of files that say which rank wrote them: torch DCP, DeepSpeed, trainers and this agent."""
_WRITER_FOLDERS = (re.compile(r"(mp_rank_\d+(?:_\d+)*)"), re.compile(r"ocdbt\.process_(\d+)"))
"""Folders in which one rank alone writes: Megatron-LM's classic format, and Orbax."""
_OF_ACCELERATE = re.compile(r"checkpoint_\d+")
_FIRST_RANK_OF_DEEPSPEED = "zero_pp_rank_0_mp_rank_00"
"""Rank 0, which writes the files of a trainer too."""
_FIRST_OF_DEEPSPEED = re.compile(r"(mp_rank_\d+)_model_states\.pt")


def writer_of(name: str) -> str:
    """Tell which rank wrote a file of a save by its path there; rank 0 where the path does not say it, as of trainers.

    >>> writer_of("__12_0.distcp"), writer_of("mp_rank_00_001/distrib_optim.pt"), writer_of("model.safetensors")
    ('12', 'mp_rank_00_001', '0')
    >>> writer_of("mp_rank_00_model_states.pt"), writer_of("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")
    ('0', '0')
    """
    path = PurePosixPath(name)
    if first := _FIRST_OF_DEEPSPEED.fullmatch(path.name):
        return writer_of(f"zero_pp_rank_0_{first[1]}.pt")
    in_names = (pattern.fullmatch(path.name) for pattern in _WRITERS)
    in_folders = (pattern.fullmatch(part) for part in path.parts[:-1] for pattern in _WRITER_FOLDERS)
    writer = next((match[1].lstrip("0") or "0" for match in (*in_folders, *in_names) if match), "0")
    return "0" if writer == _FIRST_RANK_OF_DEEPSPEED else writer


@dataclass(frozen=True, eq=False)
class Save:
    """The files of one step. `place` is its folder or its only file; names of files begin there.

    `lacks` is what other files or other saves say that it should have, as the end of a sentence; empty where nothing.
    """

    step: int
    place: str
    files: tuple[FileTimes, ...]
    lacks: str = ""

    @cached_property
    def state_files(self) -> tuple[FileTimes, ...]:
        """Files of training state: configs and what is put there later do not tell when a save ended."""
        return tuple(file for file in self.files if _is_state(file.name))

    @property
    def num_bytes(self) -> int:
        """Bytes of all files of the save."""
        return sum(file.num_bytes for file in self.files)

    @cached_property
    def has_births(self) -> bool:
        """Whether the birth time of every file of the state is known."""
        return all(file.created_at is not None for file in self.state_files)

    @cached_property
    def started_at(self) -> float:
        """Time when the first file was created or, where that is not known, changed for the last time."""
        return min(_start(file) if self.has_births else file.modified_at for file in self.state_files)

    @cached_property
    def ended_at(self) -> float:
        """Time when the last file was changed for the last time."""
        return max(file.modified_at for file in self.state_files)

    @property
    def seconds(self) -> float:
        """Seconds from the start of the save to its end."""
        return self.ended_at - self.started_at

    @property
    def is_finished(self) -> bool:
        """Whether the save has all its files, and of torch DCP `.metadata`, which is written last."""
        if self.lacks:
            return False
        names = {PurePosixPath(file.name) for file in self.files}
        folders = {name.parent for name in names if name.suffix == DATA_SUFFIX}
        return all(folder / METADATA_NAME in names for folder in folders)

    @cached_property
    def by_writer(self) -> dict[str, tuple[FileTimes, ...]]:
        """The files of the state of each rank."""
        groups: dict[str, list[FileTimes]] = defaultdict(list)
        for file in self.state_files:
            groups[writer_of(file.name)].append(file)
        # Ranks by number, 2 before 10; names by the alphabet.
        in_order = sorted(groups.items(), key=lambda group: (len(group[0]), group[0]))
        return {writer: tuple(files) for writer, files in in_order}

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """The ranks that wrote a good part of the state."""
        sizes = {writer: sum(file.num_bytes for file in files) for writer, files in self.by_writer.items()}
        least = _SMALL_FRACTION * max(sizes.values())
        return tuple(writer for writer, size in sizes.items() if size >= least)

    def done_seconds(self, writer: str) -> float:
        """Seconds from the start of the save to the last change of a rank's files."""
        return max(file.modified_at for file in self.by_writer[writer]) - self.started_at

    def bytes_per_second(self, writer: str) -> float | None:
        """A rank's own rate from the birth of its first file; None without births, or where times are equal."""
        files = self.by_writer[writer]
        seconds = max(file.modified_at for file in files) - min(map(_start, files))
        return sum(file.num_bytes for file in files) / seconds if self.has_births and seconds > 0 else None


def saves_of(files: Iterable[FileTimes], *, title: str) -> list[Save]:
    """Group files into the saves of a run. Raises UnreadableFile where there is none, or there are several runs."""
    files = list(files)
    orbax = {
        str(part)
        for file in files
        if PurePosixPath(file.name).name == orbax_folder.METADATA_NAME
        for part in PurePosixPath(file.name).parents
    }
    groups: dict[tuple[str, int], list[tuple[str, FileTimes]]] = defaultdict(list)
    for file in files:
        if place_of_file := _place(file.name, orbax):
            run, step, place = place_of_file
            groups[run, step].append((place, file))
    runs = sorted({run for run, _ in groups})
    if len(runs) > 1:
        wrong = f"holds the saves of {len(runs)} runs ({runs[0]} to {runs[-1]})"
        raise UnreadableFile(f"{title} {wrong}: give one of them.")
    candidates = [_save(step, group) for (_, step), group in sorted(groups.items())]
    saves = [save for save in candidates if save.state_files]
    if not saves:
        remedy = "give the folder in which a run has left its saves; ckpt-size inspect reads one checkpoint"
        raise UnreadableFile(f"{title} holds no checkpoint in a folder or file that is named for its step: {remedy}.")
    return [replace(save, lacks=_lacks(save, saves)) for save in saves]


def further_copies(files: Iterable[FileTimes]) -> list[FileTimes]:
    """Files that hold one more copy of a save and name no step, as Lightning's `last.ckpt`, in no save's folder."""
    return [
        file
        for file in files
        if is_further_copy(PurePosixPath(file.name).name)
        and all(step_of(part) is None for part in PurePosixPath(file.name).parts)
    ]


def _lacks(save: Save, saves: Sequence[Save]) -> str:
    """Name what a save lacks: files that names count; of the newest also files and bytes that those before it have.

    Older ones may be of a time when the run had fewer ranks, or saved less.
    """
    names = [file.name for file in save.files]
    missing = [each for each in missing_files(names) if not each.is_optional]
    before = [other for other in saves if other is not save][-_NUM_BEFORE:]
    is_newest = save.started_at == max(other.started_at for other in saves) and len(before) > 1
    if is_newest and not missing and PurePosixPath(save.place).name not in names:
        beside = {other.place: _names_of_state(other) for other in before}
        missing = [each for each in fewer_than_beside(_names_of_state(save), beside) if not each.is_optional]
    if missing:
        more = f", {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"{missing[0].name} is missing{more}"
    if any(not file.num_bytes for file in save.state_files):
        return "a file is empty"
    usual = statistics.median(other.num_bytes for other in before) if is_newest else 0
    if save.num_bytes < (1 - _SMALL_FRACTION) * usual:
        return f"it has {save.num_bytes / usual:.3g} x the bytes of those before it"
    return ""


def _names_of_state(save: Save) -> list[str]:
    """List the names of files of state, without `.metadata`: torch DCP shows by its absence an unfinished save."""
    return [file.name for file in save.state_files if PurePosixPath(file.name).name != METADATA_NAME]


Numbers = Literal["steps", "epochs", "saves"]


def numbers_of(saves: Sequence[Save]) -> Numbers:
    """Tell what the numbers in the names of saves count; accelerate counts its saves where it names them itself.

    Source: accelerate 1.15, accelerator.py, save_state with automatic_checkpoint_naming.
    """
    names = [PurePosixPath(save.place).name for save in saves]
    if all(_OF_ACCELERATE.fullmatch(name) for name in names) and all(
        any(file.name.startswith("random_states_") for file in save.files) for save in saves
    ):
        return "saves"
    return "epochs" if all(map(is_epoch, names)) else "steps"


def _place(name: str, orbax: set[str]) -> tuple[str, int, str] | None:
    """Tell the folder of the run, the step and the place of a file's save; None where no part of its path is a step."""
    parts = PurePosixPath(name).parts
    for depth, part in enumerate(parts):
        place = str(PurePosixPath(*parts[: depth + 1]))
        is_file = depth == len(parts) - 1
        if is_file and not _is_state(part):
            return None
        word = PurePosixPath(part).stem if is_file else part.removesuffix(".ckpt")
        step = step_of(word, is_orbax=place in orbax)
        if step is None and is_file:
            step = step_of_file(part)
        if step is not None:
            return str(PurePosixPath(*parts[:depth])), step, place
    return None


def _save(step: int, group: Sequence[tuple[str, FileTimes]]) -> Save:
    """Make the save of a step of its files, each with the place of the save in its path."""
    place = min(place for place, _ in group)
    files = []
    for _, file in group:
        name = file.name.removeprefix(f"{place}/")
        files.append(replace(file, name=PurePosixPath(name).name if name == place else name))
    return Save(step, place, tuple(files))


def _is_state(name: str) -> bool:
    path = PurePosixPath(name)
    is_orbax = any(part.startswith("ocdbt.process_") or part == "d" for part in path.parts[:-1])
    return path.suffix in _STATE_SUFFIXES or path.name == METADATA_NAME or is_orbax


def _start(file: FileTimes) -> float:
    return file.modified_at if file.created_at is None else min(file.created_at, file.modified_at)
