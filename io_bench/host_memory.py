"""How much memory this process may still take: of the host, and of its control group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

_CGROUP_ROOT = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """Bytes that can be allocated without swapping: MemAvailable, or less where a control group limits it."""
    host = int(psutil.virtual_memory().available)
    return min([host, *(limit - used for limit, used in _limits())])


def cgroup_limit_bytes() -> int | None:
    """The tightest memory limit of this process's control groups; None where there is none."""
    return min((limit for limit, _ in _limits()), default=None)


def _limits() -> Iterator[tuple[int, int]]:
    """Limit and use, without pages that the kernel can take back, of each group that has a limit."""
    for group, limit_file, usage_file, cache_key in _groups():
        limit = _number(group / limit_file)
        # Version 1 says "no limit" with a number larger than any host.
        if limit is not None and limit < psutil.virtual_memory().total:
            yield limit, (_number(group / usage_file) or 0) - _statistic(group / "memory.stat", cache_key)


def _groups() -> Iterator[tuple[Path, str, str, str]]:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = _CGROUP_ROOT, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = _CGROUP_ROOT / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = root / path.lstrip("/")
        for ancestor in [group, *group.parents]:
            if ancestor.is_relative_to(root):
                yield ancestor, *names


def _number(path: Path) -> int | None:
    """The number in a control file; None for "max", and where the file is not there."""
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _statistic(path: Path, key: str) -> int:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return 0
    return next((int(value) for name, value in rows if name == key), 0)
