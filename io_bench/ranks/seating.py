"""How ranks learn who is where: each tells rank 0, which names a leader for every node; the node meets there."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from io_bench.ranks.bounded_store import Store
from io_bench.ranks.ending import Ending
from io_bench.ranks.messages import packed, read, text_of, value_of
from io_bench.ranks.placement import Placement
from io_bench.ranks.rendezvous import Address, hosted, visited
from io_bench.ranks.waiting import Waiting, absent_of

_TABLE = "table"


@dataclass(frozen=True, slots=True)
class Seating:
    """Who is where, as one rank knows it: the first rank of each node is its leader, rank 0 that of its own.

    `near` is the store of this node; the ranks of rank 0's node use the store of all.
    """

    placements: tuple[Placement, ...]
    ranks_of_leader: Mapping[int, tuple[int, ...]]
    leader: int
    near: Store

    @classmethod
    def of(cls, placements: Sequence[Placement], *, leader: int, near: Store) -> Seating:
        """The seats of placements in the order of ranks."""
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


def seated(own: Placement, store: Store, waiting: Waiting, ending: Ending, *, limit_seconds: float) -> Seating:
    """The seats of all, once all have come. Raises as Waiting, for ranks that have not."""
    leader = _leader(own, store, waiting)
    near = store if leader == 0 else _store_of_node(own, leader, store, waiting, ending, limit_seconds=limit_seconds)
    placements = [Placement(**card) for card in value_of(near.get(_TABLE))]
    return Seating.of(placements, leader=leader, near=near)


def address_of(leader: int, store: Store) -> Address:
    """Where the ranks of a leader meet."""
    return Address(**read(store.get(_address(leader))))


def _leader(own: Placement, store: Store, waiting: Waiting) -> int:
    """Tell rank 0 where this rank is, and hear from it who speaks for the node."""
    cards = {rank: f"card/{rank}" for rank in range(own.num_ranks)}
    store.set(cards[own.rank], text_of(dataclasses.asdict(own)))

    def absent() -> list[int]:
        return absent_of(store, cards) or [0]

    if own.rank == 0:
        waiting.until_there(store, list(cards.values()), cards, absent, doing="starting")
        _assign_leaders([read(text) for text in store.values(list(cards.values()))], store)
        return 0
    leader = _leader_of(own.node)
    waiting.until_there(store, [leader], {}, absent, doing="starting")
    return int(store.get(leader))


def _assign_leaders(cards: Sequence[Mapping[str, Any]], store: Store) -> None:
    store.set(_TABLE, packed(cards))
    for node, first in {card["node"]: card["rank"] for card in reversed(cards)}.items():
        store.set(_leader_of(node), str(first))


def _store_of_node(
    own: Placement, leader: int, store: Store, waiting: Waiting, ending: Ending, *, limit_seconds: float
) -> Store:
    """Where the ranks of another node than rank 0's meet, and hear of failures from here on."""
    if own.rank == leader:
        near, address = hosted(own, limit_seconds=limit_seconds)
        near.set(_TABLE, store.get(_TABLE))
        ending.hear_through(near)
        ending.relay()
        store.set(_address(leader), text_of(dataclasses.asdict(address)))
        return near
    waiting.until_there(store, [_address(leader)], {}, lambda: [leader], doing="starting")
    near = visited(address_of(leader, store), limit_seconds=limit_seconds)
    ending.hear_through(near)
    return near


def _leader_of(node: str) -> str:
    return f"leader/{node}"


def _address(leader: int) -> str:
    return f"address/{leader}"
