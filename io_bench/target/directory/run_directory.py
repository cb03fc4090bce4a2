"""A run's own directory inside a target: what is made there is removed again, file by file."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from io_bench.target.directory import page_cache
from io_bench.target.transfer import Transfer


class RunDirectory:
    """Files of this rank in the run's directory, created and opened by name and by handle of the directory.

    Fulfils io_bench.target.run_files.RunFiles.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._created: set[str] = set()
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)

    @property
    def title(self) -> str:
        """The path."""
        return str(self.path)

    def location(self, name: str) -> str:
        """The path of a file."""
        return str(self.path / name)

    def tune(self, transfer: Transfer | None) -> None:
        """Nothing: engines choose their requests."""

    def create(self, name: str, *, flags: int = 0) -> BinaryIO:
        """A new file to write to, which is this rank's to remove. Raises OSError, also where it exists."""
        self._created.add(name)
        try:
            return os.fdopen(self._opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags), "wb")
        except FileExistsError:
            self._created.discard(name)
            raise

    def open(self, name: str, *, flags: int = 0) -> BinaryIO:
        """A file to read from. Raises OSError."""
        return os.fdopen(self._opened(name, os.O_RDONLY | flags), "rb")

    def persist(self, file: BinaryIO) -> None:
        """Flush and fsync a file. Raises OSError."""
        file.flush()
        os.fsync(file.fileno())

    def sync(self) -> None:
        """Make the names of new files durable: fsync of the directory. Raises OSError."""
        os.fsync(self._fd)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return os.access(name, os.F_OK, dir_fd=self._fd, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Give a file of this rank another name. Raises OSError."""
        self._created.add(new)
        os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        self._created.discard(old)

    def num_bytes(self, name: str) -> int:
        """The size of a file. Raises OSError."""
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_size

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
        os.utime(name, dir_fd=self._fd, follow_symlinks=False)

    def age_seconds(self, name: str) -> float:
        """Seconds since a file was changed; where there is no such file, since the directory was. Raises OSError."""
        try:
            status = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            status = os.fstat(self._fd)
        return time.time() - status.st_mtime

    def remove_created(self) -> None:
        """Remove the files that this rank created. Raises OSError."""
        self.remove(self._created)
        self._created.clear()

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there. Raises OSError."""
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._fd)

    remove_of_lost = remove

    def disown(self, name: str) -> None:
        """Leave a file out of `remove_created`: it goes last."""
        self._created.discard(name)

    def names(self) -> list[str]:
        """What is in the directory."""
        return sorted(os.listdir(self._fd))  # noqa: PTH208 - by handle, which pathlib cannot

    def unmake(self) -> None:
        """Remove the directory, which is empty. Raises OSError."""
        self.path.rmdir()

    def close(self) -> None:
        """Let go of the directory."""
        os.close(self._fd)

    def _opened(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._fd)
