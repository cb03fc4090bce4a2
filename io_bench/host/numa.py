"""Which CPUs are near a GPU: on its NUMA node, whose memory a copy reaches without crossing between sockets."""

from __future__ import annotations

import os
from pathlib import Path

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
        found = {name.strip(): value.strip() for name, _, value in rows}.get("GPU UUID", "")
        if found.removeprefix("GPU-") == gpu.removeprefix("GPU-"):
            return {
                cpu for line in _lines(_PCI_DEVICES / information.parent.name / "local_cpulist") for cpu in listed(line)
            }
    return set()


def listed(cpus: str) -> set[int]:
    """The CPUs of a list as the kernel prints them.

    Source: linux, Documentation/admin-guide/cputopology.rst, cpulist.

    >>> sorted(listed("0-2,8")), listed("")
    ([0, 1, 2, 8], set())
    """
    ranges = (part.partition("-") for part in cpus.strip().split(",") if part)
    return {cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1)}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
