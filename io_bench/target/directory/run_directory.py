"""A run's own directory inside a target: what is made there is removed again, file by file."""

from __future__ import annotations

import contextlib
import copy
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from io_bench.target.directory import page_cache
from io_bench.target.run_files import RunFiles
from io_bench.target.transfer import Transfer
from io_bench.timing.observed_file import observed
from io_bench.timing.request_log import RequestLog
from sizing.storage.request_times import DIRECTORY


class RunDirectory(RunFiles):
    """Files of this rank in the run's directory, created and opened by name and by handle of the directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = RequestLog()
        self._prefix = ""
        self._created: set[str] = set()
        self._kept: set[str] = set()
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    @property
    def title(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def paths(self) -> tuple[Path, ...]:
        """It, as one of the directories over which a run may be spread."""
        return (self.path,)

    def location(self, name: str) -> str:
        """The path of a file."""
        return str(self.path / self._in_place(name))

    def numbered(self, number: int) -> RunDirectory:
        """The same directory and the same list of what was created, with a number before every name."""
        view = copy.copy(self)
        view._prefix = f"{number}."
        return view

    def tune(self, transfer: Transfer | None) -> None:
        """Nothing: engines choose their requests."""

    def create(self, name: str, *, flags: int = 0) -> BinaryIO:
        """A new file to write to, which is this rank's to remove. Raises OSError, also where it exists."""
        self._created.add(self._in_place(name))
        try:
            with self.log.step("create", name, 0):
                fd = self._opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags)
            return observed(os.fdopen(fd, "wb"), name, self.log)
        except FileExistsError:
            self._created.discard(self._in_place(name))
            raise

    def open(self, name: str, *, flags: int = 0) -> BinaryIO:
        """A file to read from. Raises OSError."""
        with self.log.step("open", name, 0):
            fd = self._opened(name, os.O_RDONLY | flags)
        return observed(os.fdopen(fd, "rb"), name, self.log)

    def persist(self, file: BinaryIO) -> None:
        """Flush and fsync a file. Raises OSError."""
        with self.log.step("fsync", file.name, file.tell()):
            file.flush()
            os.fsync(file.fileno())

    def sync(self) -> None:
        """Make the names of new files durable: fsync of the directory. Raises OSError."""
        with self.log.step("commit", DIRECTORY, 0):
            os.fsync(self._fd)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return os.access(self._in_place(name), os.F_OK, dir_fd=self._fd, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Give a file of this rank another name. Raises OSError."""
        old, new = self._in_place(old), self._in_place(new)
        self._created.add(new)
        os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        self._created.discard(old)

    def num_bytes(self, name: str) -> int:
        """The size of a file. Raises OSError."""
        return os.stat(self._in_place(name), dir_fd=self._fd, follow_symlinks=False).st_size

    def num_resident_pages(self, name: str) -> int:
        """Pages of a file in the page cache. Raises OSError."""
        with self.open(name) as file:
            return page_cache.num_resident_pages(file.fileno())

    def drop_from_memory(self, name: str) -> int:
        """Pages of a file that stay in the page cache. Raises OSError."""
        with self.open(name) as file:
            return page_cache.drop(file.fileno())

    def touch(self, name: str) -> None:
        """Make a file look as if changed now. Raises OSError."""
        os.utime(self._in_place(name), dir_fd=self._fd, follow_symlinks=False)

    def age_seconds(self, name: str) -> float:
        """Seconds since a file was changed; where there is no such file, since the directory was. Raises OSError."""
        try:
            status = os.stat(self._in_place(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            status = os.fstat(self._fd)
        return time.time() - status.st_mtime

    def remove_created(self) -> None:
        """Remove the files that this rank created. Raises OSError."""
        self._remove(self._created)
        self._created.clear()

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there. Raises OSError."""
        self._remove(map(self._in_place, names))

    remove_of_lost = remove

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last."""
        self._created.discard(self._in_place(name))

    def keep(self, names: Iterable[str]) -> None:
        """Leave files where they are, as evidence."""
        self._kept.update(map(self._in_place, names))
        self._created.difference_update(self._kept)

    @property
    def kept(self) -> frozenset[str]:
        """The files to be left as evidence."""
        return frozenset(self._kept)

    def names(self) -> list[str]:
        """What is in the directory."""
        return sorted(os.listdir(self._fd))  # noqa: PTH208 - by handle, which pathlib cannot

    def unmake(self) -> None:
        """Remove the directory, which is empty. Raises OSError."""
        self.path.rmdir()

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def _remove(self, names_in_place: Iterable[str]) -> None:
        for name in names_in_place:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._fd)

    def _in_place(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def _opened(self, name: str, flags: int) -> int:
        return os.open(self._in_place(name), flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._fd)
