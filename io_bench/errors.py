"""Errors that end a run, and the exit code of each.

sizing.errors.SizingError
├── InvalidInput        the run as asked cannot be done here; exit code 2
├── RunFailed           the run was right, something failed; exit code 1
│   ├── RanksLost       ranks died, hang or cannot be reached
│   └── PeerFailed      another rank failed and said why; its exit code
└── RunEnded            how the run ended for all ranks together: what the command line shows
interruption.Interrupted    SIGINT, SIGTERM or SIGHUP; exit code 128 + signal
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from io_bench import interruption
from io_bench.interruption import Interrupted
from sizing.errors import EXIT_BAD_INPUT, InvalidInput, SizingError

EXIT_FAILED = 1
"""A run that began and failed; bad input is 2."""

_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT)


class RunFailed(SizingError):
    """A run that was asked for rightly did not finish."""


class RanksLost(RunFailed):
    """Ranks that gave no sign of life: `ranks` are their numbers, the message says what was seen.

    `are_overdue`, where they were waited for in vain; not where they were seen to be dead.
    """

    def __init__(self, ranks: Iterable[int], message: str, *, are_overdue: bool = False) -> None:
        self.ranks = tuple(ranks)
        self.are_overdue = are_overdue
        super().__init__(message)


class PeerFailed(RunFailed):
    """Another rank failed; the message is that rank's."""

    def __init__(self, message: str, exit_code: int) -> None:
        self.exit_code = exit_code
        super().__init__(message)


class RunEnded(SizingError):
    """The end of a failed run: one message, the exit code, and whether this rank shows the message."""

    def __init__(self, message: str, exit_code: int, *, is_speaker: bool) -> None:
        self.exit_code = exit_code
        self.is_speaker = is_speaker
        super().__init__(message)


def exit_code_of(error: BaseException) -> int:
    """Choose the exit code of an error that is the only one."""
    match error:
        case Interrupted() | PeerFailed() | RunEnded():
            return error.exit_code
        case InvalidInput():
            return EXIT_BAD_INPUT
        case _:
            return EXIT_FAILED


def reason_of(error: OSError) -> str:
    """The words of the operating system, or of an object store, for an error."""
    return error.strerror or str(error) or type(error).__name__


def too_small(field: str, rule: str) -> InvalidInput:
    """The error for a place that cannot hold the run; `rule` has the figures."""
    remedy = "free some, or reduce --bytes-per-rank"
    return InvalidInput.of(field, rule, value=None, remedy=remedy)


def unwritable(target: object, reason: str) -> InvalidInput:
    """The error for a target that cannot be written to."""
    remedy = "choose a target with write permission"
    return InvalidInput.of("--target", f"must be writable ({reason})", value=str(target), remedy=remedy)


@contextmanager
def explained_io_errors(doing: str, *, rank: int) -> Iterator[None]:
    """Turn an OSError into a sentence: InvalidInput where the target is full, else RunFailed.

    Raises Interrupted for a request that failed because a signal has come.

    Args: `doing`, what was being done, e.g. "writing rank-00000.pt".
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, InterruptedError):
            interruption.heed()
        reason = reason_of(error).rstrip(".")
        if error.errno in _SPACE_ERRORS:
            rule = f"has no space left (rank {rank}, {doing}: {reason})"
            raise too_small("--target", rule) from error
        raise RunFailed(f"Rank {rank} failed while {doing}: {reason}.") from error
