"""How much memory this process may still take: of the host, and of its control group."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from io_bench.host.control_groups import groups_of


def available_bytes() -> int:
    """Bytes that can be allocated without swapping: MemAvailable, or less where a control group limits it."""
    host = int(psutil.virtual_memory().available)
    return min([host, *(limit - used for limit, used in _limits())])


def cgroup_limit_bytes() -> int | None:
    """The tightest memory limit of this process's control groups; None where there is none."""
    return min((limit for limit, _ in _limits()), default=None)


def _limits() -> Iterator[tuple[int, int]]:
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
