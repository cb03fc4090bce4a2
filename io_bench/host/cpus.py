"""How many CPUs the ranks of a node have: those that they may run on, and what a control group grants of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from io_bench.host.control_groups import groups_of


def allowed_cpus() -> list[int]:
    """The numbers of the CPUs that this process may run on: under a batch system often a share of the node's."""
    return sorted(os.sched_getaffinity(0))


def cgroup_limit() -> float | None:
    """The tightest limit of CPU time over time of this process's control groups, in CPUs; None where there is none.

    Source: linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
    """
    return min(_limits(), default=None)


def _limits() -> Iterator[float]:
    for group in groups_of("cpu"):
        if group.is_unified:
            quota, period = (group.words("cpu.max") or ["max", "1"])[:2]
        else:
            quota, period = ((group.words(f"cpu.cfs_{name}_us") or ["-1"])[0] for name in ("quota", "period"))
        if quota.isdecimal():
            yield int(quota) / int(period)
