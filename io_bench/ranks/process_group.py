"""The ranks of one run: how they agree and wait for each other; how they end is `ending`.

Every wait is bounded, wakes up for signals and for a peer's failure, and names who is missing.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from io_bench import interruption
from io_bench.interruption import Interrupted
from io_bench.ranks.attendance import SECONDS_BETWEEN_LOOKS, Attendance
from io_bench.ranks.bounded_store import Store
from io_bench.ranks.ending import Ending
from io_bench.ranks.placement import Placement, placement_in
from io_bench.ranks.rendezvous import store_for
from sizing.errors import InvalidInput, Problem, SizingError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

_Made = TypeVar("_Made")


class ProcessGroup:
    """One rank among its peers. Values that ranks exchange are JSON.

    `timeout_seconds` bounds the time from one rank's death or hang to the end of all others: they wait
    `patience_seconds` for it, then clean up and take leave.
    """

    def __init__(self, placement: Placement, store: Store, timeout_seconds: float) -> None:
        self.placement = placement
        self.rank = placement.rank
        self.num_ranks = placement.num_ranks
        self._timeout_seconds = timeout_seconds
        self._store = store
        self._attendance = Attendance(placement, store)
        self.ending = Ending(self.rank, self.num_ranks, store, self._attendance, timeout_seconds)
        self._round = 0

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
        """Learn who the peers are and where."""
        cards = self.exchange(dataclasses.asdict(self.placement), doing="starting")
        self._attendance.placements = tuple(Placement(**card) for card in cards)

    def exchange(self, value: Any, *, doing: str) -> list[Any]:
        """Every rank's value, in the order of ranks; a barrier as well.

        Args: `doing`, what the ranks are at, for the message that names a missing one.
        Raises RanksLost for ranks that died or did not come in time, PeerFailed where one failed.
        """
        self._round += 1
        parts = {rank: _part(self._round, rank) for rank in range(self.num_ranks)}
        whole = f"round/{self._round}/all"
        self._store.set(parts[self.rank], json.dumps(value))
        awaited = list(parts.values()) if self.rank == 0 else [whole]
        self._attendance.wait(
            awaited,
            parts,
            seconds=self.patience_seconds,
            doing=doing,
            heeded=self.ending.raise_published,
            sleep=time.sleep if self.rank == 0 else self._store.bell(whole, self.patience_seconds).wait,
        )
        if self.rank != 0:
            return list(json.loads(self._store.get(whole)))
        values = [json.loads(self._store.get(part)) for part in parts.values()]
        self._store.set(whole, json.dumps(values))
        return values

    @property
    def collective_seconds(self) -> float:
        """How long a collective may wait for ranks, so that there is time left to find who is at fault."""
        return self.patience_seconds - self.ending.farewell_seconds

    def store_for_collectives(self) -> TorchStore:
        """A store to connect the ranks through, which all ranks ask for at the same point."""
        return self._store.beside(f"collectives/{self._round}")

    def watched(self, work: Callable[[], _Made], *, doing: str) -> _Made:
        """What `work` returns, which may wait for other ranks where this group cannot see it: in collectives.

        It runs in a thread of its own, left behind where this rank has to go on without it. Raises what `work`
        raises, RanksLost for ranks that died meanwhile, PeerFailed where one failed.
        """
        outcome: concurrent.futures.Future[_Made] = concurrent.futures.Future()
        threading.Thread(target=_fulfil, args=(outcome, work), daemon=True).start()
        next_parts = {rank: _part(self._round + 1, rank) for rank in range(self.num_ranks)}
        while not concurrent.futures.wait([outcome], SECONDS_BETWEEN_LOOKS).done:
            self.ending.raise_published()
            self._attendance.raise_dead(next_parts, doing=doing)
        return outcome.result()

    def blame(self, ranks: Iterable[int], *, doing: str) -> None:
        """Find who is at fault for work that has failed on every one of `ranks` that lives, of which this is one.

        Raises PeerFailed for one that says so, RanksLost for those that are silent; returns where none is.
        """
        failed = {rank: f"failed/{self._round}/{rank}" for rank in ranks}
        self._store.set(failed[self.rank], "")
        keys, seconds = list(failed.values()), self.ending.farewell_seconds
        self._attendance.wait(keys, failed, seconds=seconds, doing=doing, heeded=self.ending.raise_published)

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
        for found in self.exchange([dataclasses.asdict(problem) for problem in problems], doing=doing):
            if found:
                raise InvalidInput(Problem(**problem) for problem in found)
        return made[0]


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
        group.ending.farewell()
        if isinstance(error, (SizingError, Interrupted)):
            raise group.ending.ended(error) from error
        raise
    group.ending.farewell()


def _fulfil(outcome: concurrent.futures.Future[_Made], work: Callable[[], _Made]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
        outcome.set_exception(error)


def _part(number: int, rank: int) -> str:
    return f"round/{number}/{rank}"
