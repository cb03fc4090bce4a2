"""Environment of a measurement: versions, hosts, hardware, the target's mount; no variables, which may be secret."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import torch

import sizing
from io_bench import host
from io_bench.payload.device import Device
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target import page_cache
from io_bench.target.target import Target

_LIBRARIES = ("torch", "numpy", "safetensors", "fsspec", "s3fs", "gcsfs", "adlfs")
"""Libraries that move the bytes; the versions of those that are installed stand in a result."""


def environment_of(group: ProcessGroup, device: Device, target: Target) -> dict[str, Any]:
    """Describe versions, nodes and the node of each rank, on rank 0. All ranks describe their own."""
    rows = group.gather(_describe_node(device, target), doing="describing the nodes")
    rows_of_node: dict[str, list[dict[str, Any]]] = {}
    for placement, row in zip(group.placements if rows else (), rows, strict=True):
        rows_of_node.setdefault(placement.node, []).append(row)
    versions = {"checkpoint-sizing": sizing.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "versions": versions,
        "target": target.title,
        "page_cache_probe": page_cache.probe_name(),
        "nodes": {node: _merge_rows(rows) for node, rows in rows_of_node.items()},
        "rank_nodes": [placement.node for placement in group.placements],
    }


def _merge_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the descriptions of a node by its ranks: they differ in CPUs and devices."""
    shared = {key: value for key, value in rows[0].items() if key not in ("cpus", "device")}
    cpus = {cpu for row in rows for cpu in row["cpus"]}
    return shared | {"num_cpus": len(cpus), "devices": [row["device"] for row in rows]}


def _describe_node(device: Device, target: Target) -> dict[str, Any]:
    """Describe a node as one of its ranks sees it: a batch system often gives each rank CPUs of its own."""
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu_model": _cpu_model(),
        "cpus": host.allowed_cpus(),
        "cgroup_cpu_limit": host.cgroup_cpu_limit(),
        "memory_bytes": psutil.virtual_memory().total,
        "cgroup_memory_limit_bytes": host.cgroup_memory_limit_bytes(),
        "mount": target.description(),
        "torch_num_threads": torch.get_num_threads(),
        "nics": {  # those that are up; a speed of 0 is one that the driver does not say
            name: {"bits_per_second": stats.speed * 10**6, "mtu_bytes": stats.mtu}
            for name, stats in psutil.net_if_stats().items()
            if stats.isup and name != "lo"
        },
        "infiniband_ports": infiniband_ports(),
        "device": device.title,
    }


def infiniband_ports(devices: Path = Path("/sys/class/infiniband")) -> dict[str, dict[str, str]]:
    """List the active ports of InfiniBand and RoCE adapters, as the driver says, e.g. {"rate": "400 Gb/sec (4X NDR)"}.

    Source: linux, Documentation/ABI/stable/sysfs-class-infiniband.
    """
    ports = [port for port in sorted(devices.glob("*/ports/*")) if "ACTIVE" in _text(port / "state")]
    return {
        f"{port.parts[-3]}/{port.name}": {name: _text(port / name) for name in ("rate", "link_layer")} for port in ports
    }


def _text(path: Path) -> str:
    """Read a line of the kernel's; empty where it does not let us read it."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
