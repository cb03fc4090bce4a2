"""What ranks tell each other, round by round: values to rank 0 by way of leaders, and its word back the same way.

In a gathering, each rank puts its value into the store of its node, the leader puts all of them as one into the store
of all, and rank 0 takes it from there. So the host of that store has to do with nodes, not with ranks.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from io_bench.errors import RanksLost
from io_bench.ranks.bounded_store import Store
from io_bench.ranks.messages import bundle_of, packed, read, text_of, value_of
from io_bench.ranks.rendezvous import MAX_SECONDS_TO_REACH_A_NODE, visited
from io_bench.ranks.seating import Seating, address_of
from io_bench.ranks.waiting import Waiting, absent_of

_MAX_INQUIRIES_AT_ONCE = 32
"""Of nodes that have not answered, each of which may take its time."""


class Rounds:
    """The rounds of one rank. All ranks go through the same, in the same order.

    Args of all: `doing`, what the ranks are at. All raise as Waiting.
    """

    def __init__(self, rank: int, store: Store, seating: Seating, waiting: Waiting) -> None:
        self.number = 0
        self._rank = rank
        self._store = store
        self._seating = seating
        self._near = seating.near
        self._waiting = waiting
        self._gathering = 0
        self._passed: list[tuple[int, list[str]]] = []

    def gathered(self, value: Any, *, doing: str) -> list[Any]:
        """On rank 0 every rank's value, in the order of ranks; nothing on the others, which do not wait."""
        keys = self._given(value)
        if not self._is_leader:
            return []
        texts, number = self._texts(keys, doing=doing), self.number
        if self._rank != 0:
            self._store.set(_bundle(number, self._rank), bundle_of(texts))
            self._sweep(number)
            return []
        of_leader = self._bundles(self._seating.others, doing=doing) | {0: [read(text) for text in texts]}
        found = dict(pair for leader, values in of_leader.items() for pair in self._by_rank(leader, values))
        self._forget(_bundle(number, leader) for leader in self._seating.others)
        self._sweep(number)
        return [found[rank] for rank in sorted(found)]

    def told(self, value: Any, *, doing: str, heard: Callable[[Any], Any] = lambda value: value) -> Any:
        """Rank 0's value, on all ranks.

        Args: `heard`, what a leader makes of it before its node hears it.
        """
        self.number += 1
        key = f"{self.number}/told"
        if self._rank == 0:
            self._store.set(key, packed(value))
            self._forget([key])
            return value
        if not self._is_leader:
            suspects = self.parts(self._gathering) | {self._seating.leader: key}
            self._waiting.until_there(self._near, [key], suspects, self._absent, doing=doing)
            return value_of(self._near.get(key))
        self._waiting.until_there(self._store, [key], {}, self._absent, doing=doing)
        told = heard(value_of(self._store.get(key)))
        self._near.set(key, packed(told))
        self._forget([key])
        return told

    def on_node(self, value: Any, *, doing: str) -> list[Any]:
        """The value of every rank of this node, in the order of ranks. No other node hears of it."""
        keys = self._given(value)
        found = list(keys.values())
        self._waiting.until_there(self._near, found, keys, lambda: absent_of(self._near, keys), doing=doing)
        if self._is_leader:
            self._forget(found)
        return [read(text) for text in self._near.values(found)]

    def from_peer(self, value: Any, source: int, *, doing: str) -> Any:
        """The value that the rank `source` gives. Leaders hand on what their ranks want of other nodes."""
        keys = self._given([value, source])
        found = f"{self.number}/found"
        if self._is_leader:
            rows = [read(text) for text in self._texts(keys, doing=doing)]
            self._near.set(found, packed(self._of_sources(rows, doing=doing)))
            self._forget([found])
        suspects = keys | {self._seating.leader: found}
        self._waiting.until_there(self._near, [found], suspects, self._absent, doing=doing)
        return value_of(self._near.get(found))[self._seating.here.index(self._rank)]

    def parts(self, number: int) -> dict[int, str]:
        """The keys that the ranks of this node set in the store of the node, in a gathering of that number."""
        return {rank: _part(number, rank) for rank in self._seating.here}

    @property
    def _is_leader(self) -> bool:
        return self._rank == self._seating.leader

    def _given(self, value: Any) -> dict[int, str]:
        """Begin a gathering with this rank's value; the keys of the ranks of this node."""
        self.number += 1
        self._gathering = self.number
        keys = self.parts(self.number)
        self._near.set(keys[self._rank], text_of(value))
        return keys

    def _texts(self, keys: dict[int, str], *, doing: str) -> list[bytes]:
        """What the ranks of this node gave, on their leader."""
        found = list(keys.values())
        self._waiting.until_there(self._near, found, keys, self._absent, doing=doing)
        self._forget(found)
        return self._near.values(found)

    def _bundles(self, leaders: Iterable[int], *, doing: str) -> dict[int, list[Any]]:
        """What the ranks of other nodes gave, by their leaders."""
        keys = {leader: _bundle(self.number, leader) for leader in leaders}
        if not keys:
            return {}
        found = list(keys.values())
        self._waiting.until_there(self._store, found, {}, self._absent, doing=doing)
        return {leader: value_of(bundle) for leader, bundle in zip(keys, self._store.values(found), strict=True)}

    def _by_rank(self, leader: int, values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        return zip(self._seating.ranks_of_leader[leader], values, strict=True)

    def _of_sources(self, rows: Sequence[Sequence[Any]], *, doing: str) -> list[Any]:
        """For each rank of this node, what the rank that it wants has given."""
        values, sources = zip(*rows, strict=True)
        self._store.set(_bundle(self.number, self._rank), packed(values))
        wanted = {leader for leader, ranks in self._seating.ranks_of_leader.items() if set(sources) & set(ranks)}
        of_leader = self._bundles(wanted - {self._rank}, doing=doing) | {self._rank: values}
        given = dict(pair for leader, of_ranks in of_leader.items() for pair in self._by_rank(leader, of_ranks))
        if self._rank == 0:
            self._forget(_bundle(self.number, leader) for leader in self._seating.ranks_of_leader)
        return [given[source] for source in sources]

    def _forget(self, keys: Iterable[str]) -> None:
        """Have the store of this node forget keys of this round, once nobody needs them."""
        self._passed.append((self.number, list(keys)))

    def _sweep(self, number: int) -> None:
        """Forget all rounds before a gathering that is complete: its ranks have read what came before it.

        Its own keys stay: who looks for absent ranks finds them there.
        """
        self._near.remove(key for passed, keys in self._passed if passed < number for key in keys)
        self._passed = [(passed, keys) for passed, keys in self._passed if passed >= number]

    def _absent(self) -> list[int]:
        """Who has not come to the last gathering; where all have, rank 0 has not put together what they gave."""
        silent = [
            leader for leader in self._seating.others if not self._store.check([_bundle(self._gathering, leader)])
        ]
        with concurrent.futures.ThreadPoolExecutor(_MAX_INQUIRIES_AT_ONCE) as pool:
            of_nodes = [rank for ranks in pool.map(self._absent_on_node, silent) for rank in ranks]
        return sorted(absent_of(self._store, self._parts_of(0)) + of_nodes) or [0]

    def _absent_on_node(self, leader: int) -> list[int]:
        """Who of a node has not come, as its store knows; the leader where the store does not answer, or all have."""
        try:
            store = visited(address_of(leader, self._store), limit_seconds=MAX_SECONDS_TO_REACH_A_NODE)
            with contextlib.closing(store):
                return absent_of(store, self._parts_of(leader)) or [leader]
        except RanksLost:
            return [leader]

    def _parts_of(self, leader: int) -> dict[int, str]:
        return {rank: _part(self._gathering, rank) for rank in self._seating.ranks_of_leader[leader]}


def _part(number: int, rank: int) -> str:
    return f"{number}/{rank}"


def _bundle(number: int, leader: int) -> str:
    return f"{number}/of/{leader}"
