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
from io_bench.ranks.bounded_store import CONNECTIONS_PER_RANK
from io_bench.target.directory.allocation import allocate
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES
from io_bench.target.directory.directory_target import DirectoryTarget
from sizing.errors import InvalidInput
from sizing.units import binary_bytes_text, bytes_text

PROBE_NAMES = ("allocated", "created", "direct", "long", "renamed", "stamped", "synced")
LEAST_OPEN_FILES = 512
MOST_CLOCK_SECONDS = 1.0
MOST_SYNC_SECONDS = 0.5
_NUM_SYNCS = 9
_SMALL_BYTES = 4096
_ALLOCATED_BYTES = 1 << 20
_TYPES_IN_MEMORY = ("tmpfs", "ramfs")


def file_system(target: DirectoryTarget) -> Finding:
    """Its type, and what that means for a measurement."""
    mount = target.description()
    kind, options = mount.get("type", "unknown"), mount.get("options", "").split(",")
    found = f"{kind} on {mount.get('path', '?')}, from {mount.get('device', '?')}"
    if kind in _TYPES_IN_MEMORY:
        return Finding("file system", found, "warning", "It lives in memory: what is measured is no storage.")
    if kind == "overlay":
        advice = "It is a container's own layer: mount the storage into the container, and give that."
        return Finding("file system", found, "warning", advice)
    if kind.startswith("nfs") and "soft" in options:
        advice = "A soft NFS mount gives up when the server is slow, and loses writes: mount it hard."
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
        return Finding("space", found, "problem", "Remove files, or make a file system with more inodes.")
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
        advice = "This file system takes no file as long: start more ranks that write less each."
        return Finding("largest file", f"shorter than the {bytes_text(num_bytes)} of a rank", "problem", advice)
    return Finding("largest file", f"{bytes_text(num_bytes)} at least")


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
    """Whether O_DIRECT is taken, from which alignment on, and whether it is kept."""
    if is_refused(probe / "direct"):
        advice = "Engine direct will go through the page cache here."
        return Finding("O_DIRECT", "refused", "note", advice)
    alignment = smallest_alignment_bytes(probe / "direct")
    if alignment is None or alignment > ALIGNMENT_BYTES:
        found = "taken, but no request is" if alignment is None else f"only from {binary_bytes_text(alignment)} on"
        advice = f"Engine direct writes in units of {binary_bytes_text(ALIGNMENT_BYTES)} and fails here: give another."
        return Finding("O_DIRECT", found, "warning", advice)
    found = "any alignment" if alignment == 1 else f"aligned to {binary_bytes_text(alignment)}"
    if num_cached_pages(probe / "direct", alignment_bytes=alignment):
        advice = "Direct writes stay in the page cache all the same: compare with runs larger than memory."
        return Finding("O_DIRECT", f"taken, {found}, but cached", "warning", advice)
    return Finding("O_DIRECT", f"works, {found}")


def sync_cost(probe: Path) -> Finding:
    """What fsync of a small file takes, which every file of a checkpoint pays once."""
    seconds = []
    with (probe / "synced").open("wb", buffering=0) as file:
        for _ in range(_NUM_SYNCS):
            file.write(bytes(_SMALL_BYTES))
            started = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    found = f"{_milliseconds(median)}, from {_milliseconds(min(seconds))} to {_milliseconds(max(seconds))}"
    if median > MOST_SYNC_SECONDS:
        return Finding("fsync", found, "warning", "Is the storage busy or broken? Every file waits that long.")
    return Finding("fsync", found)


def allocation(probe: Path) -> Finding:
    """Whether space can be taken before it is written, by fallocate(2)."""
    with (probe / "allocated").open("wb") as file:
        if allocate(file.fileno(), _ALLOCATED_BYTES):
            return Finding("fallocate", "works")
    advice = "A full disk shows only while writing, and parallel writes to a growing file may be slower."
    return Finding("fallocate", "not supported", "note", advice)


def open_files(*, num_ranks: int) -> Finding:
    """How many files a process may have open: the one through which ranks meet has connections to all of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = LEAST_OPEN_FILES + CONNECTIONS_PER_RANK * num_ranks
    found = f"{soft:,} at once, up to {hard:,} on request"
    if hard < needed:
        return Finding("open files", found, "warning", f"Let processes have {needed:,} (ulimit -Hn).")
    if soft < needed:
        return Finding("open files", found, "note", f"Under torchrun give its launcher more: ulimit -n {needed}.")
    return Finding("open files", found)


def clock(probe: Path) -> Finding:
    """The node's clock against the one that stamps the target's files."""
    before = time.time()
    stamp = _stamped(probe / "stamped")
    after = time.time()
    off = max(before - stamp, stamp - after, 0.0)
    found = f"{_milliseconds(off)} off the file system's"
    if off > MOST_CLOCK_SECONDS:
        advice = "Times in logs of nodes and storage will not match: is the time synchronised (NTP, chrony)?"
        return Finding("clock", found, "warning", advice)
    return Finding("clock", found)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _stamped(path: Path) -> float:
    """The time that the file system gives to a new file."""
    path.touch()
    return path.stat().st_mtime
