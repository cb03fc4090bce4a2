"""One process beside the server that computes: within limits of time and memory, and no longer than its server."""

from __future__ import annotations

import errno
import logging
import resource
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, NotRequired, TypeAlias, TypedDict, Unpack, cast

from service.answers.progress import Course, Heard, told_to, unheard
from service.errors import OutOfTime, TakesTooLong, busy
from service.processes import SPAWNING, end_with_parent
from sizing.cli.loading import loading
from sizing.errors import InvalidInput, Problem
from sizing.units import binary_bytes_text

SECONDS_TO_START = 60.0
"""Importing takes seconds; on a machine that swaps, far longer."""
SECONDS_TO_END = 5.0
"""Between asking a process to end and killing it."""
_OUT_OF_MEMORY = errno.ENOMEM
"""The exit code of a process that reached its limit of memory."""

SMALLER_QUESTIONS = "split it into smaller questions"
"""What helps where a question takes too much."""

Outcome: TypeAlias = tuple[bytes, tuple[type[InvalidInput], tuple[Problem, ...]] | None, str | None]
"""Answer, refusal and failure of a question, of which one is there."""

_log = logging.getLogger(__name__)


class ComputeLimits(TypedDict):
    """What a process may take for one question."""

    max_seconds: float
    max_bytes: int
    when_too_slow: NotRequired[str]
    """What to do where it takes longer."""
    is_estimated: NotRequired[bool]
    """Whether a question is given up as soon as its progress says that it will take longer."""


class ComputeWorker:
    """One process, started when it is first asked, and again after it was stopped."""

    def __init__(self, **limits: Unpack[ComputeLimits]) -> None:
        self._max_seconds = limits["max_seconds"]
        self._max_bytes = limits["max_bytes"]
        self._when_too_slow = limits.get("when_too_slow", SMALLER_QUESTIONS)
        self._max_estimate = limits["max_seconds"] if limits.get("is_estimated") else None
        self._process: SpawnProcess | None = None
        self._connection: Connection[Any, Any] | None = None
        self._is_given_up = False

    def ask(self, function: Callable[..., bytes], arguments: tuple[object, ...], *, progress: Heard = unheard) -> bytes:
        """What the function returns there; `progress` hears which fraction is done, of one that tells it."""
        self._is_given_up = False
        try:
            connection = self._started()
            if self._is_given_up:
                raise busy()
            connection.send((function, arguments))
            answer, refusal, failure = self._outcome_from(connection, progress)
        except (EOFError, OSError):
            raise self._end() from None
        if refusal is not None:
            kind, problems = refusal
            raise kind(problems)
        if failure is not None:
            raise RuntimeError(failure)
        return bytes(answer)

    def _outcome_from(self, connection: Connection[Any, Any], progress: Heard) -> Outcome:
        """What comes within the limit of time, after fractions of progress. Raises OutOfTime where nothing does."""
        deadline = time.monotonic() + self._max_seconds
        while connection.poll(max(0.0, deadline - time.monotonic())):
            said = connection.recv()
            if not isinstance(said, float):
                return cast("Outcome", said)
            progress(said)
        self.stop()
        rule = f"takes longer than {self._max_seconds:g} seconds"
        raise OutOfTime.of("the question", rule, value=None, remedy=self._when_too_slow)

    def stop(self) -> None:
        """End the process, whatever it does."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None and connection is not None:
            if process.pid is not None:  # or another thread is just about to start it, and it ends with this one
                process.kill()
                process.join()
            connection.close()

    def give_up(self) -> None:
        """End the question that another thread asks; the next one gets a new process."""
        self._is_given_up = True
        process = self._process
        if process is not None and process.pid is not None:
            process.kill()

    def _end(self) -> Exception:
        """What is known of why the process ended in the middle of a question."""
        process = self._process
        if process is None:
            return busy()  # the server stops
        process.join(SECONDS_TO_END)
        code, memory = process.exitcode, binary_bytes_text(self._max_bytes)
        self.stop()
        if self._is_given_up:
            return busy()  # nobody waits for it
        if code == _OUT_OF_MEMORY:
            return _too_much(f"needs more than {memory} of memory")
        if code is None or code >= 0:
            return RuntimeError(f"a process for heavy questions ended with exit code {code}")
        name = signal.Signals(-code).name
        _log.error("A process for heavy questions was ended by %s.", name)
        return _too_much(f"was not answered: its process (max memory {memory}) was ended by {name}")

    def _started(self) -> Connection[Any, Any]:
        if self._connection is None or self._process is None or not self._process.is_alive():
            self.stop()
            self._connection, theirs = SPAWNING.Pipe()
            self._process = SPAWNING.Process(
                target=_compute, args=(theirs, self._max_bytes, self._max_estimate), daemon=True
            )
            self._process.start()
            theirs.close()
            if not self._connection.poll(SECONDS_TO_START):
                self.stop()
                raise busy()
            self._connection.recv()
        return self._connection


def _compute(connection: Connection[Any, Any], max_bytes: int, max_estimate: float | None) -> None:
    """The life of a process: answer until the server is gone."""
    end_with_parent()  # also in the middle of a question, which nobody would stop any more
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server says when to stop
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))
    with loading():
        from service.answers import heavy  # noqa: F401, PLC0415 - loaded before the first question's time begins

    connection.send("ready")
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        with told_to(Course(connection.send, max_seconds=max_estimate)):
            outcome = _outcome(function, arguments)
        connection.send(outcome)


def _outcome(function: Callable[..., bytes], arguments: tuple[object, ...]) -> Outcome:
    """Answer, refusal, or failure of a call."""
    try:
        return function(*arguments), None, None
    except InvalidInput as error:
        return b"", (type(error), error.problems), None
    except MemoryError:
        raise SystemExit(_OUT_OF_MEMORY) from None  # nothing that is left can be relied on
    except Exception:  # noqa: BLE001 - the server logs it and answers 500
        return b"", None, traceback.format_exc()


def _too_much(rule: str) -> InvalidInput:
    return TakesTooLong.of("the question", rule, value=None, remedy=SMALLER_QUESTIONS)
