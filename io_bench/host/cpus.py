"""How many CPUs the ranks of a node have: those that they may run on, and what a control group grants of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from io_bench.host.control_groups import ControlGroup, groups_of

_MICROSECOND = 1e-6
"""The unit of periods and quotas in both versions of control groups."""


def allowed_cpus() -> list[int]:
    """The numbers of the CPUs that this process may run on: under a batch system often a share of the node's."""
    return sorted(os.sched_getaffinity(0))


def cgroup_limit() -> float | None:
    """The tightest limit of CPU time over time of this process's control groups, in CPUs; None where there is none.

    Source: linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
    """
    return min((quota / period for _, quota, period in _limits()), default=None)


def throttled_seconds() -> dict[str, float]:
    """Time of the periods, so far, in which a control group of this process used up what it was granted, by group.

    Only groups with a limit are there. The kernel also sums the time for which each CPU's threads were held back
    (`throttled_usec`, in version 1 `throttled_time`): over all CPUs, so that it says nothing of the time that passed.
    Source: as `cgroup_limit`; `nr_throttled` of cpu.stat counts periods in both versions.
    """
    return {
        str(group.path): group.statistic("cpu.stat", "nr_throttled") * period * _MICROSECOND
        for group, _, period in _limits()
    }


def _limits() -> Iterator[tuple[ControlGroup, int, int]]:
    """Each group that has a limit, with its microseconds of CPU time per period, and of the period."""
    for group in groups_of("cpu"):
        if group.is_unified:
            quota, period = (group.words("cpu.max") or ["max", "1"])[:2]
        else:
            quota, period = ((group.words(f"cpu.cfs_{name}_us") or ["-1"])[0] for name in ("quota", "period"))
        if quota.isdecimal():
            yield group, int(quota), int(period)
