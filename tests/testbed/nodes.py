"""Machines made of namespaces: each has its own network, mounts, host name and process table."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.processes import SECONDS_TO_END, Unavailable, done, need, need_root

INTERFACE = "eth0"

_READY = "ready\n"
_FIRST_PROCESS = (
    'hostname "$1" && mount --bind "$2" /etc/hosts && ip link set lo up && echo ready && exec sleep infinity'
)


@dataclass(frozen=True, slots=True)
class Node:
    """A machine. `pid` is the first process of its process table, by the number that it has outside.

    Files are those of this machine, except for what is mounted on the node alone: `outside` finds that.
    """

    name: str
    address: str
    pid: int

    def command(
        self, *command: str | Path, directory: Path = Path("/"), environment: Mapping[str, str] | None = None
    ) -> list[str]:
        """The command line that runs `command` on the node. Signals reach it by its process group."""
        variables = {"GLOO_SOCKET_IFNAME": INTERFACE} | dict(environment or {})
        enter = ["nsenter", "--target", str(self.pid), "--net", "--mount", "--uts", "--pid", "--"]
        settings = [f"--chdir={directory}", *(f"{name}={value}" for name, value in variables.items())]
        return [*enter, "env", *settings, *map(str, command)]

    def done(self, *command: str | Path) -> str:
        """What a short command prints on the node. Raises RuntimeError where it fails."""
        return done(self.command(*command))

    def outside(self, path: Path) -> Path:
        """Where a file of the node is seen from outside."""
        return Path(f"/proc/{self.pid}/root") / path.relative_to("/")

    def in_network(self, *command: str) -> list[str]:
        """The command line that runs outside in all but the network, where process ids mean the same."""
        return ["nsenter", "--target", str(self.pid), "--net", "--", *command]


@contextmanager
def node(name: str, *, address: str, hosts: Path, hostname: str | None = None) -> Iterator[Node]:
    """One node, without a link to others. When the block or this process ends, all that runs on it ends.

    Args: `hosts`, the file that the node has as /etc/hosts; `hostname`, if other than `name`.
    Raises Unavailable where this machine has no such namespaces.
    """
    need_root()
    need("unshare", "nsenter", "setpriv", "ip", "tc")
    unshare = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    holder = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", *unshare, "sh", "-c", _FIRST_PROCESS, "sh", hostname or name, hosts],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield Node(name, address, _first_process(holder))
    finally:
        _end(holder)


def hosts_file(directory: Path, addresses: Mapping[str, str]) -> Path:
    """A file for /etc/hosts with the address of each name."""
    path = directory / "hosts"
    rows = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items())]
    path.write_text("\n".join(rows) + "\n")
    return path


def _first_process(holder: subprocess.Popen[str]) -> int:
    """The node's process 1, once it is up, by its number outside."""
    assert holder.stdout is not None
    said = holder.stdout.readline()
    if said != _READY:
        raise Unavailable(f"namespaces cannot be made here: {said}{holder.stdout.read()}".strip())
    return int(_child(holder.pid))


def _end(holder: subprocess.Popen[str]) -> None:
    """End a node. With its process 1 all its processes end, and the holder once they have."""
    assert holder.stdout is not None
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(_child(holder.pid)), signal.SIGKILL)
        holder.wait(SECONDS_TO_END)
    holder.kill()
    holder.wait()
    holder.stdout.close()


def _child(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()
