"""Sizes and times of files: of a folder by statx(2), of a bucket by its listing."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from io_bench.errors import reason_of
from io_bench.target.address import is_url
from sizing.checkpoint_files.folder import files_below
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


def listed(place: str) -> list[FileTimes]:
    """The files below a folder or a URL. Raises UnreadableFile or InvalidInput where it cannot be listed."""
    return list(_in_store(place) if is_url(place) else _in_folder(Path(place)))


def _in_folder(root: Path) -> Iterator[FileTimes]:
    if not root.is_dir():
        raise UnreadableFile(f"{root} is not a folder: give the folder in which the run has left its checkpoints.")
    for path in files_below(root, max_files=MAX_FILES):
        with contextlib.suppress(FileNotFoundError):  # a run that goes on removes old saves, and links break
            yield _times_of(path, name=str(path.relative_to(root)))


def _in_store(url: str) -> Iterator[FileTimes]:
    from io_bench.target.object_store.url_target import UrlTarget  # noqa: PLC0415 - fsspec, where it is needed

    target = UrlTarget.checked(url, is_first=True, field="the URL")
    try:
        found = target.store.objects(target.path)
    except OSError as error:
        rule = f"cannot be listed ({reason_of(error).rstrip('.')})"
        raise InvalidInput.of("the URL", rule, value=url, remedy="check the permission to list") from error
    for stored in found:
        yield FileTimes(stored.path.removeprefix(f"{target.path}/"), stored.num_bytes, stored.changed_at)


def _times_of(path: Path, *, name: str) -> FileTimes:
    """Raises OSError."""
    num_bytes, modified_at, created_at = _statx(path)
    is_copy = created_at is not None and created_at > modified_at + _SECONDS_OF_A_COPY
    return FileTimes(name, num_bytes, modified_at, None if is_copy else created_at)


_AT_FDCWD = -100
"""linux/fcntl.h: a path that is not absolute begins at the working directory."""
_STATX_MTIME, _STATX_SIZE, _STATX_BTIME = 0x40, 0x200, 0x800
"""linux/stat.h: bits of what is asked for, and of what was answered."""
_STATX_LAYOUT = struct.Struct("=I36xQ32xqIi16xqIi")
"""linux/stat.h, struct statx: mask, size, birth time and time of change among what is not asked for."""
_STATX_STRUCTURE_BYTES = 256
"""Of the whole structure, which the kernel fills."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _statx(path: Path) -> tuple[int, float, float | None]:
    """Size, time of change and birth time of a file, by statx(2): os.stat has no birth time on Linux.

    Where the C library is older than the call, there is no birth time. Raises OSError.
    """
    if not hasattr(_libc(), "statx"):
        status = path.stat()
        return status.st_size, status.st_mtime, None
    buffer = ctypes.create_string_buffer(_STATX_STRUCTURE_BYTES)
    wanted = _STATX_MTIME | _STATX_SIZE | _STATX_BTIME
    if _libc().statx(_AT_FDCWD, os.fsencode(path), 0, wanted, buffer) != 0:
        code = ctypes.get_errno() or errno.EIO
        raise OSError(code, os.strerror(code), str(path))
    mask, size, born, born_ns, _, changed, changed_ns, _ = _STATX_LAYOUT.unpack_from(buffer)
    has_birth = bool(mask & _STATX_BTIME) and born > 0
    return size, changed + changed_ns / 1e9, born + born_ns / 1e9 if has_birth else None
