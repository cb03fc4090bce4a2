"""SIGINT, SIGTERM and SIGHUP as an exception, so that an interrupted run removes what it wrote."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_arrived: list[int] = []


class Interrupted(BaseException):
    """The run was interrupted. `exit_code` is 128 + signal, as shells have it."""

    def __init__(self, signum: int) -> None:
        self.exit_code = 128 + signum
        super().__init__(f"was interrupted by {signal.Signals(signum).name}")


def expect() -> None:
    """From here on the first of the signals raises Interrupted; one that was ignored (nohup) stays so."""
    _arrived.clear()
    for signum in SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _raise)


def heed() -> None:
    """Raise Interrupted again where a signal came: a library in which it came may have taken the first for its own."""
    if _arrived:
        raise Interrupted(_arrived[0])


def ignore() -> None:
    """From here to the end of the process, let nothing interrupt: what is left to do is bounded in time.

    A launcher sends every rank SIGTERM as soon as the first one has ended, on top of the terminal's SIGINT.
    """
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


@contextmanager
def held_back() -> Iterator[None]:
    """Within, signals wait, so that what is done here is done or not, but never half."""
    arrived: list[int] = []
    handlers = {signum: signal.getsignal(signum) for signum in SIGNALS}
    for signum, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(signum, lambda signum, _frame: arrived.append(signum))
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        if arrived:
            signal.raise_signal(arrived[0])


def _raise(signum: int, _frame: FrameType | None) -> None:
    ignore()
    _arrived.append(signum)
    raise Interrupted(signum)
