"""What the kernel counts beside the agent: bytes by process, disk and network, and CPU time."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sizing.storage.measurement import Operation

Counter = Literal["process", "disk", "network"]
"""`process`: /proc/self/io, what this process caused to be moved to or from storage. `disk`: /proc/diskstats, the
device that holds the target. `network`: all adapters, InfiniBand too. The last two are a node's."""

_SECTOR_BYTES = 512
"""The unit of /proc/diskstats, whatever the drive: kernel, Documentation/admin-guide/iostats.rst."""
# InfiniBand counts words of four bytes: linux, Documentation/ABI/stable/sysfs-class-infiniband.
_INFINIBAND_WORD_BYTES = 4
# linux, include/uapi/linux/if_arp.h
_ARPHRD_INFINIBAND = 32
_SYS_CLASS = Path("/sys/class")
_KEYS: Mapping[Operation, str] = {"write": "write_bytes", "restore": "read_bytes"}


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters at one moment; a counter that this system does not have is absent."""

    cpu_seconds: float
    num_bytes: Mapping[str, int]

    def since(self, earlier: Reading) -> Reading:
        """What was counted in between."""
        counted = {name: count - earlier.num_bytes[name] for name, count in self.num_bytes.items()}
        return Reading(self.cpu_seconds - earlier.cpu_seconds, counted)


def reading(operation: Operation, target: Path | None, *, is_first_of_node: bool) -> Reading:
    """The counters of this process and, for the first rank of a node, of the node."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found: dict[Counter, int | None] = {"process": _process_bytes(operation)}
    if is_first_of_node:
        found |= {"disk": _disk_bytes(operation, target), "network": _network_bytes(operation)}
    return Reading(usage.ru_utime + usage.ru_stime, {name: count for name, count in found.items() if count is not None})


def _process_bytes(operation: Operation) -> int | None:
    try:
        rows = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    except OSError:
        return None
    return int(rows[_KEYS[operation]])


def _disk_bytes(operation: Operation, target: Path | None) -> int | None:
    """Of the block device with the target's file system; None where it has none, as in memory or on a network.

    Source: linux, Documentation/admin-guide/iostats.rst: fields 3 and 7 count sectors read and written.
    """
    if target is None:
        return None
    try:
        device = target.stat().st_dev
        rows = [line.split() for line in Path("/proc/diskstats").read_text().splitlines()]
    except OSError:
        return None
    column = 9 if operation == "write" else 5
    wanted = [str(os.major(device)), str(os.minor(device))]
    return next((int(row[column]) * _SECTOR_BYTES for row in rows if row[:2] == wanted), None)


def _network_bytes(operation: Operation) -> int:
    is_sent, ports = operation == "write", _ports()
    of_interfaces = [
        _number(interface / "statistics" / ("tx_bytes" if is_sent else "rx_bytes"))
        for interface in _interfaces()
        if not (ports and _number(interface / "type") == _ARPHRD_INFINIBAND)
    ]
    of_ports = [_number(port / ("port_xmit_data" if is_sent else "port_rcv_data")) for port in ports]
    return sum(of_interfaces) + _INFINIBAND_WORD_BYTES * sum(of_ports)


def _ports() -> list[Path]:
    """Counters of InfiniBand and RoCE ports: of what passes the kernel by, and of IP over InfiniBand."""
    return list((_SYS_CLASS / "infiniband").glob("*/ports/*/counters"))


def _interfaces() -> list[Path]:
    """The network interfaces that count each byte once.

    What stands on others (bonds, VLANs, bridges) has no device of its own, and its bytes are theirs. In a container all
    interfaces are of that kind, and count.
    """
    found = [each for each in (_SYS_CLASS / "net").glob("*") if each.name != "lo"]
    return [each for each in found if (each / "device").exists()] or found


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
