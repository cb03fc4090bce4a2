"""GlusterFS, a real parallel file system, without its management daemon: bricks on one node, clients on others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.nodes import Node
from tests.testbed.processes import done, need, running

_PORTS = (24101, 24102)

_BRICK = """\
volume posix
  type storage/posix
  option directory {directory}
end-volume
volume locks
  type features/locks
  subvolumes posix
end-volume
volume brick
  type performance/io-threads
  subvolumes locks
end-volume
volume server
  type protocol/server
  option transport-type tcp
  option transport.socket.bind-address {address}
  option transport.socket.listen-port {port}
  option auth.addr.brick.allow {network}.*
  subvolumes brick
end-volume
"""
_CLIENT = """\
volume client{port}
  type protocol/client
  option transport-type tcp
  option remote-host {address}
  option remote-port {port}
  option remote-subvolume brick
end-volume
"""
_FILES = "volume files\n  type cluster/distribute\n  subvolumes {clients}\nend-volume\n"


@contextmanager
def glusterfs(directory: Path, *, server: Node, clients: Sequence[Node], mount_point: Path) -> Iterator[None]:
    """Two bricks on `server`, which each client has mounted at `mount_point`, an empty directory outside.

    Files are spread over the bricks by their names. The server's link bounds all clients together.
    Args: `directory`, on a file system with extended attributes, for bricks and logs.
    Raises Unavailable where GlusterFS is not installed, NotReady where it does not start.
    """
    need("glusterfsd", "glusterfs")
    with contextlib.ExitStack() as stack:
        for port in _PORTS:
            stack.enter_context(_brick(directory, server, port))
        volume = directory / "client.vol"
        parts = [_CLIENT.format(address=server.address, port=port) for port in _PORTS]
        names = " ".join(f"client{port}" for port in _PORTS)
        volume.write_text("".join(parts) + _FILES.format(clients=names))
        for client in clients:
            stack.enter_context(_mounted(directory, client, volume, mount_point))
        yield


@contextmanager
def _brick(directory: Path, server: Node, port: int) -> Iterator[None]:
    brick, volume, log = (directory / f"brick{port}{suffix}" for suffix in ("", ".vol", ".log"))
    brick.mkdir()
    network = server.address.rpartition(".")[0]
    volume.write_text(_BRICK.format(directory=brick, address=server.address, port=port, network=network))
    command = server.command("glusterfsd", "-N", "-f", volume, "-l", log, "-p", log.with_suffix(".pid"))
    listening = server.in_network("ss", "--no-header", "--listening", "--tcp", "--numeric", f"sport = {port}")
    with running(command, log=log.with_suffix(".out"), is_ready=lambda: done(listening)):
        yield


@contextmanager
def _mounted(directory: Path, client: Node, volume: Path, mount_point: Path) -> Iterator[None]:
    log = directory / f"{client.name}.log"
    command = client.command("glusterfs", "-N", "-f", volume, "-l", log, "-p", log.with_suffix(".pid"), mount_point)
    mounts = Path(f"/proc/{client.pid}/mounts")
    with running(command, log=log.with_suffix(".out"), is_ready=lambda: f" {mount_point} fuse" in mounts.read_text()):
        yield
