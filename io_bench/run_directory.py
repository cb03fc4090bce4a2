"""A target that is a directory, and a run's own directory inside it: made exclusively, removed file by file."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from io_bench import page_cache
from io_bench.errors import too_small, unwritable
from io_bench.manifest import RUN_PREFIX
from io_bench.mount import mount_of
from sizing.errors import InvalidInput
from sizing.units import bytes_text, percent_text

if TYPE_CHECKING:
    from io_bench.object_store.store import Transfer

_SPARE_FRACTION = 0.05


class RunDirectory:
    """Files of this rank in the run's directory, created and opened by name and by handle of the directory.

    Fulfils io_bench.run_files.RunFiles.
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


@dataclass(frozen=True, slots=True)
class DirectoryTarget:
    """A directory that is there: `given` as the user wrote it, `path` resolved. Fulfils io_bench.target.Target."""

    given: str
    path: Path
    cache_policy: None = None

    @classmethod
    def checked(cls, text: str) -> DirectoryTarget:
        """The target that a path names. Raises InvalidInput where it is no directory to write to."""
        try:
            mode = Path(text).stat().st_mode if text else 0
        except OSError as error:
            rule = f"must be a directory that exists ({error.strerror})"
            raise InvalidInput.of("--target", rule, value=text, remedy="create it, or give another one") from error
        if not stat.S_ISDIR(mode):
            raise InvalidInput.of("--target", "must be a directory", value=text, remedy="give a directory")
        if not os.access(text, os.W_OK | os.X_OK):
            is_read_only = os.statvfs(text).f_flag & os.ST_RDONLY
            raise unwritable(text, "Read-only file system" if is_read_only else "permission denied")
        return cls(text, Path(text).resolve())

    @property
    def title(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def remark(self) -> str:
        """Where a symbolic link leads."""
        if not Path(self.given).is_symlink():
            return ""
        return f"The target {self.given} is a symbolic link to {self.path}."

    def transfer(self, *, block_bytes: int | None, num_parallel: int | None, largest_file_bytes: int) -> None:
        """Nothing: engines choose their requests."""

    def check_space(self, needed_bytes: int) -> None:
        """Raise InvalidInput where its file system has less free than is needed, plus 5 %."""
        system = os.statvfs(self.path)
        needed = round(needed_bytes * (1 + _SPARE_FRACTION))
        free = system.f_bavail * system.f_frsize
        # Some network file systems report no size at all.
        if system.f_blocks and free < needed:
            checkpoint = f"one checkpoint of all ranks and {percent_text(_SPARE_FRACTION)} more"
            rule = f"has {bytes_text(free)} free where {checkpoint} take {bytes_text(needed)}"
            raise too_small("--target", rule)

    def description(self) -> dict[str, str]:
        """The mount that holds it."""
        return mount_of(self.path)

    def run_ids(self) -> list[str]:
        """The runs that have a directory here, by what the directories are called. Raises OSError."""
        found = (path for path in self.path.glob(f"{RUN_PREFIX}*") if path.is_dir() and not path.is_symlink())
        return sorted(path.name.removeprefix(RUN_PREFIX) for path in found)

    def run_title(self, run_id: str) -> str:
        """The path of a run's directory."""
        return str(self._run_path(run_id))

    def made(self, run_id: str) -> RunDirectory:
        """A new directory. Raises InvalidInput where that is not allowed, or it is there already."""
        path = self._run_path(run_id)
        try:
            path.mkdir()
        except FileExistsError as error:
            raise unwritable(path, "it is there already, and not from this run") from error
        except OSError as error:
            raise unwritable(self.path, str(error.strerror)) from error
        try:
            return self.seen(run_id)
        except OSError as error:
            path.rmdir()
            raise unwritable(path, str(error.strerror)) from error

    def seen(self, run_id: str) -> RunDirectory:
        """The directory that another rank has made. Raises OSError."""
        return RunDirectory(self._run_path(run_id))

    def _run_path(self, run_id: str) -> Path:
        return self.path / f"{RUN_PREFIX}{run_id}"
