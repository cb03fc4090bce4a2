"""Who of the ranks has come, who is dead, and who is silent. Every wait is bounded, and names who is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from io_bench.errors import RanksLost
from io_bench.ranks.bounded_store import Store
from io_bench.ranks.placement import Placement
from sizing.units import seconds_text

SECONDS_BETWEEN_LOOKS = 0.3
"""A dead rank is named within a second, and the store is asked little by thousands of ranks."""
_MAX_PAUSE_SECONDS = 0.05
"""Between two questions whether all have come: what ranks wait at a barrier beyond the slowest."""

Sleep = Callable[[float], object]
"""Pauses for so many seconds, or less."""


class Attendance:
    """The ranks as one of them sees them: by what they put into the store, and by their processes where it can.

    `placements` are known once the ranks have introduced themselves; until then its own alone.
    """

    def __init__(self, placement: Placement, store: Store) -> None:
        self.placements: tuple[Placement, ...] = (placement,)
        self._placement = placement
        self._store = store

    def wait(
        self,
        keys: list[str],
        key_of_rank: Mapping[int, str],
        *,
        seconds: float,
        doing: str,
        heeded: Callable[[], None] = lambda: None,
        sleep: Sleep = time.sleep,
    ) -> None:
        """Wait until all keys are there. `key_of_rank` tells who is to blame where they are not.

        Raises RanksLost for ranks that died, or did not come in time; and whatever `heeded` raises.
        """
        deadline = time.monotonic() + seconds
        next_look, pause = time.monotonic() + SECONDS_BETWEEN_LOOKS, 0.001
        while not self._store.check(keys):
            heeded()
            if time.monotonic() > next_look:
                self.raise_dead(key_of_rank, doing=doing)
                next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
            if time.monotonic() > deadline:
                hanging = self._absent(key_of_rank)
                reason = f"timeout: did not finish {doing} within {seconds_text(seconds)} of the others"
                raise RanksLost(hanging, f"{self.titles(hanging)} {reason}. It hangs, or --timeout is too short.")
            sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)

    def raise_dead(self, key_of_rank: Mapping[int, str], *, doing: str) -> None:
        """Raise RanksLost for ranks that are dead and whose key is not there."""
        dead = set(self.dead_neighbours())
        lost = sorted(dead & set(self._absent(key_of_rank))) if dead else []
        if lost:
            raise RanksLost(lost, f"{self.titles(lost)} was killed or crashed before it finished {doing}.")

    def dead_neighbours(self) -> list[int]:
        """The ranks whose processes this rank could see, and are gone."""
        return [peer.rank for peer in self.neighbours() if peer.is_dead()]

    def neighbours(self) -> list[Placement]:
        """The ranks whose processes this rank can see, itself among them."""
        return [peer for peer in self.placements if peer.is_neighbour_of(self._placement)]

    def titles(self, ranks: list[int]) -> str:
        """Ranks as people can find them, by process and node."""
        known = {placement.rank: placement.title for placement in self.placements}
        return " and ".join(known.get(rank, f"Rank {rank}") for rank in ranks)

    def _absent(self, key_of_rank: Mapping[int, str]) -> list[int]:
        absent = [rank for rank, key in key_of_rank.items() if not self._store.check([key])]
        # All have handed in their parts, but rank 0 has not put them together.
        return absent or [0]
