"""A network of nodes: one switch, and to each node a link whose rate is known in both directions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.nodes import INTERFACE, Node, hosts_file, node
from tests.testbed.processes import done

# Jumbo frames: headers take under 1 % of the rate, where they take 5 % of frames of 1,500 bytes.
_FRAME_BYTES = 9000
# The kernel sends whole segments of up to 64 KiB; a bucket that holds less would cut each in pieces.
_MIN_BURST_BYTES = 128 << 10
_BURST_SECONDS = 0.005
_MAX_QUEUE_MILLISECONDS = 50


@dataclass(frozen=True, slots=True)
class Link:
    """The rates of a node's link, from and to the node; None is as fast as this machine can."""

    sends_bytes_per_second: float | None = None
    receives_bytes_per_second: float | None = None


@contextmanager
def network(
    directory: Path, links: Mapping[str, Link], *, hostnames: Mapping[str, str] | None = None
) -> Iterator[dict[str, Node]]:
    """Nodes by name, which reach each other by name and by address.

    Args: `directory`, for what is written; `hostnames`, of nodes that are called other than their names.
    Raises Unavailable where this machine has no such namespaces.
    """
    addresses = {name: f"198.18.9.{number}" for number, name in enumerate(links, start=1)}
    hosts = hosts_file(directory, addresses)
    with contextlib.ExitStack() as stack:
        switch = stack.enter_context(node("switch", address="", hosts=hosts))
        _in(switch, "ip", f"link add hub type bridge\nlink set hub mtu {_FRAME_BYTES} up")
        nodes = {}
        for name, link in links.items():
            hostname = (hostnames or {}).get(name)
            nodes[name] = stack.enter_context(node(name, address=addresses[name], hosts=hosts, hostname=hostname))
            _plug(switch, nodes[name], link, port=f"port{len(nodes)}")
        yield nodes


def _plug(switch: Node, node: Node, link: Link, *, port: str) -> None:
    far_end = f"{INTERFACE} mtu {_FRAME_BYTES} netns {node.pid}"
    _in(switch, "ip", f"link add {port} mtu {_FRAME_BYTES} type veth peer name {far_end}")
    _in(switch, "ip", f"link set {port} master hub up")
    _in(node, "ip", f"address add {node.address}/24 dev {INTERFACE}\nlink set {INTERFACE} up")
    for sender, interface, rate in (
        (node, INTERFACE, link.sends_bytes_per_second),
        (switch, port, link.receives_bytes_per_second),
    ):
        if rate is not None:
            _in(sender, "tc", f"qdisc add dev {interface} root {_token_bucket(rate)}")


def _token_bucket(bytes_per_second: float) -> str:
    """A token bucket filter: `tc` takes bits per second, and a queue as long as it may delay."""
    burst = max(_MIN_BURST_BYTES, round(bytes_per_second * _BURST_SECONDS))
    return f"tbf rate {round(8 * bytes_per_second)}bit burst {burst} latency {_MAX_QUEUE_MILLISECONDS}ms"


def _in(node: Node, program: str, batch: str) -> None:
    """Run lines of `ip` or `tc` in a node's network."""
    done(node.in_network(program, "-batch", "-"), text=batch)
