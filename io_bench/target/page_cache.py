"""The kernel's page cache: dropping a file's pages, and proving that they are gone."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import time

# The same number on every architecture; kernel 6.5 and later.
_SYSCALL_CACHESTAT = 451
_DROP_ATTEMPTS = 3
"""Pages that another CPU still holds in a batch, or that are being written back, go at a later attempt."""
_SECONDS_BETWEEN_ATTEMPTS = 0.02
"""Long enough for the kernel to finish such a batch."""
_MAP_FAILED = ctypes.c_void_p(-1).value
"""mmap(2)'s MAP_FAILED, which ctypes gives as an unsigned number."""


def drop(fd: int) -> int:
    """Ask the kernel to drop a file's clean pages, and return how many stay resident all the same.

    Pages stay where someone has mapped or locked them, and on file systems that live in memory. Call it
    after fsync: dirty pages are not dropped. Raises OSError.
    """
    for _ in range(_DROP_ATTEMPTS):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        resident = num_resident_pages(fd)
        if not resident:
            break
        time.sleep(_SECONDS_BETWEEN_ATTEMPTS)
    return resident


def num_resident_pages(fd: int) -> int:
    """Pages of a file that are in memory, by cachestat(2) and mincore(2), whichever sees more. OSError.

    A zero of cachestat needs the second opinion: on overlayfs, where containers live, it looks at an inode
    that never holds pages (seen on kernel 6.18), while mincore follows the mapping to the real file.
    """
    return _cachestat(fd) or _mincore(fd)


def probe_name() -> str:
    """How residency is proven on this kernel, for the result."""
    return "cachestat+mincore" if _cachestat_is_there() else "mincore"


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    return libc


@functools.cache
def _cachestat_is_there() -> bool:
    """Whether the kernel knows the system call: asked with a descriptor that it must refuse."""
    _libc().syscall(_SYSCALL_CACHESTAT, -1, None, None, 0)
    return ctypes.get_errno() != errno.ENOSYS


def _cachestat(fd: int) -> int | None:
    """Resident pages by cachestat(2); None where the kernel or the file system does not offer it."""
    if not _cachestat_is_there():
        return None
    whole_file = (ctypes.c_uint64 * 2)(0, 0)
    counts = (ctypes.c_uint64 * 5)()
    if _libc().syscall(_SYSCALL_CACHESTAT, fd, whole_file, counts, 0) != 0:
        return None
    return int(counts[0])


def _mincore(fd: int) -> int:
    size = os.fstat(fd).st_size
    if size == 0:
        return 0
    residency = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    address = _libc().mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
    if address == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), f"mmap: {os.strerror(ctypes.get_errno())}")
    failed = _libc().mincore(address, size, residency) != 0
    reason = ctypes.get_errno()
    _libc().munmap(address, size)
    if failed:
        raise OSError(reason, f"mincore: {os.strerror(reason)}")
    return len(residency) - bytes(residency).count(0)
