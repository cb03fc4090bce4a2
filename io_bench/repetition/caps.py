"""Caps for storage that others use too: bytes moved, time taken, mean bandwidth."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from io_bench.ranks.process_group import ProcessGroup
from io_bench.repetition.sample import Sample

_MAX_PAUSE_SECONDS = 1.0
"""Between two looks whether the run was told to end."""


@dataclass(slots=True)
class Caps:
    """What a run may take, and what it has taken, as rank 0 counts it; None where it is not capped.

    `max_bytes_per_second` bounds the mean over the run: the ranks pause between repetitions, so that what is measured
    is the storage and not the cap.
    """

    max_seconds: float | None = None
    max_bytes: int | None = None
    max_bytes_per_second: float | None = None
    moved_bytes: int = 0
    started: float = field(default_factory=time.monotonic)

    def spend(self, num_bytes: int) -> None:
        """Count bytes that were written and read."""
        self.moved_bytes += num_bytes

    def reached_by_one_more(self, last: Sample) -> str:
        """The cap that another sample like the last would exceed; empty if none."""
        return self._exceeded(last.moved_bytes, last.elapsed_seconds)

    def reached(self) -> str:
        """The cap that is reached; empty if none."""
        return self._exceeded(0, 0.0)

    def pause(self, group: ProcessGroup) -> None:
        """Wait until the mean bandwidth so far, as rank 0 counts it, is within its cap, on all ranks.

        In steps that let peers see a lost rank.
        """
        if self.max_bytes_per_second is None:
            return
        while (rest := group.told(self._rest_seconds(self.max_bytes_per_second), doing="pausing")) > 0:
            time.sleep(min(rest, _MAX_PAUSE_SECONDS))

    def _exceeded(self, more_bytes: int, more_seconds: float) -> str:
        if self.max_seconds is not None and self._elapsed_seconds() + more_seconds > self.max_seconds:
            return "--max-seconds"
        if self.max_bytes is not None and self.moved_bytes + more_bytes > self.max_bytes:
            return "--max-bytes"
        return ""

    def _rest_seconds(self, max_bytes_per_second: float) -> float:
        return self.moved_bytes / max_bytes_per_second - self._elapsed_seconds()

    def _elapsed_seconds(self) -> float:
        return time.monotonic() - self.started
