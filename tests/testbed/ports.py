"""Ports for servers that a test starts, but whose port their clients must know before."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

_FIRST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """A port of loopback that nobody listens on, and that no outgoing connection takes meanwhile.

    From the range of outgoing connections one could be taken before the server is there: even by a client that, while
    it waits for the server, connects to itself.
    """
    end = int(_EPHEMERAL.read_text().split()[0])
    while True:
        port = _FIRST + secrets.randbelow(end - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
