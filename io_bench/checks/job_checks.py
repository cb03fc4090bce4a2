"""Checks of this machine for a training that will save here: its memory, limits and storage against what it needs."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from io_bench.checks.preflight_checks import CheckResult, try_check
from io_bench.host import available_bytes, cgroup_memory_limit_bytes
from io_bench.target import page_cache
from io_bench.target.directory import DirectoryTarget
from sizing.errors import InvalidInput, Problem
from sizing.importers import ConfigText, ImportReport, ImportRequest, import_config_files
from sizing.report import SizingReport, find_layout
from sizing.scenario import Scenario
from sizing.terminal.files import read_text
from sizing.units import bytes_text, rate_text

TRIED_BYTES = 256 << 20
"""What is written and read to try the storage: seconds on a slow disk, and beyond the cache of most drives."""
_BLOCK_BYTES = 8 << 20
"""One write or read of a trial: large enough that calls cost nothing."""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, not written


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A training, what it needs, and what its config files leave open."""

    scenario: Scenario
    report: SizingReport
    imported: ImportReport

    @property
    def keeps_all(self) -> bool:
        """Whether the files keep every checkpoint of the run."""
        return any(each.field == "retention.keep_last" for each in self.imported.needed)


def job_of_files(paths: Sequence[str], *, num_gpus: int | None) -> TrainingJob:
    """Answer config files as `ckpt-size --from` does. Raises UnreadableFile and InvalidInput."""
    files = [ConfigText(name=Path(path).name, content=read_text(Path(path))) for path in paths]
    imported = import_config_files(ImportRequest(files=files, num_gpus=num_gpus, given=("storage",)))
    missing = [each for each in imported.needed if each.is_required]
    if missing:
        remedies = {"cluster.num_gpus": "add --gpus N"}
        otherwise = "give the model's config.json to --from too"
        raise InvalidInput(
            Problem(each.field, f"is missing, as {each.why}", "", remedies.get(each.field, otherwise))
            for each in missing
        )
    layout = find_layout(imported.scenario)
    return TrainingJob(layout.scenario, layout.answer(), imported)


def check_job(job: TrainingJob, target: DirectoryTarget, probe: Path) -> Iterator[CheckResult]:
    """Check what a training needs of this node and of the target, which is a directory."""
    yield check_capacity(job, target)
    yield check_host_memory(job.report.host_memory.needed_bytes, available_bytes(), cgroup_memory_limit_bytes())
    staged = job.report.host_memory.staged_bytes
    if staged:
        yield try_check("shared memory", lambda: check_shared_memory(staged))
        yield check_locked_memory(staged)
    yield try_check("write and read", lambda: check_speed(job, probe))


def check_capacity(job: TrainingJob, target: DirectoryTarget) -> CheckResult:
    """Compare free bytes with all checkpoints that the training keeps, and the one being written."""
    system = os.statvfs(target.path)
    free, capacity = system.f_bavail * system.f_frsize, job.report.capacity
    each = job.report.checkpoint.written_bytes
    answer = (
        f"{bytes_text(free)} free, {bytes_text(capacity.capacity_bytes)} needed for "
        f"{capacity.num_checkpoints:,} checkpoints, one being written"
    )
    if free < capacity.capacity_bytes:
        room = max(0, free // each - 1) if each else 0
        advice = f"The disk fills during the run. There is room to keep {room:,}: keep fewer, or free some."
        return CheckResult("room for the run", answer, "problem", advice)
    if job.keeps_all:
        advice = f"Nothing is deleted: the disk is full after {free // max(1, each):,} saves. Set how many are kept."
        return CheckResult("room for the run", answer, "warning", advice)
    return CheckResult("room for the run", answer)


def check_host_memory(needed_bytes: int, free_bytes: int, limit_bytes: int | None) -> CheckResult:
    """Compare the memory that a save takes on the fullest node with what this node has left."""
    limited = "" if limit_bytes is None else f" (control group: max {bytes_text(limit_bytes)})"
    answer = f"{bytes_text(free_bytes)} free{limited}, {bytes_text(needed_bytes)} needed by a save"
    if needed_bytes > free_bytes:
        advice = (
            "The kernel would end the training during a save. Raise the memory of the job, or gather and stage less."
        )
        return CheckResult("host memory", answer, "problem", advice)
    return CheckResult("host memory", answer)


def check_shared_memory(staged_bytes: int) -> CheckResult:
    """Compare /dev/shm with what asynchronous saves stage, which torch keeps there for its process that writes."""
    system = os.statvfs(_SHARED_MEMORY)
    free = system.f_bavail * system.f_frsize
    answer = f"{bytes_text(free)} free in {_SHARED_MEMORY}, up to {bytes_text(staged_bytes)} staged"
    if free < staged_bytes:
        advice = (
            "Staging in shared memory ends with a bus error. Raise it (docker: --shm-size; Kubernetes: an emptyDir)."
        )
        return CheckResult("shared memory", answer, "warning", advice)
    return CheckResult("shared memory", answer)


def check_locked_memory(staged_bytes: int) -> CheckResult:
    """Check whether memory for staging may be pinned."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit != resource.RLIM_INFINITY and limit < staged_bytes and os.geteuid() != 0:
        answer = f"limited to {bytes_text(limit)}, {bytes_text(staged_bytes)} staged"
        return CheckResult("locked memory", answer, "note", "RDMA and pinned staging may need ulimit -l unlimited.")
    return CheckResult("locked memory", "unlimited" if limit == resource.RLIM_INFINITY else bytes_text(limit))


def check_speed(job: TrainingJob, probe: Path) -> CheckResult:
    """Write and read a file from this one process, and compare with what a save must reach between two saves."""
    file, block = probe / "tried", os.urandom(_BLOCK_BYTES)
    system = os.statvfs(probe)
    num_blocks = min(TRIED_BYTES, system.f_bavail * system.f_frsize // 4) // _BLOCK_BYTES
    if not num_blocks:
        return CheckResult("write and read", "not tried: hardly any room", "note", "Free some room, and check again.")
    started = time.perf_counter()
    with file.open("w+b", buffering=0) as out:
        for _ in range(num_blocks):
            out.write(block)
        os.fsync(out.fileno())
        written = num_blocks * _BLOCK_BYTES / (time.perf_counter() - started)
        page_cache.drop(out.fileno())
    started = time.perf_counter()
    with file.open("rb", buffering=0) as back:
        while back.read(len(block)):
            pass
    read = num_blocks * _BLOCK_BYTES / (time.perf_counter() - started)
    file.unlink()
    node_bytes, interval = job.report.layout.max_node_bytes, job.report.interval.interval_seconds
    seconds = node_bytes / written
    answer = f"write {rate_text(written)}, read {rate_text(read)} by one process"
    if seconds > interval:
        advice = (
            f"At this rate the {bytes_text(node_bytes)} of this node take longer than the interval between two saves "
            f"({interval:,.0f} s). Measure with all ranks (ckpt-bench run), or save less often."
        )
        return CheckResult("write and read", answer, "warning", advice)
    return CheckResult("write and read", answer)
