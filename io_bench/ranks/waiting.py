"""How one rank waits for others: no longer than its patience; where that ends, one rank finds out who is missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from io_bench.errors import RanksLost
from io_bench.ranks.attendance import SECONDS_BETWEEN_LOOKS, Attendance
from io_bench.ranks.bounded_store import Store
from io_bench.ranks.ending import Ending

Absent = Callable[[], list[int]]
"""Finds who has not come."""

_INQUIRER = "inquirer"


class Waiting:
    """A rank that waits, in the store that all share or in that of its node.

    Methods raise RanksLost for ranks that died or did not come in time, PeerFailed where one failed.
    """

    def __init__(
        self, rank: int, store: Store, attendance: Attendance, ending: Ending, patience_seconds: float
    ) -> None:
        self.patience_seconds = patience_seconds
        self._rank = rank
        self._store = store
        self._attendance = attendance
        self._ending = ending

    def until_there(
        self, store: Store, keys: Sequence[str], suspects: Mapping[int, str], absent: Absent, *, doing: str
    ) -> None:
        """Wait until all keys are in a store. `suspects` are to set a key each there before they die.

        Args: `doing`, what the ranks are at, for the message that names a missing one.
        """
        came = self._attendance.has_come(
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
        """The error for those who have not come, which one rank finds out for all."""
        inquirer = int(self._store.compare_set(_INQUIRER, "", str(self._rank)))
        if inquirer == self._rank:
            return self._attendance.overdue(absent(), seconds=self.patience_seconds, doing=doing)
        deadline = time.monotonic() + self._ending.farewell_seconds
        while time.monotonic() < deadline:
            self._ending.raise_published()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        return self._attendance.overdue([inquirer], seconds=self.patience_seconds, doing=doing)


def absent_of(store: Store, keys: Mapping[int, str]) -> list[int]:
    """The ranks whose key is not in a store."""
    return [rank for rank, key in keys.items() if not store.check([key])]
