"""Checks of `ckpt-bench check`: of directories, then of object stores, each with a result.

Each check tries one thing, most in a place of its own inside the target, and says what that means for a run.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import secrets
import statistics
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from io_bench import interruption
from io_bench.errors import RunFailed
from io_bench.ranks.bounded_store import CONNECTIONS_PER_RANK
from io_bench.target import page_cache
from io_bench.target.direct_io import ALIGNMENT_BYTES, allocate, is_refusal
from io_bench.target.directory import DirectoryTarget
from io_bench.target.places import Manifest
from io_bench.target.run_place import dismantle, make_place
from io_bench.target.target import RunFiles, Target
from sizing.errors import InvalidInput
from sizing.units import binary_bytes_text, bytes_text

if TYPE_CHECKING:
    from io_bench.target.object_store.url_target import UrlTarget

Severity = Literal["fine", "note", "warning", "problem"]
"""A note is information; a warning: the run or its figures are at risk; a problem: the run cannot start."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. `advice` is a sentence, empty where all is well."""

    subject: str
    answer: str
    severity: Severity = "fine"
    advice: str = ""


def try_check(subject: str, look: Callable[[], CheckResult]) -> CheckResult:
    """Run the check `look`. Where the operating system refuses it, the result is a problem."""
    interruption.heed()
    try:
        return look()
    except OSError as error:
        interruption.heed()
        reason = error.strerror or str(error)
        return CheckResult(subject, f"failed: {reason}", "problem", f"A run would fail for the same reason ({reason}).")


SMALL_BYTES = 4096
"""What is tried as a small file or object: a page."""


@contextmanager
def probe_in(target: Target, *, names: Collection[str]) -> Iterator[RunFiles]:
    """Make a place to try in, which is gone afterwards with the files called `names`.

    Raises InvalidInput where it cannot be made, RunFailed where it cannot be removed.
    """
    manifest = Manifest.of_this_process(f"check-{secrets.token_hex(4)}", files=names, is_kept=False)
    files = make_place(target, manifest)
    try:
        yield files
    finally:
        complaints = dismantle(files, names)
        files.close()
    if complaints:
        raise RunFailed(" ".join(complaints))


DIRECTORY_PROBE_NAMES = ("allocated", "created", "direct", "long", "renamed", "stamped", "synced", "tried")
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


def check_file_system(target: DirectoryTarget) -> CheckResult:
    """Check the type of the file system, and what that means for a measurement."""
    mount = target.description()
    kind, options = mount.get("type", "unknown"), mount.get("options", "").split(",")
    answer = f"{kind} on {mount.get('path', '?')}, from {mount.get('device', '?')}"
    if kind in _TYPES_IN_MEMORY:
        advice = "This file system is in memory: it is not storage. Choose another --target."
    elif kind == "overlay":
        advice = "This is the container's own layer. Mount the storage into the container and give that path."
    elif kind.startswith("nfs") and "soft" in options:
        advice = "A soft NFS mount loses writes when the server is slow. Mount it with the option hard."
    else:
        return CheckResult("file system", answer)
    return CheckResult("file system", answer, "warning", advice)


def check_space(target: DirectoryTarget, *, needed_bytes: int, num_files: int) -> CheckResult:
    """Compare free bytes and free file names with what one checkpoint takes."""
    system = os.statvfs(target.path)
    answer = f"{bytes_text(system.f_bavail * system.f_frsize)} free, {bytes_text(needed_bytes)} needed"
    try:
        target.check_space(needed_bytes)
    except InvalidInput as error:
        return CheckResult("space", answer, "problem", str(error))
    # Some file systems report no number of files at all.
    if system.f_files and system.f_favail < num_files:
        answer = f"room for {system.f_favail:,} more files, {num_files:,} needed"
        return CheckResult("space", answer, "problem", "Remove files, or use a file system with more inodes.")
    return CheckResult("space", answer)


def check_largest_file(probe: Path, *, num_bytes: int) -> CheckResult:
    """Check whether a file may be as long as a rank's, by the limits of the file system and of the process."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit != resource.RLIM_INFINITY and limit < num_bytes:
        answer = f"limited to {bytes_text(limit)}, {bytes_text(num_bytes)} needed"
        return CheckResult("largest file", answer, "problem", "Raise the limit: ulimit -f unlimited.")
    try:
        with (probe / "long").open("wb") as file:
            os.ftruncate(file.fileno(), num_bytes)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        advice = "The file system does not allow files of this size. Start more ranks and reduce --bytes-per-rank."
        return CheckResult("largest file", f"max below the {bytes_text(num_bytes)} of a rank", "problem", advice)
    return CheckResult("largest file", f"at least {bytes_text(num_bytes)}")


def check_permissions(probe: Path) -> CheckResult:
    """Try to create, rename and remove files, and to make names durable."""
    (probe / "created").write_bytes(b"")
    (probe / "created").rename(probe / "renamed")
    (probe / "renamed").unlink()
    fd = os.open(probe, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    return CheckResult("permissions", "files can be created, renamed and removed")


def check_direct_io(probe: Path) -> CheckResult:
    """Check whether O_DIRECT is accepted, with which alignment, and whether it bypasses the page cache."""
    if refuses_direct_io(probe / "direct"):
        advice = "The engine direct will use the page cache here."
        return CheckResult("O_DIRECT", "refused", "note", advice)
    alignment = smallest_alignment_bytes(probe / "direct")
    if alignment is None or alignment > ALIGNMENT_BYTES:
        needed = "" if alignment is None else f"needs {binary_bytes_text(alignment)} alignment"
        multiple = binary_bytes_text(ALIGNMENT_BYTES)
        advice = f"The engine direct aligns to {multiple} and fails here. Choose another --engine."
        return CheckResult("O_DIRECT", needed or "accepted, but every request fails", "warning", advice)
    kind = "any alignment" if alignment == 1 else f"aligned to {binary_bytes_text(alignment)}"
    if count_cached_pages(probe / "direct", alignment_bytes=alignment):
        advice = "Direct writes stay in the page cache. Compare with runs whose payload is larger than memory."
        return CheckResult("O_DIRECT", f"accepted, {kind}, but cached", "warning", advice)
    return CheckResult("O_DIRECT", f"works, {kind}")


def time_fsync(probe: Path) -> CheckResult:
    """Measure fsync of a small file, which every file of a checkpoint pays once."""
    seconds = []
    with (probe / "synced").open("wb", buffering=0) as file:
        for _ in range(_NUM_SYNCS):
            file.write(bytes(SMALL_BYTES))
            started = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds)
    answer = f"{_milliseconds(median)}, from {_milliseconds(min(seconds))} to {_milliseconds(max(seconds))}"
    if median > MAX_SYNC_SECONDS:
        advice = "Every file waits this long. Check whether the storage is busy or faulty."
        return CheckResult("fsync", answer, "warning", advice)
    return CheckResult("fsync", answer)


def check_allocation(probe: Path) -> CheckResult:
    """Check whether space can be taken before it is written, by fallocate(2)."""
    with (probe / "allocated").open("wb") as file:
        if allocate(file.fileno(), _ALLOCATED_BYTES):
            return CheckResult("fallocate", "works")
    advice = "A full disk is found only during writing, and parallel writes to one file may be slower."
    return CheckResult("fallocate", "not supported", "note", advice)


def check_open_files(*, num_ranks: int) -> CheckResult:
    """Check how many files a process may have open: the one through which ranks meet has connections to all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = MIN_OPEN_FILES + CONNECTIONS_PER_RANK * num_ranks
    answer = f"soft limit {soft:,}, hard limit {hard:,}"
    if hard < needed:
        return CheckResult("open files", answer, "warning", f"Raise the hard limit to {needed:,} (ulimit -Hn).")
    if soft < needed:
        return CheckResult("open files", answer, "note", f"Before torchrun, raise the soft limit: ulimit -n {needed}.")
    return CheckResult("open files", answer)


def compare_clocks(probe: Path) -> CheckResult:
    """Compare the node's clock with the one that stamps the target's files."""
    before = time.time()
    (probe / "stamped").touch()
    stamp = (probe / "stamped").stat().st_mtime
    after = time.time()
    off = max(before - stamp, stamp - after, 0.0)
    answer = f"{_milliseconds(off)} from the file system's clock"
    if off > MAX_CLOCK_SECONDS:
        advice = "Times in the logs of nodes and storage will not match. Synchronise the clocks (NTP, chrony)."
        return CheckResult("clock", answer, "warning", advice)
    return CheckResult("clock", answer)


_ALIGNMENTS_BYTES = (1, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
"""Sectors of drives, pages, and blocks of file systems up to 64 KiB; 1 where O_DIRECT is ignored."""


def smallest_alignment_bytes(path: Path) -> int | None:
    """Find the min number of which memory address, file offset and length may be multiples; None without O_DIRECT.

    Each candidate is written, synced and read back: some file systems refuse it only in fsync.
    Raises OSError for what is no refusal.
    """
    return next((size for size in _ALIGNMENTS_BYTES if _accepts_alignment(path, size)), None)


def refuses_direct_io(path: Path) -> bool:
    """Whether a file cannot even be opened for direct I/O. Raises OSError for what is no refusal."""
    try:
        with _open_direct(path):
            return False
    except OSError as error:
        if not is_refusal(error):
            raise
        return True


def count_cached_pages(path: Path, *, alignment_bytes: int) -> int:
    """Count pages in memory after a direct write: 0 unless the file system writes through the page cache after all."""
    with mmap.mmap(-1, max(_ALIGNMENTS_BYTES)) as block, _open_direct(path) as fd:
        os.pwrite(fd, memoryview(block)[: max(alignment_bytes, mmap.PAGESIZE)], 0)
        os.fsync(fd)
        return page_cache.num_resident_pages(fd)


def _accepts_alignment(path: Path, size: int) -> bool:
    """Whether `size` bytes can be written and read at offset `size`, from and to memory that is `size` past a page."""
    try:
        with _open_direct(path) as fd, mmap.mmap(-1, 4 * max(_ALIGNMENTS_BYTES)) as memory:
            memory[size : 2 * size] = b"\xa5" * size
            with memoryview(memory) as view, view[size : 2 * size] as out, view[3 * size : 4 * size] as back:
                num_written = os.pwrite(fd, out, size)
                os.fsync(fd)
                return num_written == size and os.preadv(fd, [back], size) == size and back == out
    except OSError as error:
        if not is_refusal(error):
            raise
        return False


@contextmanager
def _open_direct(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


STORE_PROBE_NAMES = ("small", "large", "begun")


def name_endpoint(target: UrlTarget) -> CheckResult:
    """Name the endpoint to which requests go."""
    described = target.description()
    return CheckResult("store", f"{described['type']} at {described['endpoint'] or 'its default endpoint'}")


def state_needed_space(needed_bytes: int) -> CheckResult:
    """State the bytes that a checkpoint needs; object stores do not report what is free."""
    answer = f"unknown, {bytes_text(needed_bytes)} needed"
    return CheckResult(
        "space", answer, "note", "Object stores do not report free space. Ask the operator for the quota."
    )


def time_put_and_get(files: RunFiles) -> CheckResult:
    """Write a small object and read it back."""
    seconds = _time_round_trip(files, "small", bytes(SMALL_BYTES))
    return CheckResult("put and get", f"works, round trip {1e3 * seconds:.3g} ms")


def check_parts(files: RunFiles, *, part_bytes: int) -> CheckResult:
    """Write an object in two parts and read it back by ranges."""
    _time_round_trip(files, "large", bytes(range(256)) * (part_bytes // 256) + b"tail")
    return CheckResult("parts and ranges", f"work, in parts of {bytes_text(part_bytes)}")


def check_listing(files: RunFiles) -> CheckResult:
    """Check whether objects are listed once they are written."""
    missing = {"small", "large"} - set(files.names())
    if missing:
        advice = "`ckpt-bench clean` cannot find objects that are not listed."
        return CheckResult("listing", f"lacks {' and '.join(sorted(missing))}", "warning", advice)
    return CheckResult("listing", "lists the new objects")


def check_removal(files: RunFiles, *, part_bytes: int) -> CheckResult:
    """Remove objects, and abort an upload."""
    files.create("begun").write(bytes(part_bytes + 1))
    files.remove_created()
    leftover = set(STORE_PROBE_NAMES) & set(files.names())
    if leftover:
        advice = (
            "Runs will leave objects behind. Check the permission to delete, and versioning or locks of the bucket."
        )
        return CheckResult("removal", f"leaves {', '.join(sorted(leftover))}", "warning", advice)
    return CheckResult("removal", "objects can be deleted and uploads aborted")


def _time_round_trip(files: RunFiles, name: str, data: bytes) -> float:
    """Time writing and reading an object. Raises OSError where it comes back with other bytes."""
    started = time.perf_counter()
    with files.create(name) as stream:
        stream.write(data)
    with files.open(name) as stream:
        is_same = stream.read() == data
    if not is_same:
        raise OSError(f"the data read from {files.location(name)} differs from the data written")
    return time.perf_counter() - started


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
