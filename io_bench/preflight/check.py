"""All checks of a target, one after another."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from io_bench.payload.workload import Size
from io_bench.preflight import directory_checks
from io_bench.preflight.check_options import CheckOptions
from io_bench.preflight.findings import Finding, advice, exit_code_of, findings_table, tried
from io_bench.preflight.probe import probe_in
from io_bench.target.address import checked_target
from io_bench.target.directory.directory_target import DirectoryTarget
from io_bench.terminal import Terminal
from sizing.units import bytes_text

if TYPE_CHECKING:
    from io_bench.target.object_store.url_target import UrlTarget


def checked(flags: Mapping[str, object], terminal: Terminal) -> int:
    """Show what is found from this node, and return the exit code. Raises InvalidInput, as for a run."""
    options = CheckOptions.of(flags)
    size = options.size()
    findings = findings_of(options.target, size)
    terminal.show(f"{options.target} seen from {socket.gethostname()}, for {_title(size)}:")
    terminal.show(findings_table(findings))
    for sentence in advice(findings):
        terminal.say(sentence)
    return exit_code_of(findings)


def findings_of(link: str, size: Size) -> list[Finding]:
    """What was found. Raises InvalidInput for a target that is none, or that cannot be written to."""
    target = checked_target(link, is_first=True)
    if isinstance(target, DirectoryTarget):
        return list(_of_directory(target, size))
    return list(_of_object_store(cast("UrlTarget", target), size))


def _title(size: Size) -> str:
    if size.total_bytes == size.num_writers * size.largest_bytes:
        return f"{size.num_writers:,} x {bytes_text(size.largest_bytes)}"
    largest = f"max {bytes_text(size.largest_bytes)}"
    return f"{bytes_text(size.total_bytes)} from {size.num_writers:,} ranks, {largest}"


def _of_directory(target: DirectoryTarget, size: Size) -> Iterator[Finding]:
    yield tried("file system", lambda: directory_checks.file_system(target))
    yield tried(
        "space", lambda: directory_checks.space(target, needed_bytes=size.total_bytes, num_files=size.num_writers)
    )
    with probe_in(target, names=directory_checks.PROBE_NAMES) as files:
        probe = Path(files.title)
        yield tried("permissions", lambda: directory_checks.permissions(probe))
        yield tried("largest file", lambda: directory_checks.largest_file(probe, num_bytes=size.largest_bytes))
        yield tried("O_DIRECT", lambda: directory_checks.direct_io(probe))
        yield tried("fallocate", lambda: directory_checks.allocation(probe))
        yield tried("fsync", lambda: directory_checks.sync_cost(probe))
        yield tried("clock", lambda: directory_checks.clock(probe))
    yield tried("open files", lambda: directory_checks.open_files(num_ranks=size.num_writers))


def _of_object_store(target: UrlTarget, size: Size) -> Iterator[Finding]:
    from io_bench.preflight import object_store_checks  # noqa: PLC0415 - fsspec, where it is needed

    part_bytes = target.transfer().part_bytes
    yield object_store_checks.endpoint(target)
    yield object_store_checks.space(size.total_bytes)
    with probe_in(target, names=object_store_checks.PROBE_NAMES) as files:
        yield tried("put and get", lambda: object_store_checks.put_and_get(files))
        yield tried("parts and ranges", lambda: object_store_checks.parts(files, part_bytes=part_bytes))
        yield tried("listing", lambda: object_store_checks.listing(files))
        yield tried("removal", lambda: object_store_checks.removal(files, part_bytes=part_bytes))
    yield tried("open files", lambda: directory_checks.open_files(num_ranks=size.num_writers))
