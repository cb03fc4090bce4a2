"""Who of the ranks has come, who is dead, and who is silent. Every wait is bounded, and names who is missing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from io_bench.errors import RanksLost
from io_bench.ranks.bounded_store import Store
from io_bench.ranks.placement import Placement
from sizing.units import seconds_text

SECONDS_BETWEEN_LOOKS = 0.3
"""A dead rank is named within a second, and the store is asked little by thousands of ranks."""
_SECONDS_BETWEEN_GLANCES = 0.01
"""At the processes of this machine, while there is nothing else to do."""


class Attendance:
    """The ranks as one of them sees them: by what they put into a store, and by their processes where it can.

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
                    heeded()
                    if store.check(keys):
                        return True
                    self.raise_dead(store, suspects, doing=doing)
                    if time.monotonic() > deadline:
                        return False
        except RanksLost as loss:
            self._raise_seen_dead(loss, doing=doing)
            raise
        return True

    def raise_dead(self, store: Store, suspects: Mapping[int, str], *, doing: str) -> None:
        """Raise RanksLost for ranks that are dead and whose key is not there."""
        lost = [rank for rank in self.dead_neighbours() if rank in suspects and not store.check([suspects[rank]])]
        if lost:
            raise RanksLost(lost, self._killed(lost, doing=doing))

    def overdue(self, ranks: Sequence[int], *, seconds: float, doing: str) -> RanksLost:
        """The error for ranks that others have waited for."""
        reason = f"timeout: did not finish {doing} within {seconds_text(seconds)} of the others"
        message = f"{self.titles(ranks)} {reason}. It hangs, or --timeout is too short."
        return RanksLost(ranks, message, are_overdue=True)

    def dead_neighbours(self) -> list[int]:
        """The ranks whose processes this rank could see, and are gone."""
        return [peer.rank for peer in self.neighbours() if peer.is_dead()]

    def outlive(self, ranks: Collection[int], *, seconds: float) -> None:
        """Wait until the processes of neighbours have ended, so long at most."""
        deadline = time.monotonic() + seconds
        while not set(ranks) <= set(self.dead_neighbours()) and time.monotonic() < deadline:
            time.sleep(_SECONDS_BETWEEN_GLANCES)

    def neighbours(self) -> list[Placement]:
        """The ranks whose processes this rank can see, itself among them."""
        return [peer for peer in self.placements if peer.is_neighbour_of(self._placement)]

    def titles(self, ranks: Sequence[int]) -> str:
        """Ranks as people can find them, by process and node."""
        known = {placement.rank: placement.title for placement in self.placements}
        return " and ".join(known.get(rank, f"Rank {rank}") for rank in ranks)

    def _raise_seen_dead(self, loss: RanksLost, *, doing: str) -> None:
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
