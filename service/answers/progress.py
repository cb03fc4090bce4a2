"""How far a heavy question is, told to whoever waits, and held against the time that there is.

The rate so far says how long all of it takes, on this machine and beside what else it does: no count of rows or
failures says as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

from service.errors import OutOfTime

Heard = Callable[[float], None]

SECONDS_TO_JUDGE = 2.0
"""After which the rate so far counts: the first steps also make what later ones find ready."""
SECONDS_BETWEEN = 1.0
"""Between two fractions that are told."""


def unheard(_fraction: float) -> None:
    """Progress that nobody waits for."""


_LISTENER: ContextVar[Heard] = ContextVar("listener", default=unheard)


def tell(fraction: float) -> None:
    """Say which fraction of the question is done. Raises OutOfTime as `Course` does."""
    _LISTENER.get()(fraction)


@contextmanager
def told_to(listener: Heard) -> Iterator[None]:
    """While the block runs, a listener hears what is told."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class Course:
    """The course of one question that begins now.

    Args: `hear`, who hears a fraction once a second. `max_seconds`, above which a question is given up as soon as the
    rate so far says so; None where nobody waits for it.
    """

    def __init__(self, hear: Heard, *, max_seconds: float | None) -> None:
        self._hear, self._max_seconds = hear, max_seconds
        self._start = monotonic()
        self._next = 0.0

    def __call__(self, fraction: float) -> None:
        """Hear a fraction. Raises OutOfTime where all of it would take longer than the max."""
        seconds = monotonic() - self._start
        if seconds >= self._next:
            self._next = seconds + SECONDS_BETWEEN
            self._hear(fraction)
            self._judge(seconds, fraction)

    def _judge(self, seconds: float, fraction: float) -> None:
        """Hold the time of all of it, `seconds / fraction`, against the max."""
        if self._max_seconds is not None and seconds >= SECONDS_TO_JUDGE and seconds > fraction * self._max_seconds:
            rule = f"would take longer than {self._max_seconds:g} seconds"
            raise OutOfTime.of("the question", rule, value=None, remedy="send it as a job, or as smaller questions")
