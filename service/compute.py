"""Heavy questions run beside the server, in a few processes that it can stop: the rest stays as fast as before."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import resource
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Request

from service.errors import Busy, TakesTooLong
from service.metrics import Metrics
from service.settings import Settings
from service.supervision import end_with_parent
from sizing.errors import InvalidInput, Problem
from sizing.units import binary_bytes_text

MOST_WAITING_PER_WORKER = 8
SECONDS_TO_START = 60.0
SECONDS_TO_END = 5.0
_OUT_OF_MEMORY = errno.ENOMEM
"""The exit code of a process that reached its limit of memory."""

_log = logging.getLogger(__name__)

_processes = multiprocessing.get_context("spawn")


class ComputePool:
    """Processes that compute, and the questions that wait for them."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._workers = [
            ComputeWorker(max_seconds=settings.compute_seconds, max_bytes=settings.compute_memory_bytes)
            for _ in range(settings.compute_workers)
        ]
        self._idle = list(self._workers)
        self._turns = CapacityLimiter(len(self._workers))
        self._most_waiting = MOST_WAITING_PER_WORKER * len(self._workers)
        self._num_waiting = 0
        self._metrics = metrics

    async def run(self, function: Callable[..., bytes], *arguments: object) -> bytes:
        """What a function returns, run in another process; function and arguments must be picklable.

        Raises what the function refuses with InvalidInput, TakesTooLong beyond the limits of time or memory, or
        Busy where too many wait already.
        """
        if self._num_waiting >= self._most_waiting:
            raise _busy()
        start, outcome = time.perf_counter(), "failed"
        self._count_waiting(1)
        try:
            answer = await to_thread.run_sync(self._ask, function, arguments, limiter=self._turns)
            outcome = "answered"
            return answer
        finally:
            self._count_waiting(-1)
            self._metrics.compute_seconds.labels(outcome).observe(time.perf_counter() - start)

    def close(self) -> None:
        """Stop the processes."""
        for worker in self._workers:
            worker.stop()

    def _ask(self, function: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
        worker = self._idle.pop()
        try:
            with self._metrics.compute_running.track_inprogress():
                return worker.ask(function, arguments)
        finally:
            self._idle.append(worker)

    def _count_waiting(self, change: int) -> None:
        self._num_waiting += change
        self._metrics.compute_waiting.inc(change)


async def compute_of(request: Request) -> ComputePool:
    """The processes for heavy questions."""
    pool: ComputePool = request.app.state.compute
    return pool


Compute = Annotated[ComputePool, Depends(compute_of)]


class ComputeWorker:
    """One process, started when it is first asked, and again after it was stopped."""

    def __init__(self, *, max_seconds: float, max_bytes: int) -> None:
        self._max_seconds = max_seconds
        self._max_bytes = max_bytes
        self._process: SpawnProcess | None = None
        self._connection: Connection[Any, Any] | None = None

    def ask(self, function: Callable[..., bytes], arguments: tuple[object, ...]) -> bytes:
        """What the function returns there."""
        try:
            connection = self._started()
            connection.send((function, arguments))
            if not connection.poll(self._max_seconds):
                self.stop()
                raise _too_much(f"takes more than {self._max_seconds:g} seconds")
            answer, refusal, failure = connection.recv()
        except (EOFError, OSError):
            raise self._end() from None
        if refusal is not None:
            kind, problems = refusal
            raise kind(problems)
        if failure is not None:
            raise RuntimeError(failure)
        return bytes(answer)

    def stop(self) -> None:
        """End the process, whatever it does."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None and connection is not None:
            process.kill()
            process.join()
            connection.close()

    def _end(self) -> Exception:
        """What is known of why the process ended in the middle of a question."""
        process = self._process
        if process is None:
            return _busy()  # the server stops
        process.join(SECONDS_TO_END)
        code, memory = process.exitcode, binary_bytes_text(self._max_bytes)
        self.stop()
        if code == _OUT_OF_MEMORY:
            return _too_much(f"takes more than {memory} of memory")
        if code is None or code >= 0:
            return RuntimeError(f"a process for heavy questions ended with exit code {code}")
        name = signal.Signals(-code).name
        _log.error("A process for heavy questions was ended by %s.", name)
        return _too_much(f"was not answered, for its process (of at most {memory} of memory) was ended by {name}")

    def _started(self) -> Connection[Any, Any]:
        if self._connection is None or self._process is None or not self._process.is_alive():
            self.stop()
            self._connection, theirs = _processes.Pipe()
            self._process = _processes.Process(target=_compute, args=(theirs, self._max_bytes), daemon=True)
            self._process.start()
            theirs.close()
            if not self._connection.poll(SECONDS_TO_START):
                self.stop()
                raise _busy()
            self._connection.recv()
        return self._connection


def _compute(connection: Connection[Any, Any], max_bytes: int) -> None:
    """The life of a process: answer until the server is gone."""
    end_with_parent()  # also in the middle of a question, which nobody would stop any more
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server says when to stop
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))
    from service import heavy  # noqa: F401, PLC0415 - loaded before the first question's time begins

    connection.send("ready")
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        connection.send(_outcome(function, arguments))


def _outcome(
    function: Callable[..., bytes], arguments: tuple[object, ...]
) -> tuple[bytes, tuple[type[InvalidInput], tuple[Problem, ...]] | None, str | None]:
    """Answer, refusal, or failure of a call."""
    try:
        return function(*arguments), None, None
    except InvalidInput as error:
        return b"", (type(error), error.problems), None
    except MemoryError:
        raise SystemExit(_OUT_OF_MEMORY) from None  # nothing that is left can be relied on
    except Exception:  # noqa: BLE001 - the server logs it and answers 500
        return b"", None, traceback.format_exc()


def _busy() -> InvalidInput:
    return Busy.of("the service", "is busy with other questions", value=None, remedy="try again in a moment")


def _too_much(rule: str) -> InvalidInput:
    return TakesTooLong.of("the question", rule, value=None, remedy="ask for less at once")
