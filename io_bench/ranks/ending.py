"""How the ranks of a run end together: the first failure told to all, leave taken in order, one that speaks."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from io_bench.errors import EXIT_FAILED, PeerFailed, RanksLost, RunEnded, exit_code_of
from io_bench.interruption import Interrupted
from io_bench.ranks.attendance import Attendance
from io_bench.ranks.bounded_store import Store, wait_in_slices
from sizing.errors import SizingError

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store as TorchStore

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
    """The end of a run as one rank goes through it. What it does while a run ends is bounded in time and never raises.

    `notes` say what could not be cleaned up. `farewell_seconds` is how long ranks wait for each other's leaving.
    `missing` are the ranks that were waited for in vain.

    A failure is told to all in the store that all share; leaders tell their ranks, in the store of the node. Ranks take
    leave in the store of all, each for itself: a leader may be lost.
    """

    def __init__(self, rank: int, num_ranks: int, store: Store, attendance: Attendance, timeout_seconds: float) -> None:
        self.notes: list[str] = []
        self.farewell_seconds = min(MAX_FAREWELL_SECONDS, timeout_seconds / 4)
        self._rank = rank
        self._num_ranks = num_ranks
        self._store = self._near = store
        self._attendance = attendance
        self.missing: tuple[int, ...] = ()
        self._losses: list[RanksLost] = []
        self._heard_lost: frozenset[int] = frozenset()

    @property
    def lost(self) -> frozenset[int]:
        """The ranks that died or hang, as far as this rank has seen or heard."""
        return frozenset(rank for loss in self._losses for rank in loss.ranks) | self._heard_lost

    @property
    def is_cut_off(self) -> bool:
        """Whether this rank can no longer hear of the others."""
        return self._store.is_lost

    def hear_through(self, near: Store) -> None:
        """From here on, hear of failures in the store of this rank's node."""
        self._near = near

    def relay(self) -> None:
        """From here on, tell the ranks of this node of the first failure, whatever this rank is at."""
        self._store.background(self._relay)

    def _relay(self, store: TorchStore, is_closed: threading.Event) -> None:
        if wait_in_slices(store, [_FAILURE], is_closed.is_set):
            self._near.set(_FAILURE, store.get(_FAILURE))

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
        dead = self._attendance.dead_neighbours() if isinstance(error, Interrupted) else []
        lost = RanksLost(dead, f"{self._attendance.titles(dead)} was killed or crashed.") if dead else None
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
            self._heard_lost |= set(self._attendance.dead_neighbours())

    def part(self) -> None:
        """Let rank 0 end last, as it may host the store: the others have asked it all that they will."""
        with contextlib.suppress(RanksLost):
            if self._rank == 0:
                self._await_each({rank: _parted(rank) for rank in range(1, self._num_ranks)})
            else:
                self._store.set(_parted(self._rank), "")

    def ended(self, error: BaseException) -> RunEnded:
        """The end of the run for all: the first failure published, and the ranks that were lost."""
        failure = _failure_of(error, rank=self._rank)
        for store in dict.fromkeys((self._near, self._store)):
            with contextlib.suppress(RanksLost):
                failure = _published_in(store) or failure
        unexplained = [loss for loss in self._losses if not set(loss.ranks) <= set(failure.lost)]
        message = " ".join([*map(str, unexplained), failure.message, *self.notes])
        exit_code = EXIT_FAILED if unexplained else failure.exit_code
        return RunEnded(message, exit_code, is_speaker=self._is_speaker())

    def _is_speaker(self) -> bool:
        """Rank 0; where it is lost, the first survivor to ask; one on each node where none can be asked."""
        if not self.is_cut_off and 0 not in self.lost:
            return self._rank == 0
        with contextlib.suppress(RanksLost):
            return self._store.compare_set(_SPEAKER, "", str(self._rank)) == str(self._rank).encode()
        gone = self.lost | set(self._attendance.dead_neighbours())
        here = [peer.rank for peer in self._attendance.neighbours() if peer.rank not in gone]
        is_speaker = self._rank == min(here, default=self._rank)
        if is_speaker:
            # A speaker that ended first would be one of the dead to the others, and they would speak too.
            self._attendance.outlive(set(here) - {self._rank}, seconds=self.farewell_seconds)
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
        if not self._attendance.has_come(self._store, keys, expected, seconds=seconds, doing=_ITS_PART):
            staying = [rank for rank, key in expected.items() if not self._store.check([key])]
            if staying:
                raise self._attendance.overdue(staying, seconds=seconds, doing=_ITS_PART)


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
    """What an error on a rank is to all."""
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
