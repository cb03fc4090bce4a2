"""Interruptions that end a run from outside: SIGINT, SIGTERM and SIGHUP, or a launcher that dies.

The handler never interrupts code at random.

Before a verb has begun there is nothing to clean up: the handler says so in one line and ends the process. From
`expect` on it only notes the signal. The run learns of it between its steps (`heed`), in its waits, which end early
(`at_once`), and from its files, whose requests fail from then on (`fail_requests`). So no exception is raised inside a
library that calls back, in a destructor, or in the middle of something that must be done as a whole.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_arrived: list[int] = []
_waits: list[None] = []
"""Holds an item while the main thread is in a wait that the handler may end by an exception."""
_ignored: list[None] = []
"""Holds an item once nothing interrupts any more."""
_started_by: list[int] = []
"""Holds the process that started this one."""


class Interrupted(BaseException):
    """The run was interrupted. `exit_code` is 128 + signal, as shells have it."""

    def __init__(self, signum: int) -> None:
        self.exit_code = 128 + signum
        super().__init__(f"was interrupted by {signal.Signals(signum).name}")


def remember_launcher() -> None:
    """Note which process started this one. Call it when the program begins: later another may have inherited it.

    The ranks of torchrun outlive a launcher that is killed, and would wait for its store as long as for one that is
    late.
    """
    _started_by[:] = [os.getppid()]


def is_launcher_gone() -> bool:
    """Whether the process that started this one has ended since."""
    return bool(_started_by) and os.getppid() != _started_by[0]


def end_at_once() -> None:
    """Let a signal end the process with one line from here on: nothing is there to be cleaned up.

    A signal that was ignored when the process began (nohup) stays ignored, here and below.
    """
    _handle(_end)


def expect() -> None:
    """Note signals from here on; the run then ends at its next step."""
    for state in (_arrived, _waits, _ignored):
        state.clear()
    _handle(_note)


def has_come() -> bool:
    """Whether a signal has told the run to end. Any thread may ask."""
    return bool(_arrived)


def heed() -> None:
    """Raise Interrupted where a signal has come, unless all that is left is to clean up."""
    if _arrived and not _ignored:
        raise Interrupted(_arrived[0])


def reason_for(error: BaseException) -> BaseException:
    """The interruption, where a signal has come: what fails from then on fails because of it. Else the error."""
    return Interrupted(_arrived[0]) if _arrived and isinstance(error, Exception) else error


def fail_requests() -> None:
    """Raise InterruptedError, an OSError, where a signal has come: from then on no file is read or written."""
    if _arrived:
        raise InterruptedError(errno.EINTR, os.strerror(errno.EINTR))


@contextmanager
def at_once() -> Iterator[None]:
    """Around a wait: a signal raises Interrupted there and then. On other threads, which no signal reaches, nothing.

    Within must be nothing that an exception at any point could leave half done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _waits.append(None)
    try:
        heed()
        yield
    finally:
        _waits.clear()


def sleep(seconds: float) -> None:
    """Sleep. Raises Interrupted as soon as a signal comes."""
    with at_once():
        time.sleep(seconds)


def ignore() -> None:
    """Let nothing interrupt the process until its end: what is left to do is bounded in time.

    A launcher sends every rank SIGTERM as soon as the first one has ended, on top of the terminal's SIGINT.
    """
    _ignored.append(None)
    for signum in SIGNALS:
        signal.signal(signum, signal.SIG_IGN)


def _handle(handler: Callable[[int, FrameType | None], Any]) -> None:
    for signum in SIGNALS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, handler)


def _end(signum: int, _frame: FrameType | None) -> NoReturn:
    """End the process by system calls alone: whatever was running may hold locks, also of the streams.

    Rank 0 alone says why: a launcher passes the signal on to every rank, and they have not met yet.
    """
    if (os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or "0") == "0":
        os.write(2, f"error: The program {Interrupted(signum)}.\n".encode())
    os._exit(128 + signum)


def _note(signum: int, _frame: FrameType | None) -> None:
    """Keep the first signal. Appending to a list takes no lock, and cannot fail for want of memory in practice."""
    is_first = not _arrived
    _arrived.append(signum)
    if is_first and _waits and not _ignored:
        _waits.clear()
        raise Interrupted(signum)
