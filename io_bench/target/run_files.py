"""The files of one run, in a place of their own inside the target, and their whole life there.

Rank 0 makes the place and puts a manifest in it that names run and owner; every rank creates files there and
removes those that it created; rank 0 removes the manifest and the place last. Nothing is removed recursively.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Protocol

from io_bench import interruption
from io_bench.errors import RunFailed, explained_io_errors
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.dismantling import cleared, dismantled, dismantled_by_survivors, orphans_of
from io_bench.target.heartbeat import beating
from io_bench.target.manifest import MANIFEST, Manifest
from io_bench.target.target import Target

if TYPE_CHECKING:
    from io_bench.target.object_store.store import Transfer


class RunFiles(Protocol):
    """Files by name, of which each rank removes its own. Methods raise OSError."""

    @property
    def title(self) -> str:
        """Where they are: a path or a URL."""

    def location(self, name: str) -> str:
        """Where one of them is, for people."""

    def tune(self, transfer: Transfer | None) -> None:
        """From here on, move files in this way."""

    def create(self, name: str) -> BinaryIO:
        """A new file to write to, which is this rank's to remove. Raises FileExistsError where there is one."""

    def open(self, name: str) -> BinaryIO:
        """A file to read from."""

    def persist(self, file: BinaryIO) -> None:
        """Make what was written to an open file durable, where closing it does not."""

    def sync(self) -> None:
        """Make the names of new files durable."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    def rename(self, old: str, new: str) -> None:
        """Give a file that this rank created another name."""

    def num_bytes(self, name: str) -> int:
        """The size of a file."""

    def num_resident_pages(self, name: str) -> int:
        """Pages of a file in this node's page cache."""

    def drop_from_memory(self, name: str) -> int:
        """Pages of a file that this node keeps in memory although asked not to."""

    def names(self) -> list[str]:
        """What is there."""

    def touch(self, name: str) -> None:
        """Make a file look as if changed now."""

    def age_seconds(self, name: str) -> float:
        """Seconds since a file was changed; where there is no such file, since the place was."""

    def remove_created(self) -> None:
        """Remove the files that this rank created."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there."""

    def remove_of_lost(self, names: Iterable[str]) -> None:
        """Remove files that lost ranks have written or begun, where they are there."""

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last."""

    def unmake(self) -> None:
        """Remove the place, which is empty."""

    def close(self) -> None:
        """Let go of the place."""


@contextmanager
def opened(
    target: Target, group: ProcessGroup, *, run_id: str, files_of_rank: Sequence[Sequence[str]], keep: bool
) -> Iterator[RunFiles]:
    """The run's place in the target, on all ranks; afterwards it is gone, unless `keep` and all went well.

    What could not be removed is said in the group's notes. Raises InvalidInput where the target does not
    let it be made, RunFailed where a rank does not see what rank 0 made.
    """
    files: RunFiles | None = None
    is_kept = False
    try:
        with contextlib.ExitStack() as led:
            if group.rank == 0:
                names = itertools.chain.from_iterable(files_of_rank)
                files = made(target, Manifest.of_this_process(run_id, files=names, is_kept=keep))
                led.enter_context(beating(functools.partial(files.touch, MANIFEST)))
            group.exchange(None, doing="making the run directory")
            files = files or _seen(target, run_id, group)
            yield files
        is_kept = keep
    except BaseException as error:
        group.ending.publish(error)
        raise
    finally:
        interruption.ignore()
        if files and not is_kept:
            group.ending.notes += cleared(files)
        group.ending.roll_call()
        if files and not is_kept and group.rank == 0 and not group.ending.is_cut_off:
            group.ending.notes += dismantled(files, orphans_of(files_of_rank, group))
        group.ending.farewell()
        if files and not is_kept and (group.ending.is_cut_off or 0 in group.ending.lost):
            group.ending.notes += dismantled_by_survivors(files, files_of_rank, group)
        if files:
            files.close()


def made(target: Target, manifest: Manifest) -> RunFiles:
    """A place in the target with its manifest. Raises InvalidInput, RunFailed where that cannot be."""
    files = target.made(manifest.run_id)
    try:
        with explained_io_errors(f"writing {files.location(MANIFEST)}", rank=0), files.create(MANIFEST) as file:
            file.write(manifest.model_dump_json().encode())
        files.disown(MANIFEST)
    except BaseException:
        dismantled(files, [])
        files.close()
        raise
    return files


def _seen(target: Target, run_id: str, group: ProcessGroup) -> RunFiles:
    """Rank 0's place as another rank sees it."""
    title = target.run_title(run_id)
    try:
        files = target.seen(run_id)
        with files.open(MANIFEST) as file:
            found = json.loads(file.read())["run_id"]
    except (OSError, ValueError, KeyError) as error:
        raise _unshared(title, group, f"{type(error).__name__}: {error}") from error
    if found != run_id:
        files.close()
        raise _unshared(title, group, f"it sees run {found} there")
    return files


def _unshared(place: str, group: ProcessGroup, reason: str) -> RunFailed:
    title = group.placement.title
    return RunFailed(f"{title} does not see {place} as rank 0 made it: is the target shared? ({reason})")
