"""What the kernel counts beside the agent: bytes by process, disk and network; CPU time, and where it was refused."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from io_bench.host.cpus import throttled_seconds
from sizing.storage.measurement import Operation
from sizing.units import BITS_PER_BYTE

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
    """Counters at one moment; a counter that this system does not have is absent.

    `throttled_seconds` by control group is the time of the periods in which it had no CPU time left; `link_seconds` by
    network adapter is the time that its bytes take at the rate of its link.
    """

    cpu_seconds: float
    num_bytes: Mapping[str, int]
    throttled_seconds: Mapping[str, float] = field(default_factory=dict)
    link_seconds: Mapping[str, float] = field(default_factory=dict)

    def since(self, earlier: Reading) -> Reading:
        """What was counted in between."""
        counted = {name: count - earlier.num_bytes[name] for name, count in self.num_bytes.items()}
        return Reading(
            self.cpu_seconds - earlier.cpu_seconds,
            counted,
            _added(self.throttled_seconds, earlier.throttled_seconds),
            _added(self.link_seconds, earlier.link_seconds),
        )


def reading(operation: Operation, target: Path | None, *, is_first_of_node: bool) -> Reading:
    """The counters of this process and, for the first rank of a node, of the node."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found: dict[Counter, int | None] = {"process": _process_bytes(operation)}
    if is_first_of_node:
        found |= {"disk": _disk_bytes(operation, target), "network": _network_bytes(operation)}
    return Reading(
        usage.ru_utime + usage.ru_stime,
        {name: count for name, count in found.items() if count is not None},
        throttled_seconds(),
        dict(_link_seconds(operation)) if is_first_of_node else {},
    )


def _added(now: Mapping[str, float], earlier: Mapping[str, float]) -> dict[str, float]:
    """What is there of both moments: a group or an adapter that came meanwhile is left out."""
    return {name: seconds - earlier[name] for name, seconds in now.items() if name in earlier}


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
    ports = _ports()
    of_interfaces = [_interface_bytes(interface, operation) for interface in _counting_interfaces(ports)]
    return sum(of_interfaces) + sum(_port_bytes(port, operation) for port in ports)


def _link_seconds(operation: Operation) -> Iterator[tuple[str, float]]:
    """Of each adapter whose driver says the rate of its link; what is virtual has a rate that nobody keeps.

    Source: linux, Documentation/ABI/testing/sysfs-class-net: speed in Mbit/s, -1 where it is unknown; for ports
    Documentation/ABI/stable/sysfs-class-infiniband: rate, as in "400 Gb/sec (4X NDR)".
    """
    ports = _ports()
    for interface in _counting_interfaces(ports):
        rate = _number(interface / "speed") * 10**6 / BITS_PER_BYTE
        if rate > 0 and (interface / "device").exists():
            yield interface.name, _interface_bytes(interface, operation) / rate
    for port in ports:
        if rate := _port_bytes_per_second(port):
            yield f"{port.parts[-4]}/{port.parts[-2]}", _port_bytes(port, operation) / rate


def _interface_bytes(interface: Path, operation: Operation) -> int:
    return _number(interface / "statistics" / ("tx_bytes" if operation == "write" else "rx_bytes"))


def _port_bytes(port: Path, operation: Operation) -> int:
    words = _number(port / ("port_xmit_data" if operation == "write" else "port_rcv_data"))
    return _INFINIBAND_WORD_BYTES * words


def _port_bytes_per_second(port: Path) -> float:
    try:
        found = re.match(r"([\d.]+) Gb/sec", (port.parent / "rate").read_text())
    except OSError:
        return 0.0
    return float(found[1]) * 10**9 / BITS_PER_BYTE if found else 0.0


def _counting_interfaces(ports: list[Path]) -> list[Path]:
    """Those whose bytes no port counts already."""
    return [each for each in _interfaces() if not (ports and _number(each / "type") == _ARPHRD_INFINIBAND)]


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
