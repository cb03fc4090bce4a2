"""The run's own directory inside the target: made exclusively, removed file by file, never recursively.

Rank 0 makes it and puts a manifest in it that names run and owner; every rank creates files by handle of
the directory and removes those that it created; rank 0 removes the manifest and the directory last.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import psutil

from io_bench import interruption
from io_bench.errors import RunFailed, explained_io_errors
from io_bench.process_group import ProcessGroup
from io_bench.target import unwritable

MANIFEST = "ckpt-bench.json"
_NAMES_SHOWN = 5


class RunDirectory:
    """Files of this rank in the run's directory, created and opened by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._created: set[str] = set()
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    def create(self, name: str) -> BinaryIO:
        """A new file to write to, which is this rank's to remove. Raises OSError, also where it exists."""
        self._created.add(name)
        try:
            return os.fdopen(self._opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb")
        except FileExistsError:
            self._created.discard(name)
            raise

    def open(self, name: str) -> BinaryIO:
        """A file to read from. Raises OSError."""
        return os.fdopen(self._opened(name, os.O_RDONLY), "rb")

    def sync(self) -> None:
        """Make the names of new files durable: fsync of the directory. Raises OSError."""
        os.fsync(self._fd)

    def num_bytes(self, name: str) -> int:
        """The size of a file. Raises OSError."""
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_size

    def remove_created(self) -> None:
        """Remove the files that this rank created. Raises OSError."""
        self.remove(self._created)
        self._created.clear()

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there. Raises OSError."""
        for name in names:
            try:
                os.unlink(name, dir_fd=self._fd)
            except FileNotFoundError:
                continue

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last."""
        self._created.discard(name)

    def names(self) -> list[str]:
        """What is in the directory."""
        return sorted(os.listdir(self._fd))  # noqa: PTH208 - by handle, which pathlib cannot

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def _opened(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._fd)


@contextmanager
def opened(
    path: Path, group: ProcessGroup, *, run_id: str, files_of_rank: Sequence[Sequence[str]], keep: bool
) -> Iterator[RunDirectory]:
    """The run's directory, on all ranks; afterwards it is gone, unless `keep` and all went well.

    What could not be removed is said in the group's notes. Raises InvalidInput where the target does not
    let it be made, RunFailed where a rank does not see rank 0's directory.
    """
    directory: RunDirectory | None = None
    is_kept = False
    try:
        if group.rank == 0:
            directory = _made(path, run_id)
        group.exchange(None, doing="making the run directory")
        directory = directory or _seen(path, run_id, group)
        yield directory
        is_kept = keep
    except BaseException as error:
        group.publish(error)
        raise
    finally:
        interruption.ignore()
        if directory and not is_kept:
            group.notes += _cleared(directory)
        group.roll_call()
        if directory and not is_kept and group.rank == 0:
            orphans = [name for rank in group.lost for name in files_of_rank[rank]]
            group.notes += _dismantled(directory, orphans)
        group.farewell()
        if 0 in group.lost:
            group.notes.append(f"{path} is left in place: rank 0, which made it, is gone.")
        if directory:
            directory.close()


def _made(path: Path, run_id: str) -> RunDirectory:
    try:
        path.mkdir()
        directory = RunDirectory(path)
        with explained_io_errors(f"writing {path / MANIFEST}", rank=0):
            _write_manifest(directory, run_id)
    except FileExistsError as error:
        raise unwritable(path, "it is there already, and not from this run") from error
    except BaseException as error:
        # Harmless where the directory was not made: the name is this run's alone.
        with contextlib.suppress(OSError):
            (path / MANIFEST).unlink(missing_ok=True)
            path.rmdir()
        if isinstance(error, OSError):
            raise unwritable(path.parent, str(error.strerror)) from error
        raise
    return directory


def _write_manifest(directory: RunDirectory, run_id: str) -> None:
    owner = {"user": psutil.Process().username(), "host": socket.gethostname(), "pid": os.getpid()}
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with directory.create(MANIFEST) as file:
        file.write(json.dumps({"run_id": run_id, "owner": owner, "created": created}).encode())
    directory.disown(MANIFEST)


def _seen(path: Path, run_id: str, group: ProcessGroup) -> RunDirectory:
    """Rank 0's directory as another rank sees it."""
    try:
        directory = RunDirectory(path)
        with directory.open(MANIFEST) as file:
            found = json.loads(file.read())["run_id"]
    except (OSError, ValueError, KeyError) as error:
        raise _unshared(path, group, f"{type(error).__name__}: {error}") from error
    if found != run_id:
        directory.close()
        raise _unshared(path, group, f"it sees run {found} there")
    return directory


def _unshared(path: Path, group: ProcessGroup, reason: str) -> RunFailed:
    title = group.placement.title
    return RunFailed(f"{title} does not see {path} as rank 0 made it: is the target shared? ({reason})")


def _cleared(directory: RunDirectory) -> list[str]:
    """Remove this rank's files; what went wrong, if anything."""
    try:
        directory.remove_created()
    except OSError as error:
        return [f"Files in {directory.path} could not be removed: {error.strerror}."]
    return []


def _dismantled(directory: RunDirectory, orphans: list[str]) -> list[str]:
    """Remove what lost ranks left, the manifest and the directory; what went wrong, if anything."""
    try:
        directory.remove(orphans)
        foreign = [name for name in directory.names() if name != MANIFEST]
        if foreign:
            names = ", ".join(foreign[:_NAMES_SHOWN]) + (", ..." if len(foreign) > _NAMES_SHOWN else "")
            return [f"{directory.path} is left in place: it holds {names}, which this run did not make."]
        directory.remove([MANIFEST])
        directory.path.rmdir()
    except OSError as error:
        return [f"{directory.path} could not be removed: {error.strerror}."]
    return []
