"""Where a result was measured: versions, hosts, hardware, the target's mount. No secrets: no environ."""

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
from io_bench.host import cpus, memory
from io_bench.payload.device import Device
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.directory import page_cache
from io_bench.target.target import Target

_LIBRARIES = ("torch", "numpy", "safetensors", "fsspec", "s3fs")


def environment_of(group: ProcessGroup, device: Device, target: Target) -> dict[str, Any]:
    """On rank 0 versions, each node's description by its name, and the node of each rank. All ranks describe theirs."""
    rows = group.gathered(_node(device, target), doing="describing the nodes")
    rows_of: dict[str, list[dict[str, Any]]] = {}
    for placement, row in zip(group.placements if rows else (), rows, strict=True):
        rows_of.setdefault(placement.node, []).append(row)
    return {
        "versions": _versions(),
        "target": target.title,
        "page_cache_probe": page_cache.probe_name(),
        "nodes": {node: _together(of_node) for node, of_node in rows_of.items()},
        "rank_nodes": [placement.node for placement in group.placements],
    }


def _together(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A node as its ranks describe it: what differs between them is its CPUs and its devices."""
    shared = {key: value for key, value in rows[0].items() if key not in ("cpus", "device")}
    cpus = {cpu for row in rows for cpu in row["cpus"]}
    return shared | {"num_cpus": len(cpus), "devices": [row["device"] for row in rows]}


def _node(device: Device, target: Target) -> dict[str, Any]:
    """A node as one of its ranks sees it: a batch system often gives each rank CPUs of its own."""
    return {
        "host": platform.node(),
        "kernel": platform.release(),
        "cpu_model": _cpu_model(),
        "cpus": cpus.allowed_cpus(),
        "cgroup_cpu_limit": cpus.cgroup_limit(),
        "memory_bytes": psutil.virtual_memory().total,
        "cgroup_memory_limit_bytes": memory.cgroup_limit_bytes(),
        "mount": target.description(),
        "torch_num_threads": torch.get_num_threads(),
        "nics": _nics(),
        "infiniband_ports": infiniband_ports(),
        "device": device.title,
    }


def _nics() -> dict[str, dict[str, int]]:
    """Network interfaces that are up, but the loopback; a speed of 0 is one that the driver does not say."""
    return {
        name: {"bits_per_second": stats.speed * 10**6, "mtu_bytes": stats.mtu}
        for name, stats in psutil.net_if_stats().items()
        if stats.isup and name != "lo"
    }


def infiniband_ports(devices: Path = Path("/sys/class/infiniband")) -> dict[str, dict[str, str]]:
    """The active ports of InfiniBand and RoCE adapters, as the driver says, e.g. {"rate": "400 Gb/sec (4X NDR)"}.

    Source: linux, Documentation/ABI/stable/sysfs-class-infiniband.
    """
    ports = [port for port in sorted(devices.glob("*/ports/*")) if "ACTIVE" in _text(port / "state")]
    return {
        f"{port.parts[-3]}/{port.name}": {name: _text(port / name) for name in ("rate", "link_layer")} for port in ports
    }


def _text(path: Path) -> str:
    """A line of the kernel's; empty where it does not let us read it."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _versions() -> dict[str, str]:
    """Of what moves the bytes, where it is installed."""
    versions = {"checkpoint-sizing": sizing.__version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
