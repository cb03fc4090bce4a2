"""The machine under this process: what affinity, control groups and the scheduler grant of its CPUs and memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil

_MEMBERSHIPS = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """A control group by its directory; `is_unified` where it is of version 2, whose files have other names."""

    path: Path
    is_unified: bool

    def words(self, file: str) -> list[str]:
        """The words of a control file; none where the file is not there."""
        try:
            return (self.path / file).read_text().split()
        except OSError:
            return []

    def number(self, file: str) -> int | None:
        """The number in a control file; None for "max", and where the file is not there."""
        words = self.words(file)
        return int(words[0]) if words and words[0].isdecimal() else None

    def statistic(self, file: str, key: str) -> int:
        """The number beside a key in a control file of pairs; 0 where it is not there."""
        words = self.words(file)
        return next((int(value) for name, value in zip(words[::2], words[1::2], strict=True) if name == key), 0)


def groups_of(controller: str) -> Iterator[ControlGroup]:
    """The groups that govern this process by one controller, e.g. "memory": its own, and those above it."""
    for line in _MEMBERSHIPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        is_unified = not controllers
        if is_unified or controller in controllers.split(","):
            root = _ROOT if is_unified else _ROOT / controller
            group = root / path.lstrip("/")
            for ancestor in [group, *group.parents]:
                if ancestor.is_relative_to(root):
                    yield ControlGroup(ancestor, is_unified)


_MICROSECOND = 1e-6
"""The unit of periods and quotas in both versions of control groups."""


def allowed_cpus() -> list[int]:
    """The numbers of the CPUs that this process may run on: under a batch system often a share of the node's."""
    return sorted(os.sched_getaffinity(0))


def cgroup_cpu_limit() -> float | None:
    """The tightest limit of CPU time over time of this process's control groups, in CPUs; None where there is none.

    Source: linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
    """
    return min((quota / period for _, quota, period in _cpu_limits()), default=None)


def throttled_seconds() -> dict[str, float]:
    """Time of the periods, so far, in which a control group of this process used up what it was granted, by group.

    Only groups with a limit are there. The kernel also sums the time for which each CPU's threads were held back
    (`throttled_usec`, in version 1 `throttled_time`): over all CPUs, so that it says nothing of the time that passed.
    Source: as `cgroup_cpu_limit`; `nr_throttled` of cpu.stat counts periods in both versions.
    """
    return {
        str(group.path): group.statistic("cpu.stat", "nr_throttled") * period * _MICROSECOND
        for group, _, period in _cpu_limits()
    }


def _cpu_limits() -> Iterator[tuple[ControlGroup, int, int]]:
    """Each group that has a limit, with its microseconds of CPU time per period, and of the period."""
    for group in groups_of("cpu"):
        if group.is_unified:
            quota, period = (group.words("cpu.max") or ["max", "1"])[:2]
        else:
            quota, period = ((group.words(f"cpu.cfs_{name}_us") or ["-1"])[0] for name in ("quota", "period"))
        if quota.isdecimal():
            yield group, int(quota), int(period)


def available_bytes() -> int:
    """Bytes that can be allocated without swapping: MemAvailable, or less where a control group limits it."""
    host = int(psutil.virtual_memory().available)
    return min([host, *(limit - used for limit, used in _memory_limits())])


def cgroup_memory_limit_bytes() -> int | None:
    """The tightest memory limit of this process's control groups; None where there is none."""
    return min((limit for limit, _ in _memory_limits()), default=None)


def _memory_limits() -> Iterator[tuple[int, int]]:
    """Limit and use, without pages that the kernel can take back, of each group that has a limit."""
    for group in groups_of("memory"):
        if group.is_unified:
            limit_file, usage_file, cache_key = "memory.max", "memory.current", "inactive_file"
        else:
            limit_file, usage_file, cache_key = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        limit = group.number(limit_file)
        # Version 1 says "no limit" with a number larger than any host.
        if limit is not None and limit < psutil.virtual_memory().total:
            yield limit, (group.number(usage_file) or 0) - group.statistic("memory.stat", cache_key)


_GPUS = Path("/proc/driver/nvidia/gpus")
_PCI_DEVICES = Path("/sys/bus/pci/devices")


def bind_near(gpu: str) -> str:
    """Keep this process to those of its CPUs that are near a GPU; memory comes from where it runs then.

    Threads that are there already stay as they are. Gives the reason, in words, where nothing was changed.
    Args: `gpu`, its UUID with or without the prefix "GPU-"; empty for none.
    """
    if not gpu:
        return "this rank has no GPU"
    near = cpus_near(gpu)
    if not near:
        return "the kernel does not say which CPUs are near the GPU"
    mine = os.sched_getaffinity(0) & near
    if not mine:
        return "none of the CPUs that this rank may use is near its GPU"
    os.sched_setaffinity(0, mine)
    return ""


def cpus_near(gpu: str) -> set[int]:
    """The CPUs of the NUMA node of a GPU; none where it is not known.

    Source: the driver's /proc/driver/nvidia/gpus/ADDRESS/information, "GPU UUID: GPU-..."; linux,
    Documentation/PCI/sysfs-pci.rst, local_cpulist.
    """
    for information in _GPUS.glob("*/information"):
        rows = [line.partition(":") for line in _lines(information)]
        uuid = {name.strip(): value.strip() for name, _, value in rows}.get("GPU UUID", "")
        if uuid.removeprefix("GPU-") == gpu.removeprefix("GPU-"):
            return {
                cpu
                for line in _lines(_PCI_DEVICES / information.parent.name / "local_cpulist")
                for cpu in parse_cpu_list(line)
            }
    return set()


def parse_cpu_list(cpus: str) -> set[int]:
    """The CPUs of a list as the kernel prints them.

    Source: linux, Documentation/admin-guide/cputopology.rst, cpulist.

    >>> sorted(parse_cpu_list("0-2,8")), parse_cpu_list("")
    ([0, 1, 2, 8], set())
    """
    ranges = (part.partition("-") for part in cpus.strip().split(",") if part)
    return {cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1)}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


_TASKS = Path("/proc/self/task")
_NANOSECONDS = 1e9
_PAUSE_FRACTION = 0.1
"""Pause between two looks, as a fraction of the time so far: a thread that ends takes its counts along, a tenth of the
time at most."""
_MIN_PAUSE_SECONDS = 0.01
_MAX_PAUSE_SECONDS = 0.25
"""A look reads a line for each thread, some 10 us: with 20 threads less than a thousandth of one CPU."""
_MAX_THREADS = 64
"""Max threads that are watched. With more, as where many ranks are threads of one process, a look would cost what it is
to measure."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """Time of one thread: it ran, or was ready to run and had no CPU. Otherwise it waited for something else.

    Time for which a control group is throttled counts as time without a CPU.
    """

    running_seconds: float
    delay_seconds: float

    @property
    def ready_seconds(self) -> float:
        """Time in which the thread needed a CPU, with or without having one."""
        return self.running_seconds + self.delay_seconds

    def since(self, earlier: ThreadTime) -> ThreadTime:
        """Time that was added since an earlier look."""
        return ThreadTime(self.running_seconds - earlier.running_seconds, self.delay_seconds - earlier.delay_seconds)


class ThreadWatch:
    """Watches the threads of this process, those too that begin and end meanwhile; not its own, and not very many."""

    def __init__(self) -> None:
        # The folder of tasks has a link for each, and two more: linux, fs/proc/base.c, proc_task_getattr.
        self._is_on = _TASKS.stat().st_nlink - 2 <= _MAX_THREADS
        self._before = dict(_thread_times()) if self._is_on else {}
        self._now = dict(self._before)
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="thread-watch", daemon=True)

    @property
    def busiest(self) -> ThreadTime | None:
        """The thread that needed a CPU for most of the time; None where that is not counted."""
        none = ThreadTime(0.0, 0.0)
        times = [now.since(self._before.get(thread, none)) for thread, now in self._now.items()]
        return max(times, key=lambda each: each.ready_seconds, default=None)

    def __enter__(self) -> Self:
        if self._is_on:
            self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_on:
            self._ended.set()
            self._watcher.join()
            self._look()

    def _watch(self) -> None:
        started, pause = time.monotonic(), _MIN_PAUSE_SECONDS
        while not self._ended.wait(pause):
            self._look()
            elapsed = time.monotonic() - started
            pause = min(max(_PAUSE_FRACTION * elapsed, _MIN_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)

    def _look(self) -> None:
        self._now.update((thread, times) for thread, times in _thread_times() if thread != self._watcher.native_id)


def _thread_times() -> Iterator[tuple[int, ThreadTime]]:
    """Times of all threads of this process by their number; none where the kernel does not count.

    Source: linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat: nanoseconds on a CPU, nanoseconds on
    a run queue, and time slices.
    """
    for thread in _TASKS.iterdir():
        try:
            running, delay, _ = (thread / "schedstat").read_text().split()
        except OSError:  # it has ended, or the kernel has no such file
            continue
        yield int(thread.name), ThreadTime(int(running) / _NANOSECONDS, int(delay) / _NANOSECONDS)
