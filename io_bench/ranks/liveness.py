"""Liveness: which ranks have come, are dead or are silent; how ranks wait for others, and end together.

Every wait is bounded by the patience of the rank, and one rank finds out who is missing. The first failure is told to
all, ranks take leave in order, and one of them speaks.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from io_bench import interruption
from io_bench.errors import EXIT_FAILED, PeerFailed, RanksLost, RunEnded, exit_code_of
from io_bench.interruption import Interrupted
from io_bench.ranks.bounded_store import Store, wait_in_slices
from io_bench.ranks.placement import Placement
from sizing.errors import SizingError
from sizing.units import seconds_text

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore


SECONDS_BETWEEN_LOOKS = 0.3
"""A dead rank is named within a second, and the store is asked little by thousands of ranks."""
_SECONDS_BETWEEN_GLANCES = 0.01
"""Pause between two looks at the processes of this machine, while there is nothing else to do."""


class Liveness:
    """Liveness of the ranks as one rank sees it: by their keys in a store, and by their processes where it can.

    `placements` are known once the ranks have introduced themselves; until then its own alone.
    """

    def __init__(self, placement: Placement) -> None:
        self.placements: tuple[Placement, ...] = (placement,)
        self._placement = placement

    def has_come(
        self,
        store: Store,
        keys: Sequence[str],
        suspects: Mapping[int, str],
        *,
        seconds: float,
        doing: str,
        heeded: Callable[[], None] = lambda: None,
    ) -> bool:
        """Wait until all keys are there; whether they came in time. `suspects` are to set a key each before they die.

        Raises RanksLost for ranks that died, or host a store that is lost; and whatever `heeded` raises.
        """
        deadline = time.monotonic() + seconds
        try:
            if store.check(keys):
                return True
            with contextlib.closing(store.bell(keys)) as bell:
                while not bell.wait(min(SECONDS_BETWEEN_LOOKS, max(0.0, deadline - time.monotonic()))):
                    interruption.heed()
                    heeded()
                    if store.check(keys):
                        return True
                    self.raise_dead(store, suspects, doing=doing)
                    if time.monotonic() > deadline:
                        return False
        except RanksLost as loss:
            self._raise_dead_host(loss, doing=doing)
            raise
        return True

    def raise_dead(self, store: Store, suspects: Mapping[int, str], *, doing: str) -> None:
        """Raise RanksLost for ranks that are dead and whose key is not there."""
        lost = [rank for rank in self.dead_neighbours() if rank in suspects and not store.check([suspects[rank]])]
        if lost:
            raise RanksLost(lost, self._killed(lost, doing=doing))

    def overdue(self, ranks: Sequence[int], *, seconds: float, doing: str) -> RanksLost:
        """Make the error for ranks that others have waited for."""
        reason = f"timeout: did not finish {doing} within {seconds_text(seconds)} of the others"
        message = f"{self.titles(ranks)} {reason}. It hangs, or --timeout is too short."
        return RanksLost(ranks, message, are_overdue=True)

    def dead_neighbours(self) -> list[int]:
        """Ranks whose processes this rank could see, and which have ended."""
        return [peer.rank for peer in self.neighbours() if peer.is_dead()]

    def outlive(self, ranks: Collection[int], *, seconds: float) -> None:
        """Wait until the processes of neighbours have ended, for `seconds` at most."""
        deadline = time.monotonic() + seconds
        while not set(ranks) <= set(self.dead_neighbours()) and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_GLANCES)

    def neighbours(self) -> list[Placement]:
        """The ranks whose processes this rank can see, itself among them."""
        return [peer for peer in self.placements if peer.is_neighbour_of(self._placement)]

    def titles(self, ranks: Sequence[int]) -> str:
        """Name ranks as people can find them, by process and node."""
        known = {placement.rank: placement.title for placement in self.placements}
        return " and ".join(known.get(rank, f"Rank {rank}") for rank in ranks)

    def _raise_dead_host(self, loss: RanksLost, *, doing: str) -> None:
        """Raise RanksLost in better words for a lost host whose process is seen to be dead.

        A connection breaks a moment before its process is seen to have ended.
        """
        hosts = {peer.rank for peer in self.neighbours()} & set(loss.ranks)
        deadline = time.monotonic() + SECONDS_BETWEEN_LOOKS
        while hosts and time.monotonic() < deadline:
            dead = sorted(hosts & set(self.dead_neighbours()))
            if dead:
                raise RanksLost(dead, self._killed(dead, doing=doing)) from loss
            time.sleep(_SECONDS_BETWEEN_GLANCES)

    def _killed(self, ranks: Sequence[int], *, doing: str) -> str:
        return f"{self.titles(ranks)} was killed or crashed before it finished {doing}."


MAX_FAREWELL_SECONDS = 10.0
"""Schedulers kill what has not ended about 30 s after they asked: Slurm's KillWait, Kubernetes' grace period."""
_FAILURE, _SPEAKER = "failure", "speaker"
_ITS_PART = "its part"


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failure of any rank; `lost` are the ranks that it is about, `are_overdue` if awaited in vain."""

    message: str
    exit_code: int
    lost: tuple[int, ...] = ()
    are_overdue: bool = False


class Ending:
    """The end of a run as one rank goes through it. Its steps are bounded in time and never raise.

    `notes` say what could not be cleaned up. `farewell_seconds` is how long ranks wait for each other's leaving.
    `missing` are the ranks that were waited for in vain.

    A failure is told to all in the store that all share; leaders tell their ranks, in the store of the node. Ranks take
    leave in the store of all, each for itself: a leader may be lost.
    """

    def __init__(self, rank: int, num_ranks: int, store: Store, liveness: Liveness, timeout_seconds: float) -> None:
        self.notes: list[str] = []
        self.farewell_seconds = min(MAX_FAREWELL_SECONDS, timeout_seconds / 4)
        self._rank = rank
        self._num_ranks = num_ranks
        self._store = self._near = store
        self._liveness = liveness
        self.missing: tuple[int, ...] = ()
        self._losses: list[RanksLost] = []
        self._heard_lost: frozenset[int] = frozenset()

    @property
    def lost(self) -> frozenset[int]:
        """Ranks that died or hang, as far as this rank has seen or heard."""
        return frozenset(rank for loss in self._losses for rank in loss.ranks) | self._heard_lost

    @property
    def is_cut_off(self) -> bool:
        """Whether this rank can no longer hear of the others."""
        return self._store.is_lost

    def hear_through(self, near: Store) -> None:
        """Hear of failures, from here on, in the store of this rank's node."""
        self._near = near

    def relay(self) -> None:
        """Tell the ranks of this node, from here on, of the first failure, whatever this rank is at."""

        def relay(store: TorchStore, is_closed: threading.Event) -> None:
            if wait_in_slices(store, [_FAILURE], is_closed.is_set):
                self._near.set(_FAILURE, store.get(_FAILURE))

        self._store.background(relay)

    def raise_published(self) -> None:
        """Raise PeerFailed where a rank has said that it failed."""
        failure = _published_in(self._near)
        if failure:
            self._heard_lost |= set(failure.lost)
            self.missing = failure.lost if failure.are_overdue else ()
            raise PeerFailed(failure.message, failure.exit_code)

    def publish(self, error: BaseException) -> None:
        """Tell the peers that this rank has failed, unless another has told so before.

        A launcher interrupts the ranks of a node of which one has died: then that is the failure.
        """
        if isinstance(error, RanksLost) and error not in self._losses:
            self._losses.append(error)
            self.missing = error.ranks if error.are_overdue else ()
        error = _cause_of(error)
        dead = self._liveness.dead_neighbours() if isinstance(error, Interrupted) else []
        lost = RanksLost(dead, f"{self._liveness.titles(dead)} was killed or crashed.") if dead else None
        failure = _failure_of(lost or error, rank=self._rank)
        text = json.dumps(dataclasses.asdict(failure))
        for store in dict.fromkeys((self._store, self._near)):
            with contextlib.suppress(RanksLost):
                text = store.compare_set(_FAILURE, "", text).decode()

    def roll_call(self) -> None:
        """Say that this rank has left; on rank 0, take over the notes of all others as they leave.

        Who does not answer is `lost`.
        """
        with contextlib.suppress(RanksLost):
            if self._rank != 0:
                self._store.set(_gone(self._rank), json.dumps(self.notes))
                return
            self._await_each({rank: _gone(rank) for rank in range(1, self._num_ranks)})
            peers = [_gone(rank) for rank in range(1, self._num_ranks)]
            for peer in filter(lambda key: self._store.check([key]), peers):
                self.notes += json.loads(self._store.get(peer))

    def farewell(self) -> None:
        """Let rank 0 finish first: a launcher ends everybody else once one rank has ended."""
        with contextlib.suppress(RanksLost):
            if self._rank == 0:
                self._store.set(_gone(0), "")
            else:
                self._await_each({0: _gone(0)})
        if self.is_cut_off:
            self._heard_lost |= set(self._liveness.dead_neighbours())

    def part(self) -> None:
        """Let rank 0 end last, as it may host the store: the others have asked it all that they will."""
        with contextlib.suppress(RanksLost):
            if self._rank == 0:
                self._await_each({rank: _parted(rank) for rank in range(1, self._num_ranks)})
            else:
                self._store.set(_parted(self._rank), "")

    def ended(self, error: BaseException) -> RunEnded:
        """Make the end of the run for all: the first failure published, and the ranks that were lost."""
        failure = _failure_of(_cause_of(error), rank=self._rank)
        for store in dict.fromkeys((self._near, self._store)):
            with contextlib.suppress(RanksLost):
                failure = _published_in(store) or failure
        unexplained = [loss for loss in self._losses if not set(loss.ranks) <= set(failure.lost)]
        message = " ".join([*map(str, unexplained), failure.message, *self.notes])
        exit_code = EXIT_FAILED if unexplained else failure.exit_code
        return RunEnded(message, exit_code, is_speaker=self._is_speaker())

    def _is_speaker(self) -> bool:
        """Whether this rank speaks: rank 0; without it the first survivor to ask; else one on each node."""
        if not self.is_cut_off and 0 not in self.lost:
            return self._rank == 0
        with contextlib.suppress(RanksLost):
            return self._store.compare_set(_SPEAKER, "", str(self._rank)) == str(self._rank).encode()
        gone = self.lost | set(self._liveness.dead_neighbours())
        here = [peer.rank for peer in self._liveness.neighbours() if peer.rank not in gone]
        is_speaker = self._rank == min(here, default=self._rank)
        if is_speaker:
            # A speaker that ended first would be one of the dead to the others, and they would speak too.
            self._liveness.outlive(set(here) - {self._rank}, seconds=self.farewell_seconds)
        return is_speaker

    def _await_each(self, key_of: Mapping[int, str]) -> None:
        """Wait until ranks have set their keys, and note those that do not."""
        limit = self.farewell_seconds * (1 if self._rank == 0 else 2)
        deadline = time.monotonic() + limit
        while expected := {rank: key for rank, key in key_of.items() if rank not in self.lost}:
            try:
                self._await(expected, seconds=deadline - time.monotonic())
            except RanksLost as loss:
                self._losses.append(loss)
                if self.is_cut_off:
                    return
            else:
                return

    def _await(self, expected: Mapping[int, str], *, seconds: float) -> None:
        """Raise RanksLost for those that have not left in time."""
        keys = list(expected.values())
        if not self._liveness.has_come(self._store, keys, expected, seconds=seconds, doing=_ITS_PART):
            staying = [rank for rank, key in expected.items() if not self._store.check([key])]
            if staying:
                raise self._liveness.overdue(staying, seconds=seconds, doing=_ITS_PART)


def _cause_of(error: BaseException) -> BaseException:
    """Find the cause: the error itself where it is that of another rank; else the signal, where one has come."""
    return error if isinstance(error, (PeerFailed, RanksLost)) else interruption.reason_for(error)


def _published_in(store: Store) -> Failure | None:
    if not store.check([_FAILURE]):
        return None
    document = json.loads(store.get(_FAILURE))
    return Failure(**document | {"lost": tuple(document["lost"])})


def _gone(rank: int) -> str:
    return f"gone/{rank}"


def _parted(rank: int) -> str:
    return f"parted/{rank}"


def _failure_of(error: BaseException, *, rank: int) -> Failure:
    """Describe an error on one rank for all ranks."""
    match error:
        case SizingError():
            message = str(error)
        case Interrupted():
            message = f"Rank {rank} {error}."
        case _:
            message = f"Rank {rank} failed: {type(error).__name__}: {error}."
    if isinstance(error, RanksLost):
        return Failure(message, exit_code_of(error), error.ranks, error.are_overdue)
    return Failure(message, exit_code_of(error))


Absent = Callable[[], list[int]]
"""Finds who has not come."""

_INQUIRER = "inquirer"


class Waiting:
    """The waits of a rank, in the store that all share or in that of its node.

    Methods raise RanksLost for ranks that died or did not come in time, PeerFailed where one failed.
    """

    def __init__(self, rank: int, store: Store, liveness: Liveness, ending: Ending, patience_seconds: float) -> None:
        self.patience_seconds = patience_seconds
        self._rank = rank
        self._store = store
        self._liveness = liveness
        self._ending = ending

    def until_there(
        self, store: Store, keys: Sequence[str], suspects: Mapping[int, str], absent: Absent, *, doing: str
    ) -> None:
        """Wait until all keys are in a store. `suspects` are to set a key each there before they die.

        Args: `doing`, what the ranks are at, for the message that names a missing one.
        """
        came = self._liveness.has_come(
            store,
            keys,
            suspects,
            seconds=self.patience_seconds,
            doing=doing,
            heeded=self._ending.raise_published,
        )
        if not came:
            raise self._overdue(absent, doing=doing)

    def _overdue(self, absent: Absent, *, doing: str) -> RanksLost:
        """Make the error for ranks that have not come, which one rank finds out for all."""
        inquirer = int(self._store.compare_set(_INQUIRER, "", str(self._rank)))
        if inquirer == self._rank:
            return self._liveness.overdue(absent(), seconds=self.patience_seconds, doing=doing)
        deadline = time.monotonic() + self._ending.farewell_seconds
        while time.monotonic() < deadline:
            self._ending.raise_published()
            interruption.sleep(SECONDS_BETWEEN_LOOKS)
        return self._liveness.overdue([inquirer], seconds=self.patience_seconds, doing=doing)


def absent_of(store: Store, keys: Mapping[int, str]) -> list[int]:
    """List the ranks whose key is not in a store."""
    return [rank for rank, key in keys.items() if not store.check([key])]
