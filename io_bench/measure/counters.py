"""Counters of the kernel: bytes by process, disk and network, CPU time, and the time without it in control groups."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from io_bench.host import throttled_seconds
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
_Count = TypeVar("_Count", int, float)
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
        """Subtract an earlier reading."""
        return Reading(
            self.cpu_seconds - earlier.cpu_seconds,
            _subtract(self.num_bytes, earlier.num_bytes),
            _subtract(self.throttled_seconds, earlier.throttled_seconds),
            _subtract(self.link_seconds, earlier.link_seconds),
        )


def read_counters(operation: Operation, target: Path | None, *, is_first_of_node: bool) -> Reading:
    """Read the counters of this process and, for the first rank of a node, those of the node."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    num_bytes: dict[Counter, int | None] = {"process": _process_bytes(operation)}
    if is_first_of_node:
        num_bytes |= {"disk": _disk_bytes(operation, target), "network": _network_bytes(operation)}
    return Reading(
        usage.ru_utime + usage.ru_stime,
        {name: count for name, count in num_bytes.items() if count is not None},
        throttled_seconds(),
        dict(_link_seconds(operation)) if is_first_of_node else {},
    )


def _subtract(now: Mapping[str, _Count], earlier: Mapping[str, _Count]) -> dict[str, _Count]:
    """Subtract what was counted earlier, by name; a group, an adapter or a disk that came meanwhile is left out."""
    return {name: count - earlier[name] for name, count in now.items() if name in earlier}


def _process_bytes(operation: Operation) -> int | None:
    try:
        rows = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    except OSError:
        return None
    return int(rows[_KEYS[operation]])


def _disk_bytes(operation: Operation, target: Path | None) -> int | None:
    """Bytes of the block device below the target's file system; None where it has none, as in memory or on a network.

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
    numbers = [str(os.major(device)), str(os.minor(device))]
    return next((int(row[column]) * _SECTOR_BYTES for row in rows if row[:2] == numbers), None)


def _network_bytes(operation: Operation) -> int:
    ports = _ports()
    of_interfaces = [_interface_bytes(interface, operation) for interface in _counting_interfaces(ports)]
    return sum(of_interfaces) + sum(_port_bytes(port, operation) for port in ports)


def _link_seconds(operation: Operation) -> Iterator[tuple[str, float]]:
    """Seconds that the bytes of each adapter take at the rate of its link.

    An adapter counts where its driver says the rate; what is virtual has a rate that nobody keeps.
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
        match = re.match(r"([\d.]+) Gb/sec", (port.parent / "rate").read_text())
    except OSError:
        return 0.0
    return float(match[1]) * 10**9 / BITS_PER_BYTE if match else 0.0


def _counting_interfaces(ports: list[Path]) -> list[Path]:
    """List the network interfaces that count each byte once, and whose bytes no port counts already.

    Interfaces on others (bonds, VLANs, bridges) have no device of their own, and their bytes pass the others. In a
    container all interfaces are of that kind, and count.
    """
    interfaces = [each for each in (_SYS_CLASS / "net").glob("*") if each.name != "lo"]
    interfaces = [each for each in interfaces if (each / "device").exists()] or interfaces
    return [each for each in interfaces if not (ports and _number(each / "type") == _ARPHRD_INFINIBAND)]


def _ports() -> list[Path]:
    """Counters of InfiniBand and RoCE ports: of what passes the kernel by, and of IP over InfiniBand."""
    return list((_SYS_CLASS / "infiniband").glob("*/ports/*/counters"))


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return 0
