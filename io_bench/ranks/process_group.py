"""The ranks of one run, as one of them deals with the others; how they end is `ending`.

Every wait is bounded, wakes up for signals and for a peer's failure, and names who is missing.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from io_bench import interruption
from io_bench.interruption import Interrupted
from io_bench.ranks.attendance import SECONDS_BETWEEN_LOOKS, Attendance
from io_bench.ranks.bounded_store import Store
from io_bench.ranks.clock import NodeClock, Now, keep_answering
from io_bench.ranks.ending import Ending
from io_bench.ranks.missing import listed, node_by_launcher
from io_bench.ranks.placement import Placement, placement_in
from io_bench.ranks.rendezvous import store_for
from io_bench.ranks.rounds import Rounds
from io_bench.ranks.seating import Seating, seated
from io_bench.ranks.waiting import Waiting, absent_of
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput, Problem, SizingError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

_Made = TypeVar("_Made")

LEAD_SECONDS = 0.1
"""From telling all when to start to that start: a busy rank may take this long to hear of it."""
_LEAD_ROUNDS = 2.0
"""And this many rounds through all leaders, as long as one took when the ranks met."""


@dataclass(frozen=True, slots=True)
class Start:
    """An agreed start: `instant` by the clock of this node, which may be off rank 0's by `error_seconds`."""

    instant: float
    error_seconds: float


class ProcessGroup:
    """One rank among its peers. Values that they give each other are JSON.

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
        self._attendance = Attendance(placement)
        self.ending = Ending(self.rank, self.num_ranks, store, self._attendance, timeout_seconds)
        self._waiting = Waiting(self.rank, store, self._attendance, self.ending, self.patience_seconds)
        self._seat(Seating.of([placement], leader=self.rank, near=store))
        self._clock: NodeClock | None = None
        self._lead_seconds = LEAD_SECONDS

    @property
    def patience_seconds(self) -> float:
        """How long this rank waits for others in a barrier."""
        return self._timeout_seconds - 2 * self.ending.farewell_seconds

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where each rank is; before the ranks have introduced themselves, its own place alone."""
        return self._attendance.placements

    @property
    def nodes(self) -> tuple[str, ...]:
        """The distinct nodes, in the order of their first rank."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements))

    def introduce(self) -> None:
        """Learn who the peers are and where, meet those of this node, and compare clocks."""
        limit_seconds = self._timeout_seconds / 2
        self._seat(seated(self.placement, self._store, self._waiting, self.ending, limit_seconds=limit_seconds))
        self._compare_clocks()
        self.meet(doing="starting")
        begun = time.monotonic()
        self.meet(doing="starting")
        self._lead_seconds = LEAD_SECONDS + _LEAD_ROUNDS * (time.monotonic() - begun)

    def gathered(self, value: Any, *, doing: str) -> list[Any]:
        """On rank 0 every rank's value, in the order of ranks; nothing on the others, which do not wait."""
        return self._rounds.gathered(value, doing=doing)

    def told(self, value: Any, *, doing: str) -> Any:
        """Rank 0's value, on all ranks."""
        return self._rounds.told(value, doing=doing)

    def decided(self, value: Any, judge: Callable[[list[Any]], Any], *, doing: str) -> Any:
        """What rank 0 makes of every rank's value, on all ranks; a barrier as well."""
        values = self.gathered(value, doing=doing)
        return self.told(judge(values) if self.rank == 0 else None, doing=doing)

    def meet(self, *, doing: str) -> None:
        """A barrier."""
        self.decided(None, lambda _: None, doing=doing)

    def on_node(self, value: Any, *, doing: str) -> list[Any]:
        """The value of every rank of this node, in the order of ranks. No other node hears of it."""
        return self._rounds.on_node(value, doing=doing)

    def from_peer(self, value: Any, source: int, *, doing: str) -> Any:
        """The value that the rank `source` gives."""
        return self._rounds.from_peer(value, source, doing=doing)

    def start(self, *, doing: str) -> Start:
        """When all ranks start, once all are ready."""
        self.gathered(None, doing=f"preparing for {doing}")
        agreed = [self.now() + self._lead_seconds, 0.0]
        told = self._rounds.told(agreed, doing=f"agreeing when to start {doing}", heard=self._by_clock_here)
        return Start(*told)

    def agree(self, make: Callable[[], _Made], *, doing: str) -> _Made:
        """What `make` returns on this rank, once it has worked on every rank.

        Raises InvalidInput on all ranks where it was raised on any: the problems of the lowest such rank.
        """
        made: list[_Made] = []
        problems: tuple[Problem, ...] = ()
        try:
            made.append(make())
        except InvalidInput as error:
            problems = error.problems
        own = [dataclasses.asdict(problem) for problem in problems]
        found = self.decided(own, lambda values: next(filter(None, values), []), doing=doing)
        if found:
            raise InvalidInput(Problem(**problem) for problem in found)
        return made[0]

    @property
    def collective_seconds(self) -> float:
        """How long a collective may wait for ranks, so that there is time left to find who is at fault."""
        return self.patience_seconds - self.ending.farewell_seconds

    def store_for_collectives(self) -> TorchStore:
        """A store to connect the ranks through, which all ranks ask for at the same point."""
        return self._store.beside(f"collectives/{self._rounds.number}")

    def watched(self, work: Callable[[], _Made], *, doing: str) -> _Made:
        """What `work` returns, which may wait for other ranks where this group cannot see it: in collectives.

        It runs in a thread of its own, left behind where this rank has to go on without it. Raises what `work`
        raises, RanksLost for ranks that died meanwhile, PeerFailed where one failed.
        """
        outcome: concurrent.futures.Future[_Made] = concurrent.futures.Future()
        threading.Thread(target=_fulfil, args=(outcome, work), daemon=True).start()
        next_parts = self._rounds.parts(self._rounds.number + 1)
        while not concurrent.futures.wait([outcome], SECONDS_BETWEEN_LOOKS).done:
            self.ending.raise_published()
            self._attendance.raise_dead(self._near, next_parts, doing=doing)
        return outcome.result()

    def blame(self, ranks: Iterable[int], *, doing: str) -> None:
        """Find who is at fault for work that has failed on every one of `ranks` that lives, of which this is one.

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
        if not self._attendance.has_come(self._store, keys, awaited, seconds=seconds, doing=doing, heeded=heeded):
            raise self._attendance.overdue(absent_of(self._store, awaited), seconds=seconds, doing=doing)
        if self.rank == first:
            self._store.set(none_is_silent, "")

    def say_who_is_missing(self) -> None:
        """Say on this rank's terminal which ranks were waited for in vain, if any."""
        if self.ending.missing:
            Terminal(is_speaker=True).say(f"Missing: {listed(self.ending.missing, self._node_title)}.")

    def close(self) -> None:
        """Let go of the stores."""
        for store in dict.fromkeys((self._near, self._store)):
            store.close()

    def _seat(self, seating: Seating) -> None:
        self._attendance.placements = seating.placements
        self._seating, self._near = seating, seating.near
        self._rounds = Rounds(self.rank, self._store, seating, self._waiting)

    def _compare_clocks(self) -> None:
        """Have the leaders of other nodes know the clock of rank 0."""
        if self.rank == 0 and self._seating.others:
            self._store.background(functools.partial(keep_answering, now=self.now))
        if self.rank not in self._seating.others:
            return
        self._clock = NodeClock(num_leaders=len(self._seating.others), now=self.now)
        self._store.background(self._clock.follow)
        deadline = time.monotonic() + self.patience_seconds
        while not self._clock.is_known.wait(SECONDS_BETWEEN_LOOKS):
            self.ending.raise_published()
            if time.monotonic() > deadline:
                raise self._attendance.overdue([0], seconds=self.patience_seconds, doing="starting")

    def _by_clock_here(self, start: Sequence[float]) -> list[float]:
        """A start by rank 0's clock, as this leader's node has it."""
        if self._clock is None:
            return list(start)
        offset = self._clock.offset
        return [start[0] - offset.seconds, offset.error_at(self.now())]

    def _node_title(self, rank: int) -> str:
        """The node of a rank as people know it: its host, or what the launcher said."""
        known = {placement.rank: placement.hostname for placement in self.placements}
        return known.get(rank) or node_by_launcher(rank, os.environ)


@contextmanager
def joined(timeout_seconds: float) -> Iterator[ProcessGroup]:
    """The group of this process and those that the launcher started; alone where there is none.

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
        if isinstance(error, (SizingError, Interrupted)):
            raise group.ending.ended(error) from error
        raise
    else:
        group.ending.farewell()
    finally:
        group.ending.part()
        group.close()


def _fulfil(outcome: concurrent.futures.Future[_Made], work: Callable[[], _Made]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
        outcome.set_exception(error)
