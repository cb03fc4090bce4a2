"""Topology: ranks meet in a store, by the variables of the launcher, and learn which rank is on which node.

Each rank tells rank 0 where it runs, which names a leader for every node; the node meets there.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from io_bench import interruption
from io_bench.errors import RanksLost
from io_bench.ranks.bounded_store import BoundedStore, LocalStore, Store, in_thread, pack, read, text_of, value_of
from io_bench.ranks.liveness import Ending, Waiting, absent_of
from io_bench.ranks.placement import Placement
from sizing.errors import InvalidInput
from sizing.loading import loading
from sizing.units import seconds_text

_TABLE = "table"


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology as one rank knows it: the first rank of each node is its leader, rank 0 that of its own.

    `near` is the store of this node; the ranks of rank 0's node use the store of all.
    """

    placements: tuple[Placement, ...]
    ranks_of_leader: Mapping[int, tuple[int, ...]]
    leader: int
    near: Store

    @classmethod
    def of(cls, placements: Sequence[Placement], *, leader: int, near: Store) -> Topology:
        """Make the topology of placements in the order of ranks."""
        of_node: dict[str, list[int]] = {}
        for placement in placements:
            of_node.setdefault(placement.node, []).append(placement.rank)
        return cls(tuple(placements), {ranks[0]: tuple(ranks) for ranks in of_node.values()}, leader, near)

    @property
    def here(self) -> tuple[int, ...]:
        """The ranks of this node."""
        return self.ranks_of_leader[self.leader]

    @property
    def others(self) -> list[int]:
        """The leaders of all nodes but that of rank 0."""
        return [leader for leader in self.ranks_of_leader if leader != 0]


def find_topology(own: Placement, store: Store, waiting: Waiting, ending: Ending, *, limit_seconds: float) -> Topology:
    """Find the topology, once all ranks have come. Raises as Waiting, for ranks that have not."""
    leader = _learn_leader(own, store, waiting)
    near = (
        store if leader == 0 else _open_store_of_node(own, leader, store, waiting, ending, limit_seconds=limit_seconds)
    )
    placements = [Placement(**card) for card in value_of(near.get(_TABLE))]
    return Topology.of(placements, leader=leader, near=near)


def address_of(leader: int, store: Store) -> Address:
    """Read the address where the ranks of a leader meet."""
    return Address(**read(store.get(_address(leader))))


def _learn_leader(own: Placement, store: Store, waiting: Waiting) -> int:
    """Tell rank 0 where this rank is, and learn from it which rank leads the node. Rank 0 names the leaders."""
    cards = {rank: f"card/{rank}" for rank in range(own.num_ranks)}
    store.set(cards[own.rank], text_of(dataclasses.asdict(own)))

    def absent() -> list[int]:
        return absent_of(store, cards) or [0]

    if own.rank == 0:
        waiting.until_there(store, list(cards.values()), cards, absent, doing="starting")
        table = [read(text) for text in store.values(list(cards.values()))]
        store.set(_TABLE, pack(table))
        for node, first in {card["node"]: card["rank"] for card in reversed(table)}.items():
            store.set(_leader_of(node), str(first))
        return 0
    leader = _leader_of(own.node)
    waiting.until_there(store, [leader], {}, absent, doing="starting")
    return int(store.get(leader))


def _open_store_of_node(
    own: Placement, leader: int, store: Store, waiting: Waiting, ending: Ending, *, limit_seconds: float
) -> Store:
    """Open the store of a node other than rank 0's, and hear of failures there from here on."""
    if own.rank == leader:
        near, address = host_store(own, limit_seconds=limit_seconds)
        near.set(_TABLE, store.get(_TABLE))
        ending.hear_through(near)
        ending.relay()
        store.set(_address(leader), text_of(dataclasses.asdict(address)))
        return near
    waiting.until_there(store, [_address(leader)], {}, lambda: [leader], doing="starting")
    near = connect_to_store(address_of(leader, store), limit_seconds=limit_seconds)
    ending.hear_through(near)
    return near


def _leader_of(node: str) -> str:
    return f"leader/{node}"


def _address(leader: int) -> str:
    return f"address/{leader}"


MAX_SECONDS_TO_REACH_A_NODE = 5.0
"""Max time to reach a node that answers at all; who asks has a run to end."""
_MEETING = ("MASTER_ADDR", "MASTER_PORT")
MEETING_DESCRIPTOR = "CKPT_BENCH_MEETING_DESCRIPTOR"
"""Variable of rank 0 alone: the descriptor of a socket that listens at the meeting point already."""


@dataclass(frozen=True, slots=True)
class Address:
    """Address of a node's store, and the rank that hosts it by number and title."""

    host: str
    port: int
    leader: int
    title: str


def store_for(placement: Placement, *, limit_seconds: float) -> Store:
    """Open the store that this rank shares with all its peers.

    Raises InvalidInput where the environment does not say how to meet or another program listens there, RanksLost where
    the store's host does not come within `limit_seconds`. Who else has not come is found out in the store.
    """
    if placement.num_ranks == 1:
        return LocalStore()
    # Where this process hosts the store, every rank connects to it.
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
    # Otherwise a lost peer makes torch print a C++ stack trace between our sentences.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    host, port = _meeting_point(os.environ)
    # A second that --help and bad input need not wait.
    with loading():
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - as above

    is_of_launcher = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    is_host = placement.rank == 0 and not is_of_launcher
    title = "The launcher of rank 0 (host of the rendezvous)" if is_of_launcher else "Rank 0"

    def raise_orphaned() -> None:
        # The launcher listens before it starts ranks; where it was killed before this process could remember it, nobody
        # listens.
        if is_of_launcher and (interruption.is_launcher_gone() or _refuses(host, port)):
            raise RanksLost((), "The launcher was killed or crashed before the ranks met.")

    try:
        # It waits for the host of the store, deaf to signals.
        store = in_thread(
            lambda: TCPStore(
                host,
                port,
                is_master=is_host,
                timeout=timedelta(seconds=limit_seconds),
                wait_for_workers=False,
                multi_tenant=True,
                master_listen_fd=_meeting_descriptor(os.environ) if is_host else None,
            ),
            heeded=raise_orphaned,
        )
    except RuntimeError as error:
        if is_host and "EADDRINUSE" in str(error):
            remedy = "set it to a port that is free, on all ranks"
            raise InvalidInput.of("MASTER_PORT", "must not be in use", value=port, remedy=remedy) from error
        reason = str(error).splitlines()[0].rstrip(".")
        message = f"{title} could not be met at {host}:{port} within {seconds_text(limit_seconds)} ({reason})."
        raise RanksLost(() if is_of_launcher else (0,), message) from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    hosting_ranks = () if is_of_launcher else (0,)
    return BoundedStore(
        PrefixStore(f"ckpt-bench/{attempt}", store), limit_seconds, host=title, hosting_ranks=hosting_ranks
    )


def host_store(placement: Placement, *, limit_seconds: float) -> tuple[Store, Address]:
    """Host a store for the ranks of this node; it and its address."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # noqa: PLC0415 - as above

    host, port = _meeting_point(os.environ)
    limit = timedelta(seconds=limit_seconds)
    store = TCPStore("localhost", 0, is_master=True, timeout=limit, wait_for_workers=False)
    address = Address(_find_own_address(host, port), store.port, placement.rank, placement.title)
    return _bounded(store, address, limit_seconds), address


def connect_to_store(address: Address, *, limit_seconds: float) -> Store:
    """Connect to the store that a leader hosts. Raises RanksLost for the leader where it cannot be reached."""
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
    """Read host and port where the ranks meet. Raises InvalidInput where the launcher has not said it."""
    missing = [name for name in _MEETING if not environment.get(name)]
    port = environment.get("MASTER_PORT", "")
    if missing or not (port.isdecimal() and int(port) < 1 << 16):
        wrong = f"without {' and '.join(missing)}" if missing else f"MASTER_PORT is {port!r}"
        rule = f"must have the variables of a launcher ({wrong})"
        raise InvalidInput.of("the environment", rule, value=None, remedy="start the ranks with torchrun or srun")
    return environment["MASTER_ADDR"], int(port)


def _refuses(host: str, port: int) -> bool:
    """Whether nobody listens at an address."""
    try:
        socket.create_connection((host, port), MAX_SECONDS_TO_REACH_A_NODE).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _meeting_descriptor(environment: Mapping[str, str]) -> int | None:
    """Duplicate the descriptor that was handed to this process, as the store closes its own; None where none was."""
    return os.dup(int(environment[MEETING_DESCRIPTOR])) if MEETING_DESCRIPTOR in environment else None


def _find_own_address(host: str, port: int) -> str:
    """Find the address of this node from which it reaches the others. Nothing is sent."""
    family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(place)
        address: str = probe.getsockname()[0]
        return address
