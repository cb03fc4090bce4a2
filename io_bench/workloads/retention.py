"""Which checkpoints stay on the target while the next is written, and when the oldest goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

from io_bench.engines import IoReport
from io_bench.target.target import RunFiles
from sizing.storage.workload_shape import Deletion

DELETIONS: tuple[Deletion, ...] = ("in-save", "beside-save")


class CheckpointRetention(Protocol):
    """The checkpoints of one rank. `files` is where the one to be written, or just written, stands.

    `deletion_seconds` is what the last removal took that belonged to a save; None where none did.
    """

    files: RunFiles
    deletion_seconds: float | None

    def next(self, save: Callable[[], object]) -> None:
        """Out of the clock: make room for the next checkpoint. `save` saves one. Raises OSError."""

    def saved(self, save: Callable[[], IoReport]) -> IoReport:
        """Under the clock: save, and remove what goes meanwhile or after it. Raises OSError, and what `save` raises."""

    def settle(self) -> None:
        """Out of the clock, after a save: wait until what was to go is gone. Raises OSError."""


class Replacing:
    """Retention of one checkpoint: it is removed before the next is written, and no save waits for that."""

    deletion_seconds: float | None = None

    def __init__(self, files: RunFiles, names: Sequence[str]) -> None:
        self.files = files
        self._names = names

    def next(self, save: Callable[[], object]) -> None:  # noqa: ARG002 - nothing has to be there
        """Remove the checkpoint."""
        self.files.remove(self._names)

    def saved(self, save: Callable[[], IoReport]) -> IoReport:
        """Save; no other checkpoint goes."""
        return save()

    def settle(self) -> None:
        """Do nothing: no removal runs beside the save."""


class Retaining:
    """Retention of `count` whole checkpoints at any time, in slots that are reused.

    With `in-save`, the oldest is removed once the new one is durable, and the save ends after that. With `beside-save`
    it waits for the next save, and a thread removes it while that writes: so one more is there.
    """

    def __init__(self, files: RunFiles, names: Sequence[str], *, count: int, deletion: Deletion) -> None:
        """Args: `names` of one checkpoint of this rank; none where it only reads."""
        self.files = files
        self.deletion_seconds: float | None = None
        self._place = files
        self._names = names
        self._num_slots = num_slots(count, deletion)
        self._is_beside = deletion == "beside-save"
        self._thread = ThreadPoolExecutor(1)
        self._removal: Future[float] | None = None
        self._number = 0

    def next(self, save: Callable[[], object]) -> None:
        """Go to the next slot; before the first save that is timed, fill all others."""
        if self._number == 0:
            for _ in range(self._num_slots - 1):
                self._advance()
                save()
        self._advance()

    def saved(self, save: Callable[[], IoReport]) -> IoReport:
        """Save; remove the oldest after it, which is the phase `delete`, or meanwhile."""
        if self._is_beside:
            self._removal = self._thread.submit(self._remove_oldest)
            return save()
        report = save()
        return replace(report, phase_seconds={**report.phase_seconds, "delete": self._remove_oldest()})

    def settle(self) -> None:
        """Wait for a removal that has outlasted its save."""
        if self._removal is not None:
            self._removal.result()

    def _advance(self) -> None:
        self._number += 1
        self.files = self._slot(self._number)

    def _slot(self, number: int) -> RunFiles:
        return self._place.numbered(number % self._num_slots)

    def _remove_oldest(self) -> float:
        started = time.perf_counter()
        self._slot(self._number + 1).remove(self._names)
        self.deletion_seconds = time.perf_counter() - started
        return self.deletion_seconds


def num_slots(count: int | None, deletion: Deletion | None) -> int:
    """Checkpoints that are on disk at once: those that stay, the new one, and one that goes beside it.

    >>> num_slots(None, None), num_slots(2, "in-save"), num_slots(2, "beside-save")
    (1, 3, 4)
    """
    if count is None:
        return 1
    return count + (2 if deletion == "beside-save" else 1)
