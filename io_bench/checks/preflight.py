"""`ckpt-bench check`: whether a target is fit for a run, found out by trying, with nothing left behind."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rich import box
from rich.table import Table
from rich.text import Text

from io_bench.checks import preflight_checks as checks
from io_bench.checks.job_checks import TrainingJob, check_job, job_of_files
from io_bench.checks.preflight_checks import CheckResult, Severity, probe_in, try_check
from io_bench.errors import EXIT_FAILED
from io_bench.options import DEFAULT_BYTES_PER_RANK, CheckOptions
from io_bench.payload.workload import Size, workload_of
from io_bench.ranks.placement import placement_in
from io_bench.request import scenario_document
from io_bench.target.address import checked_target, spread_paths
from io_bench.target.direct_io import max_aligned_bytes
from io_bench.target.directory import DirectoryTarget
from io_bench.target.spread import each_once
from io_bench.terminal import Terminal
from sizing.errors import EXIT_BAD_INPUT, InvalidInput
from sizing.scenario import scenario_from
from sizing.units import bytes_text, parse_bytes

if TYPE_CHECKING:
    from io_bench.target.object_store.url_target import UrlTarget

_EXIT_CODES: dict[Severity, int] = {"fine": 0, "note": 0, "warning": EXIT_FAILED, "problem": EXIT_BAD_INPUT}
_STYLES: dict[Severity, str] = {"fine": "green", "note": "cyan", "warning": "yellow", "problem": "red"}
_WORDS: dict[Severity, str] = {"problem": "error", "warning": "warning", "note": "note"}


def check_target(flags: Mapping[str, object], terminal: Terminal) -> int:
    """Check targets from this node and show the results; return the exit code. Raises InvalidInput, as for a run."""
    options = CheckOptions.of(flags)
    num_ranks = placement_in(os.environ).num_ranks if options.num_ranks is None else options.num_ranks
    job = _find_job(options)
    scenario = None if options.scenario is None else scenario_from(scenario_document(options.scenario))
    if job is not None:
        scenario, num_ranks = job.scenario, job.scenario.parallelism.num_gpus
    bytes_per_rank = options.bytes_per_rank or parse_bytes(DEFAULT_BYTES_PER_RANK)
    workload = workload_of(scenario, scale=options.scale, bytes_per_rank=bytes_per_rank)
    size = workload.size(num_ranks)
    needed_bytes = size.total_bytes
    if job is None:  # the files of a run with the default engine
        num_tensors = workload.count_tensors(num_ranks)
        needed_bytes = max_aligned_bytes(needed_bytes, num_tensors=num_tensors, num_files=size.num_writers)
    paths = spread_paths(options.target)
    targets = [checked_target(path if len(paths) > 1 else options.target, is_first=True) for path in paths]
    # Mounts of one file system hold all of the checkpoint together, others what the ranks spread to them.
    disks = [each.path.stat().st_dev if isinstance(each, DirectoryTarget) else each.title for each in targets]
    exit_code = 0
    for path, target, disk in zip(paths, each_once(targets, "place"), disks, strict=True):
        here_bytes = -(-needed_bytes * disks.count(disk) // len(disks))
        if isinstance(target, DirectoryTarget):
            results = list(_check_directory(target, size, job, needed_bytes=here_bytes))
        else:
            results = list(_check_object_store(cast("UrlTarget", target), size, needed_bytes=here_bytes))
        terminal.show(f"{path} seen from {socket.gethostname()}, for {_size_text(size)}:")
        terminal.show(_results_table(results))
        where = f"{path}: " if len(paths) > 1 else ""
        for severity, word in _WORDS.items():
            for result in results:
                if result.severity == severity:
                    terminal.say(f"{word}: {where}{result.subject}: {result.advice}")
        exit_code = max(exit_code, exit_code_of(results))
    return exit_code


def exit_code_of(results: Iterable[CheckResult]) -> int:
    """Exit code of checks: 2 where the run is impossible, 1 where it is endangered, else 0.

    >>> exit_code_of([CheckResult("clock", "0 s off"), CheckResult("fallocate", "refused", "note", "Mind it.")])
    0
    """
    return max((_EXIT_CODES[result.severity] for result in results), default=0)


def _size_text(size: Size) -> str:
    if size.total_bytes == size.num_writers * size.largest_bytes:
        return f"{size.num_writers:,} x {bytes_text(size.largest_bytes)}"
    largest = f"max {bytes_text(size.largest_bytes)}"
    return f"{bytes_text(size.total_bytes)} from {size.num_writers:,} ranks, {largest}"


def _results_table(results: Sequence[CheckResult]) -> Table:
    """Table of the checks, one row for each."""
    table = Table("checked", "found", "verdict", box=box.SIMPLE_HEAD)
    for result in results:
        table.add_row(result.subject, result.answer, Text(result.severity, _STYLES[result.severity]))
    return table


def _find_job(options: CheckOptions) -> TrainingJob | None:
    """Answer the config files of the training that is to save here; None without any."""
    if not options.config_files:
        return None
    if options.scenario is not None:
        rule = "must not be combined with --scenario"
        raise InvalidInput.of("--from", rule, value=options.config_files[0], remedy="keep one")
    return job_of_files(options.config_files, num_gpus=options.num_gpus)


def _check_directory(
    target: DirectoryTarget, size: Size, job: TrainingJob | None, *, needed_bytes: int
) -> Iterator[CheckResult]:
    num_files = size.num_writers
    yield try_check("file system", lambda: checks.check_file_system(target))
    yield try_check("space", lambda: checks.check_space(target, needed_bytes=needed_bytes, num_files=num_files))
    with probe_in(target, names=checks.DIRECTORY_PROBE_NAMES) as files:
        probe = Path(files.title)
        yield try_check("permissions", lambda: checks.check_permissions(probe))
        yield try_check("largest file", lambda: checks.check_largest_file(probe, num_bytes=size.largest_bytes))
        yield try_check("O_DIRECT", lambda: checks.check_direct_io(probe))
        yield try_check("fallocate", lambda: checks.check_allocation(probe))
        yield try_check("fsync", lambda: checks.time_fsync(probe))
        yield try_check("clock", lambda: checks.compare_clocks(probe))
        if job is not None:
            yield from check_job(job, target, probe)
    yield try_check("open files", lambda: checks.check_open_files(num_ranks=size.num_writers))


def _check_object_store(target: UrlTarget, size: Size, *, needed_bytes: int) -> Iterator[CheckResult]:
    part_bytes = target.transfer().part_bytes
    yield checks.name_endpoint(target)
    yield checks.state_needed_space(needed_bytes)
    with probe_in(target, names=checks.STORE_PROBE_NAMES) as files:
        yield try_check("put and get", lambda: checks.time_put_and_get(files))
        yield try_check("parts and ranges", lambda: checks.check_parts(files, part_bytes=part_bytes))
        yield try_check("listing", lambda: checks.check_listing(files))
        yield try_check("removal", lambda: checks.check_removal(files, part_bytes=part_bytes))
    yield try_check("open files", lambda: checks.check_open_files(num_ranks=size.num_writers))
