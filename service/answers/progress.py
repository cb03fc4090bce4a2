"""Progress of a heavy question: reported to whoever waits, and compared with the time limit.

The rate so far says how long all of it takes, on this machine and beside what else it does: no count of rows or
failures says as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from service.errors import OutOfTime

ProgressListener = Callable[[float], None]

SECONDS_TO_JUDGE = 2.0
"""Time after which the rate so far counts: the first steps also make what later ones find ready."""
SECONDS_BETWEEN = 1.0
"""Pause between two fractions that are told."""


def ignore_progress(_fraction: float) -> None:
    """Ignore progress that nobody waits for."""


_LISTENER: ContextVar[ProgressListener] = ContextVar("listener", default=ignore_progress)


def tell(fraction: float) -> None:
    """Report which fraction of the question is done. Raises OutOfTime as `ProgressWatch` does."""
    _LISTENER.get()(fraction)


@contextmanager
def report_progress_to(listener: ProgressListener) -> Iterator[None]:
    """Report progress to a listener while the block runs."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class ProgressWatch:
    """Progress of one question that begins now.

    Args: `hear`, who hears a fraction once a second. `max_seconds`, above which a question is given up as soon as the
    rate so far says so; None where nobody waits for it.
    """

    def __init__(self, hear: ProgressListener, *, max_seconds: float | None) -> None:
        self._hear, self._max_seconds = hear, max_seconds
        self._start = monotonic()
        self._next = 0.0

    def __call__(self, fraction: float) -> None:
        """Report a fraction. Raises OutOfTime where the whole question would take longer than the max."""
        seconds = monotonic() - self._start
        if seconds >= self._next:
            self._next = seconds + SECONDS_BETWEEN
            self._hear(fraction)
            is_late = self._max_seconds is not None and seconds > fraction * self._max_seconds
            if is_late and seconds >= SECONDS_TO_JUDGE:
                rule = f"would take longer than {self._max_seconds:g} seconds"
                raise OutOfTime.of("the question", rule, value=None, remedy="send it as a job, or as smaller questions")
