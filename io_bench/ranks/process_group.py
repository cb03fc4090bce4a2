"""The ranks of one run, as one of them deals with the others, and those among them that write in one configuration.

Every wait is bounded, wakes up for signals and for a peer's failure, and names who is missing; how ranks end is in
`liveness`.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from io_bench import interruption
from io_bench.interruption import Interrupted
from io_bench.ranks.bounded_store import Store, in_thread
from io_bench.ranks.clock import NodeClock, Now, keep_answering
from io_bench.ranks.liveness import SECONDS_BETWEEN_LOOKS, Ending, Liveness, Waiting, absent_of
from io_bench.ranks.placement import Placement, placement_in
from io_bench.ranks.rounds import Rounds
from io_bench.ranks.slurm import list_ranks, node_by_launcher
from io_bench.ranks.topology import Topology, find_topology, store_for
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput, Problem, SizingError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore


_Made = TypeVar("_Made")

LEAD_SECONDS = 0.1
"""Time from telling all when to start to that start: a busy rank may take this long to hear of it."""
_SECONDS_TO_LET_GO = 1.0
"""Time for work that this rank leaves behind: its files are closed then, and no library is taken apart under it."""
_LEAD_ROUNDS = 2.0
"""And this many rounds through all leaders, as long as one took when the ranks met."""


@dataclass(frozen=True, slots=True)
class Start:
    """An agreed start: `instant` by the clock of this node, which may be off rank 0's by `error_seconds`."""

    instant: float
    error_seconds: float


class ProcessGroup:
    """The ranks of a run, as one of them deals with the others. Values that they give each other are JSON.

    `timeout_seconds` bounds the time from one rank's death or hang to the end of all others: they wait
    `patience_seconds` for it, then clean up and take leave. Methods that say what the ranks are `doing`, for the
    message that names a missing one, are called on all ranks in the same order. They raise RanksLost for ranks that
    died or did not come in time, PeerFailed where one failed.
    """

    def __init__(
        self, placement: Placement, store: Store, timeout_seconds: float, *, now: Now = time.monotonic
    ) -> None:
        self.placement = placement
        self.rank = placement.rank
        self.num_ranks = placement.num_ranks
        self.now = now
        self._timeout_seconds = timeout_seconds
        self._store = store
        self._liveness = Liveness(placement)
        self.ending = Ending(self.rank, self.num_ranks, store, self._liveness, timeout_seconds)
        self._waiting = Waiting(self.rank, store, self._liveness, self.ending, self.patience_seconds)
        self._set_topology(Topology.of([placement], leader=self.rank, near=store))
        self._clock: NodeClock | None = None
        self._lead_seconds = LEAD_SECONDS

    @property
    def patience_seconds(self) -> float:
        """How long this rank waits for others in a barrier."""
        return self._timeout_seconds - 2 * self.ending.farewell_seconds

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where each rank is; before the ranks have introduced themselves, its own place alone."""
        return self._liveness.placements

    @property
    def nodes(self) -> tuple[str, ...]:
        """The distinct nodes, in the order of their first rank."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements))

    @property
    def ranks_per_node(self) -> Counter[str]:
        """How many ranks each node has."""
        return Counter(placement.node for placement in self.placements)

    def introduce(self) -> None:
        """Learn the placement of all peers, meet those of this node, and compare clocks."""
        limit_seconds = self._timeout_seconds / 2
        self._set_topology(
            find_topology(self.placement, self._store, self._waiting, self.ending, limit_seconds=limit_seconds)
        )
        self._compare_clocks()
        self.meet(doing="starting")
        started = time.monotonic()
        self.meet(doing="starting")
        self._lead_seconds = LEAD_SECONDS + _LEAD_ROUNDS * (time.monotonic() - started)

    def gather(self, value: Any, *, doing: str) -> list[Any]:
        """Gather every rank's value on rank 0, in the order of ranks; nothing on the others, which do not wait."""
        return self._rounds.gather(value, doing=doing)

    def broadcast(self, value: Any, *, doing: str) -> Any:
        """Tell rank 0's value to all ranks."""
        return self._rounds.broadcast(value, doing=doing)

    def decide(self, value: Any, judge: Callable[[list[Any]], Any], *, doing: str) -> Any:
        """Let rank 0 judge every rank's value, and tell all ranks its judgement; a barrier as well."""
        values = self.gather(value, doing=doing)
        return self.broadcast(judge(values) if self.rank == 0 else None, doing=doing)

    def meet(self, *, doing: str) -> None:
        """Wait until all ranks are here."""
        self.decide(None, lambda _: None, doing=doing)

    def gather_on_node(self, value: Any, *, doing: str) -> list[Any]:
        """Gather the values of this node's ranks on each of them, in order. Other nodes do not take part."""
        return self._rounds.gather_on_node(value, doing=doing)

    def from_peer(self, value: Any, source: int, *, doing: str) -> Any:
        """Exchange values: each rank gives its own, and gets that of the rank `source`."""
        return self._rounds.from_peer(value, source, doing=doing)

    def start(self, *, doing: str) -> Start:
        """Agree, once all ranks are ready, on the instant at which they start."""
        self.gather(None, doing=f"preparing for {doing}")
        start = [self.now() + self._lead_seconds, 0.0]
        start = self._rounds.broadcast(start, doing=f"agreeing when to start {doing}", heard=self._by_clock_here)
        return Start(*start)

    def agree(self, make: Callable[[], _Made], *, doing: str) -> _Made:
        """Return what `make` makes on this rank, once it has worked on every rank.

        Raises InvalidInput on all ranks where it was raised on any: the problems of the lowest such rank.
        """
        results: list[_Made] = []
        problems: tuple[Problem, ...] = ()
        try:
            results.append(make())
        except InvalidInput as error:
            problems = error.problems
        own = [dataclasses.asdict(problem) for problem in problems]
        first = self.decide(own, lambda values: next(filter(None, values), []), doing=doing)
        if first:
            raise InvalidInput(Problem(**problem) for problem in first)
        return results[0]

    @property
    def collective_seconds(self) -> float:
        """Max seconds for which a collective waits for ranks: time is left to find the rank at fault."""
        return self.patience_seconds - self.ending.farewell_seconds

    def store_for_collectives(self) -> TorchStore:
        """Make a store to connect the ranks through, which all ranks ask for at the same point."""
        return self._store.beside(f"collectives/{self._rounds.number}")

    def watch(self, work: Callable[[], _Made], *, doing: str) -> _Made:
        """Run `work`, which may wait for other ranks where this group cannot see it: in collectives.

        It runs in a thread of its own, left behind where this rank has to go on without it. Raises what `work`
        raises, RanksLost for ranks that died meanwhile, PeerFailed where one failed.
        """
        next_parts = self._rounds.parts(self._rounds.number + 1)

        def look() -> None:
            self.ending.raise_published()
            self._liveness.raise_dead(self._near, next_parts, doing=doing)

        return in_thread(work, heeded=look, seconds_to_let_go=_SECONDS_TO_LET_GO)

    def blame(self, ranks: Iterable[int], *, doing: str) -> None:
        """Find the rank at fault for work that has failed on all living `ranks`, of which this is one.

        Raises PeerFailed for one that says so, RanksLost for those that are silent; returns where none is.
        The first of them asks the others, who wait for what it finds.
        """
        first, *others = ranks
        failed = {rank: f"failed/{self._rounds.number}/{rank}" for rank in (first, *others)}
        none_is_silent = f"failed/{self._rounds.number}/none"
        self._store.set(failed[self.rank], "")
        awaited = failed if self.rank == first else {first: none_is_silent}
        seconds = self.ending.farewell_seconds / (2 if self.rank == first else 1)
        keys, heeded = list(awaited.values()), self.ending.raise_published
        if not self._liveness.has_come(self._store, keys, awaited, seconds=seconds, doing=doing, heeded=heeded):
            raise self._liveness.overdue(absent_of(self._store, awaited), seconds=seconds, doing=doing)
        if self.rank == first:
            self._store.set(none_is_silent, "")

    def say_who_is_missing(self) -> None:
        """Say on this rank's terminal which ranks were waited for in vain: by host, or as the launcher names nodes."""
        if not self.ending.missing:
            return
        hosts = {placement.rank: placement.hostname for placement in self.placements}
        ranks = list_ranks(self.ending.missing, lambda rank: hosts.get(rank) or node_by_launcher(rank, os.environ))
        Terminal(is_speaker=True).say(f"Missing: {ranks}.")

    def close(self) -> None:
        """Close the stores."""
        for store in dict.fromkeys((self._near, self._store)):
            store.close()

    def _set_topology(self, topology: Topology) -> None:
        self._liveness.placements = topology.placements
        self._topology, self._near = topology, topology.near
        self._rounds = Rounds(self.rank, self._store, topology, self._waiting)

    def _compare_clocks(self) -> None:
        """Have the leaders of other nodes know the clock of rank 0."""
        if self.rank == 0 and self._topology.others:
            self._store.background(functools.partial(keep_answering, now=self.now))
        if self.rank not in self._topology.others:
            return
        self._clock = NodeClock(num_leaders=len(self._topology.others), now=self.now)
        self._store.background(self._clock.follow)
        deadline = time.monotonic() + self.patience_seconds
        while not self._clock.is_known.wait(SECONDS_BETWEEN_LOOKS):
            interruption.heed()
            self.ending.raise_published()
            if time.monotonic() > deadline:
                raise self._liveness.overdue([0], seconds=self.patience_seconds, doing="starting")

    def _by_clock_here(self, start: Sequence[float]) -> list[float]:
        """Convert a start by rank 0's clock into one by the clock of this leader's node."""
        if self._clock is None:
            return list(start)
        offset = self._clock.offset
        return [start[0] - offset.seconds, offset.error_at(self.now())]


@contextmanager
def join_group(timeout_seconds: float) -> Iterator[ProcessGroup]:
    """Join the group of this process and those that the launcher started; alone where there is none.

    An error within becomes, on all ranks, the same RunEnded; an error that is a defect is raised as it is.
    """
    placement = placement_in(os.environ)
    group = ProcessGroup(placement, store_for(placement, limit_seconds=timeout_seconds / 2), timeout_seconds)
    try:
        group.introduce()
        yield group
    except BaseException as error:
        interruption.ignore()
        group.ending.publish(error)
        group.say_who_is_missing()
        group.ending.farewell()
        if isinstance(interruption.reason_for(error), (SizingError, Interrupted)):
            raise group.ending.ended(error) from error
        raise
    else:
        group.ending.farewell()
    finally:
        group.ending.part()
        group.close()


@dataclass(frozen=True, slots=True)
class Writers:
    """Writers in order; `ranks` are their numbers in the group, in which all ranks go through every barrier."""

    ranks: tuple[int, ...]
    group: ProcessGroup

    @property
    def index(self) -> int | None:
        """Which of the writers this rank is; None where it waits."""
        return self.ranks.index(self.group.rank) if self.group.rank in self.ranks else None

    @property
    def is_first_of_node(self) -> bool:
        """Whether this rank is the first writer of its node, which speaks for it."""
        here = self.group.placement.node
        first = next((rank for rank, node in zip(self.ranks, self.nodes, strict=True) if node == here), None)
        return self.group.rank == first

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each writer."""
        return tuple(self.group.placements[rank].node for rank in self.ranks)

    @property
    def num_nodes(self) -> int:
        """Nodes that hold a writer."""
        return len(set(self.nodes))

    def gather(self, value: Any, *, doing: str) -> list[Any]:
        """Gather every writer's value on rank 0, in their order; others' are left out. Raises as the group's."""
        values = self.group.gather(value, doing=doing)
        return [values[rank] for rank in self.ranks] if values else []

    def title(self, index: int) -> str:
        """Name a writer as people can find it: by rank and host, and by node where nodes have the same host name."""
        placement = self.group.placements[self.ranks[index]]
        namesakes = {peer.node for peer in self.group.placements if peer.hostname == placement.hostname}
        node = f" ({placement.node})" if len(namesakes) > 1 else ""
        return f"rank {placement.rank} on {placement.hostname}{node}"
