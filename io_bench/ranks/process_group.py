"""The ranks of one run: how they agree, wait for each other, and end together.

Every wait is bounded, wakes up for signals and for a peer's failure, and names who is missing.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from io_bench import interruption
from io_bench.errors import EXIT_FAILED, PeerFailed, RanksLost, RunEnded
from io_bench.interruption import Interrupted
from io_bench.ranks.attendance import SECONDS_BETWEEN_LOOKS, Attendance
from io_bench.ranks.failure import Failure, failure_of
from io_bench.ranks.placement import Placement, placement_in
from io_bench.ranks.rendezvous import Store, store_for
from sizing.errors import InvalidInput, Problem, SizingError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

MOST_FAREWELL_SECONDS = 10.0
_FAILURE, _GONE, _SPEAKER = "failure", "gone", "speaker"

_Made = TypeVar("_Made")


class ProcessGroup:
    """One rank among its peers. Values that ranks exchange are JSON.

    `timeout_seconds` bounds the time from one rank's death or hang to the end of all others: they wait
    `patience_seconds` for it, then clean up and take leave. `notes` say what could not be cleaned up.
    """

    def __init__(self, placement: Placement, store: Store, timeout_seconds: float) -> None:
        self.placement = placement
        self.rank = placement.rank
        self.num_ranks = placement.num_ranks
        self.notes: list[str] = []
        self._timeout_seconds = timeout_seconds
        self._farewell_seconds = min(MOST_FAREWELL_SECONDS, timeout_seconds / 4)
        self._losses: list[RanksLost] = []
        self._heard_lost: frozenset[int] = frozenset()
        self._store = store
        self._attendance = Attendance(placement, store)
        self._round = 0

    @property
    def patience_seconds(self) -> float:
        """How long this rank waits for others in a barrier."""
        return self._timeout_seconds - 2 * self._farewell_seconds

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Where each rank is; before the ranks have introduced themselves, its own place alone."""
        return self._attendance.placements

    @property
    def nodes(self) -> tuple[str, ...]:
        """The distinct nodes, in the order of their first rank."""
        return tuple(dict.fromkeys(placement.node for placement in self.placements))

    @property
    def num_local_ranks(self) -> int:
        """Ranks on this rank's node."""
        return sum(placement.node == self.placement.node for placement in self.placements)

    @property
    def lost(self) -> frozenset[int]:
        """The ranks that died or hang, as far as this rank has seen or heard."""
        return frozenset(rank for loss in self._losses for rank in loss.ranks) | self._heard_lost

    @property
    def is_cut_off(self) -> bool:
        """Whether this rank can no longer hear of the others."""
        return self._store.is_lost

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
        self._attendance.wait(awaited, parts, seconds=self.patience_seconds, doing=doing, heeded=self._raise_published)
        if self.rank != 0:
            return list(json.loads(self._store.get(whole)))
        values = [json.loads(self._store.get(part)) for part in parts.values()]
        self._store.set(whole, json.dumps(values))
        return values

    @property
    def collective_seconds(self) -> float:
        """How long a collective may wait for ranks, so that there is time left to find who is at fault."""
        return self.patience_seconds - self._farewell_seconds

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
            self._raise_published()
            self._attendance.raise_dead(next_parts, doing=doing)
        return outcome.result()

    def blame(self, ranks: Iterable[int], *, doing: str) -> None:
        """Find who is at fault for work that has failed on every one of `ranks` that lives, of which this is one.

        Raises PeerFailed for one that says so, RanksLost for those that are silent; returns where none is.
        """
        failed = {rank: f"failed/{self._round}/{rank}" for rank in ranks}
        self._store.set(failed[self.rank], "")
        keys, seconds = list(failed.values()), self._farewell_seconds
        self._attendance.wait(keys, failed, seconds=seconds, doing=doing, heeded=self._raise_published)

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

    def publish(self, error: BaseException) -> None:
        """Tell the peers that this rank has failed, unless another has told so before.

        A launcher interrupts the ranks of a node of which one has died: then that is the failure.
        """
        if isinstance(error, RanksLost) and error not in self._losses:
            self._losses.append(error)
        dead = self._attendance.dead_neighbours() if isinstance(error, Interrupted) else []
        lost = RanksLost(dead, f"{self._attendance.titles(dead)} was killed or crashed.") if dead else None
        failure = failure_of(lost or error, rank=self.rank)
        with contextlib.suppress(RanksLost):
            self._store.compare_set(_FAILURE, "", json.dumps(dataclasses.asdict(failure)))

    def roll_call(self) -> None:
        """Say that this rank has left; on rank 0, take over the notes of all others as they leave.

        Never raises: it is called while a run ends, whatever the reason. Who does not answer is `lost`.
        """
        with contextlib.suppress(RanksLost):
            if self.rank != 0:
                self._store.set(_gone(self.rank), json.dumps(self.notes))
                return
            self._await_leaving(range(1, self.num_ranks))
            peers = [_gone(rank) for rank in range(1, self.num_ranks)]
            for peer in filter(lambda key: self._store.check([key]), peers):
                self.notes += json.loads(self._store.get(peer))

    def farewell(self) -> None:
        """Let rank 0 finish first: a launcher ends everybody else once one rank has ended. Never raises."""
        with contextlib.suppress(RanksLost):
            if self.rank == 0:
                self._store.set(_gone(0), "")
            else:
                self._await_leaving([0])
        if self.is_cut_off:
            self._heard_lost |= set(self._attendance.dead_neighbours())

    def ended(self, error: BaseException) -> RunEnded:
        """The end of the run for all: the first failure published, and the ranks that were lost."""
        failure = failure_of(error, rank=self.rank)
        with contextlib.suppress(RanksLost):
            failure = self._published() or failure
        unexplained = [loss for loss in self._losses if not set(loss.ranks) <= set(failure.lost)]
        message = " ".join([*map(str, unexplained), failure.message, *self.notes])
        exit_code = EXIT_FAILED if unexplained else failure.exit_code
        return RunEnded(message, exit_code, is_speaker=self._is_speaker())

    def _published(self) -> Failure | None:
        if not self._store.check([_FAILURE]):
            return None
        return Failure(**json.loads(self._store.get(_FAILURE)))

    def _raise_published(self) -> None:
        failure = self._published()
        if failure:
            self._heard_lost |= set(failure.lost)
            raise PeerFailed(failure.message, failure.exit_code)

    def _is_speaker(self) -> bool:
        """Rank 0; where it is lost, the first survivor to ask; one on each node where none can be asked."""
        if not self.is_cut_off and 0 not in self.lost:
            return self.rank == 0
        with contextlib.suppress(RanksLost):
            return self._store.compare_set(_SPEAKER, "", str(self.rank)) == str(self.rank).encode()
        gone = self.lost | set(self._attendance.dead_neighbours())
        here = (peer.rank for peer in self._attendance.neighbours() if peer.rank not in gone)
        return self.rank == min(here, default=self.rank)

    def _await_leaving(self, ranks: range | list[int]) -> None:
        """Wait until the ranks have left, and note those that do not."""
        limit = self._farewell_seconds * (1 if self.rank == 0 else 2)
        deadline = time.monotonic() + limit
        while expected := {rank: _gone(rank) for rank in ranks if rank not in self.lost}:
            remaining = deadline - time.monotonic()
            try:
                self._attendance.wait(list(expected.values()), expected, seconds=remaining, doing="its part")
            except RanksLost as loss:
                self._losses.append(loss)
                if self.is_cut_off:
                    return
            else:
                return


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
        group.publish(error)
        group.farewell()
        if isinstance(error, (SizingError, Interrupted)):
            raise group.ended(error) from error
        raise
    group.farewell()


def _fulfil(outcome: concurrent.futures.Future[_Made], work: Callable[[], _Made]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
        outcome.set_exception(error)


def _part(number: int, rank: int) -> str:
    return f"round/{number}/{rank}"


def _gone(rank: int) -> str:
    return f"{_GONE}/{rank}"
