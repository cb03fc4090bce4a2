"""What is looked at in a target that is a directory. Each check is a function of a probe directory."""

from __future__ import annotations

import errno
import os
import resource
import statistics
import time
from pathlib import Path

from io_bench.preflight.alignment import is_refused, num_cached_pages, smallest_alignment_bytes
from io_bench.preflight.findings import Finding
from io_bench.preflight.probe import SMALL_BYTES
from io_bench.ranks.bounded_store import CONNECTIONS_PER_RANK
from io_bench.target.directory.allocation import allocate
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES
from io_bench.target.directory.directory_target import DirectoryTarget
from sizing.errors import InvalidInput
from sizing.units import binary_bytes_text, bytes_text

PROBE_NAMES = ("allocated", "created", "direct", "long", "renamed", "stamped", "synced")
MIN_OPEN_FILES = 512
"""What Python, torch and the threads of an engine have open, with room to spare."""
MAX_CLOCK_SECONDS = 1.0
"""A choice: synchronised clocks are milliseconds apart. A wrong one only makes logs hard to compare."""
MAX_SYNC_SECONDS = 0.5
"""A choice: a hundred times what a drive with a cache takes, so that only what is broken or overloaded is named."""
_NUM_SYNCS = 9
"""The median of so many; the check stays under a few seconds even where each takes half of one."""
_ALLOCATED_BYTES = 1 << 20
"""Enough that the file system must reserve blocks."""
_TYPES_IN_MEMORY = ("tmpfs", "ramfs")


def file_system(target: DirectoryTarget) -> Finding:
    """Its type, and what that means for a measurement."""
    mount = target.description()
    kind, options = mount.get("type", "unknown"), mount.get("options", "").split(",")
    found = f"{kind} on {mount.get('path', '?')}, from {mount.get('device', '?')}"
    if kind in _TYPES_IN_MEMORY:
        return Finding(
            "file system",
            found,
            "warning",
            "This file system is in memory: it is not storage. Choose another --target.",
        )
    if kind == "overlay":
        advice = "This is the container's own layer. Mount the storage into the container and give that path."
        return Finding("file system", found, "warning", advice)
    if kind.startswith("nfs") and "soft" in options:
        advice = "A soft NFS mount loses writes when the server is slow. Mount it with the option hard."
        return Finding("file system", found, "warning", advice)
    return Finding("file system", found)


def space(target: DirectoryTarget, *, needed_bytes: int, num_files: int) -> Finding:
    """Free bytes and free file names against what one checkpoint takes."""
    system = os.statvfs(target.path)
    found = f"{bytes_text(system.f_bavail * system.f_frsize)} free, {bytes_text(needed_bytes)} needed"
    try:
        target.check_space(needed_bytes)
    except InvalidInput as error:
        return Finding("space", found, "problem", str(error))
    # Some file systems report no number of files at all.
    if system.f_files and system.f_favail < num_files:
        found = f"room for {system.f_favail:,} more files, {num_files:,} needed"
        return Finding("space", found, "problem", "Remove files, or use a file system with more inodes.")
    return Finding("space", found)


def largest_file(probe: Path, *, num_bytes: int) -> Finding:
    """Whether a file may be as long as a rank's: the file system's limit, and the process's."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < num_bytes:
        found = f"limited to {bytes_text(limit)}, {bytes_text(num_bytes)} needed"
        return Finding("largest file", found, "problem", "Raise the limit: ulimit -f unlimited.")
    try:
        with (probe / "long").open("wb") as file:
            os.ftruncate(file.fileno(), num_bytes)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        advice = "The file system does not allow files of this size. Start more ranks and reduce --bytes-per-rank."
        return Finding("largest file", f"max below the {bytes_text(num_bytes)} of a rank", "problem", advice)
    return Finding("largest file", f"at least {bytes_text(num_bytes)}")


def permissions(probe: Path) -> Finding:
    """Creating, renaming and removing files, and making names durable."""
    (probe / "created").write_bytes(b"")
    (probe / "created").rename(probe / "renamed")
    (probe / "renamed").unlink()
    fd = os.open(probe, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return Finding("permissions", "files can be created, renamed and removed")


def direct_io(probe: Path) -> Finding:
    """Whether O_DIRECT is accepted, with which alignment, and whether it bypasses the page cache."""
    if is_refused(probe / "direct"):
        advice = "The engine direct will use the page cache here."
        return Finding("O_DIRECT", "refused", "note", advice)
    alignment = smallest_alignment_bytes(probe / "direct")
    if alignment is None or alignment > ALIGNMENT_BYTES:
        found = (
            "accepted, but every request fails"
            if alignment is None
            else f"needs {binary_bytes_text(alignment)} alignment"
        )
        advice = (
            f"The engine direct aligns to {binary_bytes_text(ALIGNMENT_BYTES)} and fails here. Choose another --engine."
        )
        return Finding("O_DIRECT", found, "warning", advice)
    found = "any alignment" if alignment == 1 else f"aligned to {binary_bytes_text(alignment)}"
    if num_cached_pages(probe / "direct", alignment_bytes=alignment):
        advice = "Direct writes stay in the page cache. Compare with runs whose payload is larger than memory."
        return Finding("O_DIRECT", f"accepted, {found}, but cached", "warning", advice)
    return Finding("O_DIRECT", f"works, {found}")


def sync_cost(probe: Path) -> Finding:
    """What fsync of a small file takes, which every file of a checkpoint pays once."""
    seconds = []
    with (probe / "synced").open("wb", buffering=0) as file:
        for _ in range(_NUM_SYNCS):
            file.write(bytes(SMALL_BYTES))
            started = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    found = f"{_milliseconds(median)}, from {_milliseconds(min(seconds))} to {_milliseconds(max(seconds))}"
    if median > MAX_SYNC_SECONDS:
        return Finding(
            "fsync", found, "warning", "Every file waits this long. Check whether the storage is busy or faulty."
        )
    return Finding("fsync", found)


def allocation(probe: Path) -> Finding:
    """Whether space can be taken before it is written, by fallocate(2)."""
    with (probe / "allocated").open("wb") as file:
        if allocate(file.fileno(), _ALLOCATED_BYTES):
            return Finding("fallocate", "works")
    advice = "A full disk is found only during writing, and parallel writes to one file may be slower."
    return Finding("fallocate", "not supported", "note", advice)


def open_files(*, num_ranks: int) -> Finding:
    """How many files a process may have open: the one through which ranks meet has connections to all of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MIN_OPEN_FILES + CONNECTIONS_PER_RANK * num_ranks
    found = f"soft limit {soft:,}, hard limit {hard:,}"
    if hard < needed:
        return Finding("open files", found, "warning", f"Raise the hard limit to {needed:,} (ulimit -Hn).")
    if soft < needed:
        return Finding("open files", found, "note", f"Before torchrun, raise the soft limit: ulimit -n {needed}.")
    return Finding("open files", found)


def clock(probe: Path) -> Finding:
    """The node's clock against the one that stamps the target's files."""
    before = time.time()
    stamp = _stamped(probe / "stamped")
    after = time.time()
    off = max(before - stamp, stamp - after, 0.0)
    found = f"{_milliseconds(off)} from the file system's clock"
    if off > MAX_CLOCK_SECONDS:
        advice = "Times in the logs of nodes and storage will not match. Synchronise the clocks (NTP, chrony)."
        return Finding("clock", found, "warning", advice)
    return Finding("clock", found)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _stamped(path: Path) -> float:
    """The time that the file system gives to a new file."""
    path.touch()
    return path.stat().st_mtime
