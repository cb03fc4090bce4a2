"""A share of a CPU for processes, by a control group of either version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.processes import Unavailable, need_root, until

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 100_000
"""The kernel's default."""
_MAX_SHARES, _MAX_WEIGHT = 262_144, 10_000
"""The kernel's limits in version 1 and 2: what the group may have it gets at once, however busy the machine."""


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """A control group whose processes together have a share of a CPU."""

    group: Path

    def command(self, *command: str | Path) -> list[str]:
        """The command line that runs `command`, and all that it starts, with that share."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.group / "cgroup.procs"), *map(str, command)]


@contextmanager
def cpu_quota(num_cpus: float) -> Iterator[CpuQuota]:
    """A group that grants so many CPUs, or a part of one. Raises Unavailable where this machine has no such groups."""
    need_root()
    quota = round(num_cpus * _PERIOD_MICROSECONDS)
    settings: dict[str, int | str]
    controllers = _ROOT / "cgroup.controllers"
    if (_ROOT / "cpu" / "cpu.cfs_quota_us").exists():
        parent = _ROOT / "cpu"
        settings = {
            "cpu.cfs_period_us": _PERIOD_MICROSECONDS,
            "cpu.cfs_quota_us": quota,
            "cpu.shares": _MAX_SHARES,
        }
    elif controllers.exists() and "cpu" in controllers.read_text().split():
        (_ROOT / "cgroup.subtree_control").write_text("+cpu")
        parent, settings = _ROOT, {"cpu.max": f"{quota} {_PERIOD_MICROSECONDS}", "cpu.weight": _MAX_WEIGHT}
    else:
        raise Unavailable("the control group of CPU time is not there")
    group = parent / f"ckpt-bench-quota-{os.getpid()}"
    group.mkdir()
    try:
        for name, value in settings.items():
            (group / name).write_text(str(value))
        yield CpuQuota(group)
    finally:
        until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()
