"""The values that ranks exchange, round by round: to rank 0 by way of leaders, and from it to all the same way.

In a gathering, each rank puts its value into the store of its node, the leader puts all of them as one into the store
of all, and rank 0 takes it from there. So the host of that store has to do with nodes, not with ranks.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from io_bench.errors import RanksLost
from io_bench.ranks.bounded_store import Store, bundle_of, pack, read, text_of, value_of
from io_bench.ranks.liveness import Waiting, absent_of
from io_bench.ranks.topology import MAX_SECONDS_TO_REACH_A_NODE, Topology, address_of, connect_to_store

_MAX_INQUIRIES_AT_ONCE = 32
"""Max nodes that are asked at once why they have not answered; each may take its time."""


class Rounds:
    """The rounds in which one rank exchanges values. All ranks go through the same, in the same order.

    Args of all: `doing`, what the ranks are at. All raise as Waiting.
    """

    def __init__(self, rank: int, store: Store, topology: Topology, waiting: Waiting) -> None:
        self.number = 0
        self._rank = rank
        self._store = store
        self._topology = topology
        self._near = topology.near
        self._waiting = waiting
        self._gathering = 0
        self._passed: list[tuple[int, list[str]]] = []

    def gather(self, value: Any, *, doing: str) -> list[Any]:
        """Gather every rank's value on rank 0, in the order of ranks; nothing on the others, which do not wait."""
        keys = self._give(value)
        if not self._is_leader:
            return []
        texts, number = self._take_texts(keys, doing=doing), self.number
        if self._rank != 0:
            self._store.set(_bundle(number, self._rank), bundle_of(texts))
            self._sweep(number)
            return []
        of_leader = self._take_bundles(self._topology.others, doing=doing) | {0: [read(text) for text in texts]}
        value_of_rank = dict(pair for leader, values in of_leader.items() for pair in self._by_rank(leader, values))
        self._forget(_bundle(number, leader) for leader in self._topology.others)
        self._sweep(number)
        return [value_of_rank[rank] for rank in sorted(value_of_rank)]

    def broadcast(self, value: Any, *, doing: str, heard: Callable[[Any], Any] = lambda value: value) -> Any:
        """Tell rank 0's value to all ranks.

        Args: `heard`, what a leader makes of it before its node hears it.
        """
        self.number += 1
        key = f"{self.number}/told"
        if self._rank == 0:
            self._store.set(key, pack(value))
            self._forget([key])
            return value
        if not self._is_leader:
            suspects = self.parts(self._gathering) | {self._topology.leader: key}
            self._waiting.until_there(self._near, [key], suspects, self._absent, doing=doing)
            return value_of(self._near.get(key))
        self._waiting.until_there(self._store, [key], {}, self._absent, doing=doing)
        value = heard(value_of(self._store.get(key)))
        self._near.set(key, pack(value))
        self._forget([key])
        return value

    def gather_on_node(self, value: Any, *, doing: str) -> list[Any]:
        """Gather the values of this node's ranks on each of them, in order. Other nodes do not take part."""
        keys = self._give(value)
        names = list(keys.values())
        self._waiting.until_there(self._near, names, keys, lambda: absent_of(self._near, keys), doing=doing)
        if self._is_leader:
            self._forget(names)
        return [read(text) for text in self._near.values(names)]

    def from_peer(self, value: Any, source: int, *, doing: str) -> Any:
        """Exchange values with the rank `source`. Leaders hand on what their ranks want of other nodes."""
        keys = self._give([value, source])
        answer = f"{self.number}/found"
        if self._is_leader:
            rows = [read(text) for text in self._take_texts(keys, doing=doing)]
            self._near.set(answer, pack(self._values_of_sources(rows, doing=doing)))
            self._forget([answer])
        suspects = keys | {self._topology.leader: answer}
        self._waiting.until_there(self._near, [answer], suspects, self._absent, doing=doing)
        return value_of(self._near.get(answer))[self._topology.here.index(self._rank)]

    def parts(self, number: int) -> dict[int, str]:
        """The keys that the ranks of this node set in the store of the node, in a gathering of that number."""
        return {rank: _part(number, rank) for rank in self._topology.here}

    @property
    def _is_leader(self) -> bool:
        return self._rank == self._topology.leader

    def _give(self, value: Any) -> dict[int, str]:
        """Begin a gathering with this rank's value; return the keys of the ranks of this node."""
        self.number += 1
        self._gathering = self.number
        keys = self.parts(self.number)
        self._near.set(keys[self._rank], text_of(value))
        return keys

    def _take_texts(self, keys: dict[int, str], *, doing: str) -> list[bytes]:
        """Take the values of the ranks of this node, on their leader."""
        names = list(keys.values())
        self._waiting.until_there(self._near, names, keys, self._absent, doing=doing)
        self._forget(names)
        return self._near.values(names)

    def _take_bundles(self, leaders: Iterable[int], *, doing: str) -> dict[int, list[Any]]:
        """Take the values of the ranks of other nodes, by their leaders."""
        keys = {leader: _bundle(self.number, leader) for leader in leaders}
        if not keys:
            return {}
        names = list(keys.values())
        self._waiting.until_there(self._store, names, {}, self._absent, doing=doing)
        return {leader: value_of(bundle) for leader, bundle in zip(keys, self._store.values(names), strict=True)}

    def _by_rank(self, leader: int, values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        return zip(self._topology.ranks_of_leader[leader], values, strict=True)

    def _values_of_sources(self, rows: Sequence[Sequence[Any]], *, doing: str) -> list[Any]:
        """Collect, for each rank of this node, the value of the rank that it wants."""
        values, sources = zip(*rows, strict=True)
        self._store.set(_bundle(self.number, self._rank), pack(values))
        wanted = {leader for leader, ranks in self._topology.ranks_of_leader.items() if set(sources) & set(ranks)}
        of_leader = self._take_bundles(wanted - {self._rank}, doing=doing) | {self._rank: values}
        value_of_rank = dict(pair for leader, each in of_leader.items() for pair in self._by_rank(leader, each))
        if self._rank == 0:
            self._forget(_bundle(self.number, leader) for leader in self._topology.ranks_of_leader)
        return [value_of_rank[source] for source in sources]

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
        """List the ranks that have not come to the last gathering; rank 0 where all have, as it has not gone on."""
        silent = [
            leader for leader in self._topology.others if not self._store.check([_bundle(self._gathering, leader)])
        ]
        with concurrent.futures.ThreadPoolExecutor(_MAX_INQUIRIES_AT_ONCE) as pool:
            of_nodes = [rank for ranks in pool.map(self._absent_on_node, silent) for rank in ranks]
        return sorted(absent_of(self._store, self._parts_of(0)) + of_nodes) or [0]

    def _absent_on_node(self, leader: int) -> list[int]:
        """List the ranks of a node that have not come; the leader where its store does not answer, or all have come."""
        try:
            store = connect_to_store(address_of(leader, self._store), limit_seconds=MAX_SECONDS_TO_REACH_A_NODE)
            with contextlib.closing(store):
                return absent_of(store, self._parts_of(leader)) or [leader]
        except RanksLost:
            return [leader]

    def _parts_of(self, leader: int) -> dict[int, str]:
        return {rank: _part(self._gathering, rank) for rank in self._topology.ranks_of_leader[leader]}


def _part(number: int, rank: int) -> str:
    return f"{number}/{rank}"


def _bundle(number: int, leader: int) -> str:
    return f"{number}/of/{leader}"
