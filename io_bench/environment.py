"""Where a result was measured: versions, hosts, hardware, the target's mount. No secrets: no environ."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

import sizing
from io_bench import host_memory, page_cache
from io_bench.device import Device
from io_bench.process_group import ProcessGroup


def environment_of(group: ProcessGroup, device: Device, target: Path) -> dict[str, Any]:
    """Versions, each node's description by its name, and the node of each rank. Exchanges with all ranks."""
    rows = group.exchange(_node(device, target), doing="describing the nodes")
    nodes: dict[str, Any] = {}
    for placement, row in zip(group.placements, rows, strict=True):
        device_name = row.pop("device")
        nodes.setdefault(placement.node, row | {"devices": []})["devices"].append(device_name)
    return {
        "versions": {
            "checkpoint-sizing": sizing.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "target": str(target),
        "page_cache_probe": page_cache.probe_name(),
        "nodes": nodes,
        "rank_nodes": [placement.node for placement in group.placements],
    }


def _node(device: Device, target: Path) -> dict[str, Any]:
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu_model": _cpu_model(),
        "num_cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "cgroup_memory_limit_bytes": host_memory.cgroup_limit_bytes(),
        "mount": mount_of(target),
        "torch_num_threads": torch.get_num_threads(),
        "device": device.title,
    }


def mount_of(path: Path) -> dict[str, str]:
    """The mount that holds a path: device, file system type, options and mount point."""
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    return _last_and_longest(mounts)


def _last_and_longest(mounts: Sequence[Any]) -> dict[str, str]:
    """Of mounts one over another, the one on top."""
    if not mounts:
        return {}
    length = max(len(mount.mountpoint) for mount in mounts)
    mount = [mount for mount in mounts if len(mount.mountpoint) == length][-1]
    return {"device": mount.device, "type": mount.fstype, "options": mount.opts, "path": mount.mountpoint}


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
