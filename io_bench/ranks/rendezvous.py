"""How ranks find each other: the store that all share, by the variables of the launcher; and one for each node."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from io_bench.errors import RanksLost
from io_bench.ranks.bounded_store import BoundedStore, LocalStore, Store
from io_bench.ranks.placement import Placement
from sizing.cli.loading import loading
from sizing.errors import InvalidInput
from sizing.units import seconds_text

MAX_SECONDS_TO_REACH_A_NODE = 5.0
"""Of a node that answers at all; who asks has a run to end."""
_MEETING = ("MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store of a node listens, and which rank hosts it, as people can find it."""

    host: str
    port: int
    leader: int
    title: str


def store_for(placement: Placement, *, limit_seconds: float) -> Store:
    """The store that this rank shares with all its peers.

    Raises InvalidInput where the environment does not say how to meet, RanksLost where the store's host does not come
    within `limit_seconds`. Who else has not come is found out in the store.
    """
    if placement.num_ranks == 1:
        return LocalStore()
    _allow_connections()
    # Otherwise a lost peer makes torch print a C++ stack trace between our sentences.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    host, port = _meeting_point(os.environ)
    # A second that --help and bad input need not wait.
    with loading():
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - as above

    is_of_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    title = "The launcher of rank 0 (host of the rendezvous)" if is_of_launcher else "Rank 0"
    try:
        store = TCPStore(
            host,
            port,
            is_master=placement.rank == 0 and not is_of_launcher,
            timeout=timedelta(seconds=limit_seconds),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        message = f"{title} could not be met at {host}:{port} within {seconds_text(limit_seconds)} ({reason})."
        raise RanksLost(() if is_of_launcher else (0,), message) from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    hosting_ranks = () if is_of_launcher else (0,)
    return BoundedStore(
        PrefixStore(f"ckpt-bench/{attempt}", store), limit_seconds, host=title, hosting_ranks=hosting_ranks
    )


def hosted(placement: Placement, *, limit_seconds: float) -> tuple[Store, Address]:
    """A store for the ranks of this node, hosted by this process, and where they find it."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - as above

    host, port = _meeting_point(os.environ)
    limit = timedelta(seconds=limit_seconds)
    store = TCPStore("localhost", 0, is_master=True, timeout=limit, wait_for_workers=False)
    address = Address(_own_address(host, port), store.port, placement.rank, placement.title)
    return _bounded(store, address, limit_seconds), address


def visited(address: Address, *, limit_seconds: float) -> Store:
    """The store that a leader hosts. Raises RanksLost for the leader where it cannot be reached."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - as above

    limit = timedelta(seconds=limit_seconds)
    try:
        store = TCPStore(address.host, address.port, is_master=False, timeout=limit, wait_for_workers=False)
    except RuntimeError as error:
        raise RanksLost((address.leader,), f"{address.title} cannot be reached.") from error
    return _bounded(store, address, limit_seconds)


def _bounded(store: object, address: Address, limit_seconds: float) -> Store:
    return BoundedStore(store, limit_seconds, host=address.title, hosting_ranks=(address.leader,))  # type: ignore[arg-type]  # a TCPStore


def _meeting_point(environment: Mapping[str, str]) -> tuple[str, int]:
    """Where the ranks meet. Raises InvalidInput where the launcher has not said it."""
    missing = [name for name in _MEETING if not environment.get(name)]
    port = environment.get("MASTER_PORT", "")
    if missing or not (port.isdecimal() and int(port) < 1 << 16):
        wrong = f"without {' and '.join(missing)}" if missing else f"MASTER_PORT is {port!r}"
        rule = f"must have the variables of a launcher ({wrong})"
        raise InvalidInput.of("the environment", rule, value=None, remedy="start the ranks with torchrun or srun")
    return environment["MASTER_ADDR"], int(port)


def _own_address(host: str, port: int) -> str:
    """The address of this node from which it reaches the others. Nothing is sent."""
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)
        address: str = probe.getsockname()[0]
        return address


def _allow_connections() -> None:
    """Let this process open as many files as it may: where it hosts the store, every rank connects to it."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
