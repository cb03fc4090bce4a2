"""The files of one run, in a place of their own inside the target, and their whole life there.

Rank 0 makes the place and puts a manifest in it that names run and owner; every rank creates files there and
removes those that it created; rank 0 removes the manifest and the place last. Nothing is removed recursively.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Protocol

import psutil

from io_bench import interruption
from io_bench.errors import RunFailed, explained_io_errors, reason_of
from io_bench.process_group import ProcessGroup
from io_bench.target import Target

MANIFEST = "ckpt-bench.json"
_NAMES_SHOWN = 5


class RunFiles(Protocol):
    """Files by name, of which each rank removes its own. Methods raise OSError."""

    @property
    def title(self) -> str:
        """Where they are: a path or a URL."""

    def location(self, name: str) -> str:
        """Where one of them is, for people."""

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
    title = target.run_title(run_id)
    files: RunFiles | None = None
    is_kept = False
    try:
        if group.rank == 0:
            files = _made(target, run_id)
        group.exchange(None, doing="making the run directory")
        files = files or _seen(target, run_id, group)
        yield files
        is_kept = keep
    except BaseException as error:
        group.publish(error)
        raise
    finally:
        interruption.ignore()
        if files and not is_kept:
            group.notes += _cleared(files)
        group.roll_call()
        if files and not is_kept and group.rank == 0:
            orphans = [name for rank in group.lost for name in files_of_rank[rank]]
            group.notes += _dismantled(files, orphans)
        group.farewell()
        if 0 in group.lost:
            group.notes.append(f"{title} is left in place: rank 0, which made it, is gone.")
        if files:
            files.close()


def _made(target: Target, run_id: str) -> RunFiles:
    files = target.made(run_id)
    try:
        with explained_io_errors(f"writing {files.location(MANIFEST)}", rank=0):
            _write_manifest(files, run_id)
    except BaseException:
        _dismantled(files, [])
        files.close()
        raise
    return files


def _write_manifest(files: RunFiles, run_id: str) -> None:
    owner = {"user": psutil.Process().username(), "host": socket.gethostname(), "pid": os.getpid()}
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with files.create(MANIFEST) as file:
        file.write(json.dumps({"run_id": run_id, "owner": owner, "created": created}).encode())
    files.disown(MANIFEST)


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


def _cleared(files: RunFiles) -> list[str]:
    """Remove this rank's files; what went wrong, if anything."""
    try:
        files.remove_created()
    except OSError as error:
        return [f"Files in {files.title} could not be removed: {reason_of(error)}."]
    return []


def _dismantled(files: RunFiles, orphans: list[str]) -> list[str]:
    """Remove what lost ranks left, the manifest and the place; what went wrong, if anything."""
    try:
        files.remove_of_lost(orphans)
        foreign = [name for name in files.names() if name != MANIFEST]
        if foreign:
            names = ", ".join(foreign[:_NAMES_SHOWN]) + (", ..." if len(foreign) > _NAMES_SHOWN else "")
            return [f"{files.title} is left in place: it holds {names}, which this run did not make."]
        files.remove([MANIFEST])
        files.unmake()
    except OSError as error:
        return [f"{files.title} could not be removed: {reason_of(error)}."]
    return []
