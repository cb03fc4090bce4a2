"""Files of a run gathered into its saves: one for each step, with who wrote what."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath

from io_bench.observation.file_times import FileTimes
from sizing.checkpoint_files import orbax_folder
from sizing.checkpoint_files.dcp_folder import DATA_SUFFIX, METADATA_NAME
from sizing.checkpoint_files.folder import MAYBE_TORCH_SUFFIX, TORCH_SUFFIXES
from sizing.checkpoint_files.safetensors_index import SHARD_SUFFIX
from sizing.checkpoint_files.steps import step_of
from sizing.errors import UnreadableFile

_STATE_SUFFIXES = TORCH_SUFFIXES | {MAYBE_TORCH_SUFFIX, DATA_SUFFIX, SHARD_SUFFIX}
_SMALL_FRACTION = 0.1
"""A writer of less than this part of what the largest one writes is done early, and tells nothing of the storage."""

_WRITERS = (
    re.compile(r"__(\d+)_\d+\.distcp"),
    re.compile(r".*(zero_pp_rank_\d+_mp_rank_\d+).*\.pt"),
    re.compile(r"(?:rng_state|random_states|rank)[-_](\d+)\.\w+"),
)
"""Names of files that say which rank wrote them: torch DCP, DeepSpeed, trainers and this agent."""
_WRITER_FOLDERS = (re.compile(r"(mp_rank_\d+(?:_\d+)*)"), re.compile(r"ocdbt\.process_(\d+)"))
"""Folders in which one rank alone writes: Megatron-LM's classic format, and Orbax."""
_FIRST_OF_DEEPSPEED = re.compile(r"(mp_rank_\d+)_model_states\.pt")


def writer_of(name: str) -> str:
    """Which rank wrote a file of a save, by its path there. Files that say nothing are of rank 0, as of trainers.

    >>> writer_of("__12_0.distcp"), writer_of("mp_rank_00_001/distrib_optim.pt"), writer_of("model.safetensors")
    ('12', 'mp_rank_00_001', '0')
    >>> writer_of("mp_rank_00_model_states.pt"), writer_of("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt")
    ('zero_pp_rank_0_mp_rank_00', 'zero_pp_rank_0_mp_rank_00')
    """
    path = PurePosixPath(name)
    if first := _FIRST_OF_DEEPSPEED.fullmatch(path.name):
        return f"zero_pp_rank_0_{first[1]}"
    in_names = (pattern.fullmatch(path.name) for pattern in _WRITERS)
    in_folders = (pattern.fullmatch(part) for part in path.parts[:-1] for pattern in _WRITER_FOLDERS)
    return next((match[1].lstrip("0") or "0" for match in (*in_folders, *in_names) if match), "0")


@dataclass(frozen=True, eq=False)
class Save:
    """The files of one step. `place` is its folder or its only file; names of files begin there."""

    step: int
    place: str
    files: tuple[FileTimes, ...]

    @cached_property
    def state_files(self) -> tuple[FileTimes, ...]:
        """What ranks wrote of the training state: configs and what is put there later do not tell when a save ended."""
        return tuple(file for file in self.files if _is_state(file.name))

    @property
    def num_bytes(self) -> int:
        """Of all its files."""
        return sum(file.num_bytes for file in self.files)

    @cached_property
    def has_births(self) -> bool:
        """Whether the birth time of every file of the state is known."""
        return all(file.created_at is not None for file in self.state_files)

    @cached_property
    def started_at(self) -> float:
        """When the first file was created, or, where that is not known, changed for the last time."""
        return min(_start(file) if self.has_births else file.modified_at for file in self.state_files)

    @cached_property
    def ended_at(self) -> float:
        """When the last file was changed for the last time."""
        return max(file.modified_at for file in self.state_files)

    @property
    def seconds(self) -> float:
        """From start to end."""
        return self.ended_at - self.started_at

    @property
    def is_finished(self) -> bool:
        """Whether it has what torch DCP writes last, if it is of torch DCP."""
        names = {PurePosixPath(file.name) for file in self.files}
        folders = {name.parent for name in names if name.suffix == DATA_SUFFIX}
        return all(folder / METADATA_NAME in names for folder in folders)

    @cached_property
    def by_writer(self) -> dict[str, tuple[FileTimes, ...]]:
        """The files of the state of each rank."""
        groups: dict[str, list[FileTimes]] = defaultdict(list)
        for file in self.state_files:
            groups[writer_of(file.name)].append(file)
        return {writer: tuple(files) for writer, files in sorted(groups.items(), key=_in_order)}

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """The ranks that wrote a good part of the state."""
        sizes = {writer: sum(file.num_bytes for file in files) for writer, files in self.by_writer.items()}
        least = _SMALL_FRACTION * max(sizes.values())
        return tuple(writer for writer, size in sizes.items() if size >= least)

    def done_seconds(self, writer: str) -> float:
        """From the start of the save to the last change of a rank's files."""
        return max(file.modified_at for file in self.by_writer[writer]) - self.started_at

    def bytes_per_second(self, writer: str) -> float | None:
        """A rank's own rate from the birth of its first file; None without births, or where times are equal."""
        files = self.by_writer[writer]
        seconds = max(file.modified_at for file in files) - min(map(_start, files))
        return sum(file.num_bytes for file in files) / seconds if self.has_births and seconds > 0 else None


def saves_of(files: Iterable[FileTimes], *, title: str) -> list[Save]:
    """The saves of a run by step. Raises UnreadableFile where there is none, or where there are several runs."""
    files = list(files)
    orbax = {
        str(part)
        for file in files
        if PurePosixPath(file.name).name == orbax_folder.METADATA_NAME
        for part in PurePosixPath(file.name).parents
    }
    groups: dict[tuple[str, int], list[tuple[str, FileTimes]]] = defaultdict(list)
    for file in files:
        if found := _place(file.name, orbax):
            run, step, place = found
            groups[run, step].append((place, file))
    runs = sorted({run for run, _ in groups})
    if len(runs) > 1:
        wrong = f"holds the saves of {len(runs)} runs ({runs[0]} to {runs[-1]})"
        raise UnreadableFile(f"{title} {wrong}: give one of them.")
    found_saves = [_save(step, group) for (_, step), group in sorted(groups.items())]
    saves = [save for save in found_saves if save.state_files]
    if not saves:
        remedy = "give the folder in which a run has left its saves; ckpt-size inspect reads one checkpoint"
        raise UnreadableFile(f"{title} holds no checkpoint in a folder that is named for its step: {remedy}.")
    return saves


def _place(name: str, orbax: set[str]) -> tuple[str, int, str] | None:
    """The folder of the run, the step, and where the save of a file lies; None where no part of its path is a step."""
    parts = PurePosixPath(name).parts
    for depth, part in enumerate(parts):
        place = str(PurePosixPath(*parts[: depth + 1]))
        is_file = depth == len(parts) - 1
        if is_file and not _is_state(part):
            return None
        word = PurePosixPath(part).stem if is_file else part.removesuffix(".ckpt")
        step = step_of(word, is_orbax=place in orbax)
        if step is not None:
            return str(PurePosixPath(*parts[:depth])), step, place
    return None


def _save(step: int, group: Sequence[tuple[str, FileTimes]]) -> Save:
    place = min(place for place, _ in group)
    return Save(step, place, tuple(_within(file, place) for _, file in group))


def _within(file: FileTimes, place: str) -> FileTimes:
    name = file.name.removeprefix(f"{place}/")
    return replace(file, name=PurePosixPath(name).name if name == place else name)


def _is_state(name: str) -> bool:
    path = PurePosixPath(name)
    is_orbax = any(part.startswith("ocdbt.process_") or part == "d" for part in path.parts[:-1])
    return path.suffix in _STATE_SUFFIXES or path.name == METADATA_NAME or is_orbax


def _start(file: FileTimes) -> float:
    return file.modified_at if file.created_at is None else min(file.created_at, file.modified_at)


def _in_order(group: tuple[str, object]) -> tuple[int, str]:
    """Ranks by number, 2 before 10; names by the alphabet."""
    return len(group[0]), group[0]
