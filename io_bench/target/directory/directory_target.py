"""A target that is a directory: checked before anything is written there."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from io_bench.errors import too_small, unwritable
from io_bench.target.directory.run_directory import RunDirectory
from io_bench.target.directory.stripes import layout_of
from io_bench.target.target import RUN_PREFIX
from sizing.errors import InvalidInput
from sizing.units import bytes_text, percent_text

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
            checkpoint = f"one checkpoint of all ranks and {percent_text(_SPARE_FRACTION)} reserve"
            rule = f"has {bytes_text(free)} free, but {checkpoint} need {bytes_text(needed)}"
            raise too_small("--target", rule)

    def description(self) -> dict[str, str]:
        """The mount that holds it; on Lustre also how new files are striped."""
        mount = _mount_of(self.path)
        return mount | layout_of(self.path) if mount.get("type") == LUSTRE else mount

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
            raise unwritable(path, EXISTS_ALREADY) from error
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


def _mount_of(path: Path) -> dict[str, str]:
    """The mount that holds a path: device, file system type, options and mount point."""
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    return _last_and_longest(mounts)


def _last_and_longest(mounts: Sequence[Any]) -> dict[str, str]:
    """Of mounts one over another, the one on top."""
    if not mounts:
        return {}
    length = max(len(mount.mountpoint) for mount in mounts)
    mount = [mount for mount in mounts if len(mount.mountpoint) == length][-1]
    return {"device": mount.device, "type": mount.fstype, "options": mount.opts, "path": mount.mountpoint}
