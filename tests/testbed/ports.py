"""Ports for servers that a test starts, but whose port their clients must know before."""

from __future__ import annotations

import atexit
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from io_bench.ranks.topology import MEETING_DESCRIPTOR

_FIRST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port(*, beside: int | None = None) -> int:
    """A port of loopback that nobody listens on, and that nobody takes while this process lives.

    Outgoing connections get theirs from another range: there one could be taken before the server is there, even by a
    client that, while it waits for the server, connects to itself. Other tests ask here too.
    Args: `beside`, by how much a second port is higher that the server takes as well.
    """
    end = int(_EPHEMERAL.read_text().split()[0])
    while True:
        port = _FIRST + secrets.randbelow(end - _FIRST - (beside or 0))
        if all(map(_is_free, ports := {port, port + (beside or 0)})) and all(map(_reserve, ports)):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return _binds(probe, ("127.0.0.1", port))


def _reserve(port: int) -> bool:
    """Hold a name in the kernel that goes with this process; False where another one holds it."""
    name = socket.socket(socket.AF_UNIX)
    if not _binds(name, f"\0port-of-a-test-{port}"):
        name.close()
        return False
    atexit.register(name.close)
    return True


def _binds(probe: socket.socket, address: tuple[str, int] | str) -> bool:
    try:
        probe.bind(address)
    except OSError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class MeetingPoint:
    """Where ranks meet that a test starts by hand: rank 0 inherits a socket that listens, so nobody takes its port."""

    listener: socket.socket

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the process of rank 0 inherits."""
        return (self.listener.fileno(),)

    def variables(self, rank: int, *, num_ranks: int) -> dict[str, str]:
        """What a launcher would tell a rank."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.listener.getsockname()[1])}
        handed = {MEETING_DESCRIPTOR: str(self.listener.fileno())} if rank == 0 else {}
        return place | {"RANK": str(rank), "WORLD_SIZE": str(num_ranks)} | handed


@contextmanager
def meeting_point() -> Iterator[MeetingPoint]:
    """A meeting point, for the time in which ranks are started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield MeetingPoint(listener)
