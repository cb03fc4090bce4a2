"""A sign of life for those who cannot see the process: the manifest is touched now and then."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SECONDS_BETWEEN_BEATS = 30.0
"""One touch of one file: nothing to storage."""
SECONDS_UNTIL_PRESUMED_DEAD = 10 * SECONDS_BETWEEN_BEATS
"""Longer than storage stands still while a server fails over. Too short would let the files of a living run be removed,
too long only leaves a dead one's lying."""
_SECONDS_TO_STOP = 5.0
"""A beat that hangs on dead storage must not keep the run from ending."""


@contextmanager
def beating(beat: Callable[[], None], *, every_seconds: float = SECONDS_BETWEEN_BEATS) -> Iterator[None]:
    """Call `beat` for the time of the block, in a thread of its own. Where it raises OSError, that was no beat."""
    stopped = threading.Event()

    def keep_beating() -> None:
        while not stopped.wait(every_seconds):
            with contextlib.suppress(OSError):
                beat()

    thread = threading.Thread(target=keep_beating, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(_SECONDS_TO_STOP)
