"""A directory as a target, and the directory of one run in it."""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import psutil

from io_bench.errors import too_small, unwritable
from io_bench.target import page_cache
from io_bench.target.patience import open_buffered
from io_bench.target.request_log import RequestLog, observe_requests
from io_bench.target.stripes import layout_of
from io_bench.target.target import RUN_PREFIX, OwnedNames, PartTransfer, RunFiles
from sizing.errors import InvalidInput
from sizing.storage.run_events import DIRECTORY
from sizing.units import bytes_text, percent_text


class RunDirectory(OwnedNames, RunFiles):
    """Files of this rank in the run's directory, created and opened by name and by handle of the directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = RequestLog()
        super().__init__()
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        self._parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._fd)

    @property
    def title(self) -> str:
        return str(self.path)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The directory, as one of those over which a run may be spread."""
        return (self.path,)

    def location(self, name: str) -> str:
        return str(self.path / self._in_place(name))

    def numbered(self, number: int) -> RunDirectory:
        """View of the same directory, with the same list of what was created, and a number before every name."""
        view = copy.copy(self)
        view._prefix = f"{number}."
        return view

    def tune(self, transfer: PartTransfer | None) -> None:
        """Do nothing: engines choose their requests."""

    def create(self, name: str, *, flags: int = 0) -> BinaryIO:
        """A new file to write to, which is this rank's to remove. Raises OSError, also where it exists."""
        self._created.add(self._in_place(name))
        try:
            with self.log.step("create", name, 0):
                fd = self._opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | flags)
            return observe_requests(open_buffered(fd, "wb"), name, self.log)
        except FileExistsError:
            self._created.discard(self._in_place(name))
            raise

    def open(self, name: str, *, flags: int = 0) -> BinaryIO:
        with self.log.step("open", name, 0):
            fd = self._opened(name, os.O_RDONLY | flags)
        return observe_requests(open_buffered(fd, "rb"), name, self.log)

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
        return os.access(self._in_place(name), os.F_OK, dir_fd=self._fd, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Give a file of this rank another name. Raises OSError."""
        old, new = self._in_place(old), self._in_place(new)
        self._created.add(new)
        os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        self._created.discard(old)

    def num_bytes(self, name: str) -> int:
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
        os.utime(self._in_place(name), dir_fd=self._fd, follow_symlinks=False)

    def age_seconds(self, name: str) -> float:
        """Seconds since a file was changed; where there is no such file, since the directory was. Raises OSError."""
        try:
            status = os.stat(self._in_place(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            status = os.fstat(self._fd)
        return time.time() - status.st_mtime

    def remove_created(self) -> None:
        self._remove(self._created)
        self._created.clear()

    def remove(self, names: Iterable[str]) -> None:
        self._remove(map(self._in_place, names))

    remove_of_lost = remove

    def check_place(self) -> None:
        """Raise OSError where the path leads elsewhere by now: what is written still goes to where it led before."""
        try:
            is_here = os.path.samestat(self.path.lstat(), os.fstat(self._fd))
        except FileNotFoundError:
            is_here = False
        if not is_here:
            reason = f"{self.path} is no longer there: its file system was unmounted, or the directory was moved"
            raise OSError(errno.ESTALE, reason)

    def names(self) -> list[str]:
        return sorted(os.listdir(self._fd))  # noqa: PTH208 - by handle, which pathlib cannot

    def unmake(self) -> None:
        os.rmdir(self.path.name, dir_fd=self._parent)

    def close(self) -> None:
        for fd in (self._fd, self._parent):
            os.close(fd)

    def _remove(self, names_in_place: Iterable[str]) -> None:
        for name in names_in_place:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._fd)

    def _opened(self, name: str, flags: int) -> int:
        return os.open(self._in_place(name), flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=self._fd)


LUSTRE = "lustre"
"""The type of its mounts."""
_SPARE_FRACTION = 0.05
"""Journals and metadata of the file system. A guess; a disk that fills is named anyway, later."""

EXISTS_ALREADY = "it exists already, from another run"


@dataclass(frozen=True, slots=True)
class DirectoryTarget:
    """A directory that is there: `given` as the user wrote it, `path` resolved. Fulfils Target."""

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
            raise InvalidInput.of("--target", rule, value=text, remedy="create it, or choose another") from error
        if not stat.S_ISDIR(mode):
            raise InvalidInput.of("--target", "must be a directory", value=text, remedy="give a directory")
        if not os.access(text, os.W_OK | os.X_OK):
            is_read_only = os.statvfs(text).f_flag & os.ST_RDONLY
            raise unwritable(text, "Read-only file system" if is_read_only else "permission denied")
        return cls(text, Path(text).resolve())

    @property
    def title(self) -> str:
        return str(self.path)

    @property
    def remark(self) -> str:
        """Where the symbolic link leads, if the path is one."""
        if not Path(self.given).is_symlink():
            return ""
        return f"The target {self.given} is a symbolic link to {self.path}."

    def transfer(self, *, block_bytes: int | None, num_parallel: int | None, largest_file_bytes: int) -> None:
        """Give none: engines choose their requests."""

    def check_space(self, needed_bytes: int) -> None:
        """Raise InvalidInput where its file system has less free than is needed, plus 5 %."""
        system = os.statvfs(self.path)
        needed = round(needed_bytes * (1 + _SPARE_FRACTION))
        free = system.f_bavail * system.f_frsize
        # Some network file systems report no size at all.
        if system.f_blocks and free < needed:
            checkpoint = f"one checkpoint of all ranks and {percent_text(_SPARE_FRACTION)} reserve"
            rule = f"has {bytes_text(free)} free, but {checkpoint} need {bytes_text(needed)}"
            raise too_small("--target", rule)

    def description(self) -> dict[str, str]:
        """The mount that holds it; on Lustre also how new files are striped."""
        mount = _mount_of(self.path)
        return mount | layout_of(self.path) if mount.get("type") == LUSTRE else mount

    def run_ids(self) -> list[str]:
        """The runs that have a directory here, by what the directories are called. Raises OSError."""
        folders = (path for path in self.path.glob(f"{RUN_PREFIX}*") if path.is_dir() and not path.is_symlink())
        return sorted(path.name.removeprefix(RUN_PREFIX) for path in folders)

    def run_title(self, run_id: str) -> str:
        """The path of a run's directory."""
        return str(self._run_path(run_id))

    def make_run(self, run_id: str) -> RunDirectory:
        """Make a directory for a run. Raises InvalidInput where that is not allowed, or it is there already."""
        path = self._run_path(run_id)
        try:
            path.mkdir()
        except FileExistsError as error:
            raise unwritable(path, EXISTS_ALREADY) from error
        except OSError as error:
            raise unwritable(self.path, str(error.strerror)) from error
        try:
            return self.open_run(run_id)
        except OSError as error:
            path.rmdir()
            raise unwritable(path, str(error.strerror)) from error

    def open_run(self, run_id: str) -> RunDirectory:
        """The directory that another rank has made. Raises OSError."""
        return RunDirectory(self._run_path(run_id))

    def _run_path(self, run_id: str) -> Path:
        return self.path / f"{RUN_PREFIX}{run_id}"


def _mount_of(path: Path) -> dict[str, str]:
    """Describe the innermost mount that holds a path, and of several over one another the one on top."""
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    if not mounts:
        return {}
    length = max(len(mount.mountpoint) for mount in mounts)
    mount = [mount for mount in mounts if len(mount.mountpoint) == length][-1]
    return {"device": mount.device, "type": mount.fstype, "options": mount.opts, "path": mount.mountpoint}
