"""Compute process beside the server: within limits of time and memory, and no longer than its server."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import CancelledError, Future
from contextvars import ContextVar
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, NamedTuple, NotRequired, TypeAlias, TypedDict, Unpack, cast

from executors.dask import DaskWorkers
from executors.window import ChunkLimits
from executors.worker import Computation, WorkHeard, computed_since, end_with_parent, ignore_computation, limit_memory
from service.answers.progress import ProgressListener, ProgressWatch, ignore_progress, report_progress_to
from service.compute.parts import ComputationMessage, PartMessage, PartsInDatabase, PartsOfServer
from service.errors import Busy, OutOfTime, ProcessEnded, TakesTooLong, busy
from service.settings import variable_of
from sizing.errors import InvalidInput, Problem
from sizing.loading import loading
from sizing.questions.chunks import (
    ChunkedWork,
    Computer,
    ItemRange,
    Progress,
    WorkMaker,
    compute_here,
    compute_what_is_missing,
)
from sizing.units import binary_bytes_text

if TYPE_CHECKING:
    from service.answers.heavy import HeavyKind
    from service_client.terms import ReportForm

SECONDS_TO_START = 30.0
"""Max wait for a process to start. The first one loads all that answers take: seconds; on a machine that swaps, far
longer, and a later question finds it. With the wait for a turn it is less than clients and proxies wait (60 s)."""
SECONDS_TO_END = 5.0
"""Time between asking a process to end and killing it."""
SECONDS_TO_GIVE_WAY = 2.0
"""Time between telling a question to give way and killing its process. Python heeds a signal between two steps, and the
longest step is an operation on large arrays."""
_OUT_OF_MEMORY = errno.ENOMEM
"""The exit code of a process that reached its limit of memory."""

_GIVE_WAY = signal.SIGUSR1
_GAVE_WAY = "gave way"

SMALLER_QUESTIONS = "split it into smaller questions"
"""Remedy where a question takes too much time or memory."""

Outcome: TypeAlias = tuple[bytes, tuple[type[InvalidInput], tuple[Problem, ...]] | None, str | None]
"""Answer, refusal and failure of a question, of which one is there."""

COMPUTING = multiprocessing.get_context("forkserver")
"""For heavy questions: forked off a process without threads of its own that has loaded all that answers take, and so
there within 30 ms, where loading it takes 2 s of a processor."""
COMPUTING.set_forkserver_preload(["service.answers.heavy", "service.cli.main"])

_log = logging.getLogger(__name__)


ProcessListener = Callable[[ItemRange | None, Computation], None]
"""Hears that a process has begun, without a chunk, and where each chunk was computed."""


def ignore_process(_chunk: ItemRange | None, _computation: Computation) -> None:
    """Ignore where a question is computed."""


class ComputeLimits(TypedDict):
    """Limits of a process for one question."""

    max_seconds: float
    max_bytes: int
    when_too_slow: NotRequired[str]
    """Remedy where a question takes longer."""
    is_estimated: NotRequired[bool]
    """Whether a question is given up as soon as its progress says that it will take longer."""


class ComputeWorker:
    """Compute process, started with the first question and again after it was stopped."""

    def __init__(self, **limits: Unpack[ComputeLimits]) -> None:
        self._max_seconds = limits["max_seconds"]
        self._max_bytes = limits["max_bytes"]
        self._when_too_slow = limits.get("when_too_slow", SMALLER_QUESTIONS)
        self._max_estimate = limits["max_seconds"] if limits.get("is_estimated") else None
        self._process: ForkServerProcess | None = None
        self._killed: ForkServerProcess | None = None
        """Process that is alive for a moment more, perhaps with its answer sent, and gets no further question."""
        self._started: Future[None] | None = None
        self._is_ready = False
        self._connection: Connection[Any, Any] | None = None
        self._files: tempfile.TemporaryDirectory[str] | None = None
        """Holds the temporary files of the process, which it may be killed before it removes."""
        self._has_answered = False
        self._is_given_up = False
        self._gives_way_after: float | None = None
        self._asked_at: float | None = None
        self._parts: PartsInDatabase | None = None
        self._hear: ProcessListener = ignore_process

    @property
    def seconds_asked(self) -> float:
        """Seconds that the process has had its question; 0 while it has none or starts."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    def ask(
        self,
        function: Callable[..., bytes],
        arguments: tuple[object, ...],
        *,
        progress: ProgressListener = ignore_progress,
        parts: PartsInDatabase | None = None,
        hear: ProcessListener = ignore_process,
    ) -> bytes:
        """Run a function in the process and return its result; `progress` is called with the fraction that is done.

        Args: `parts`, which a job keeps and asks for. `hear`, who hears where it is computed, if it is traced.

        A question that finds too little memory in a process that has answered others is asked once more, in a new
        process: what is kept of the others takes memory too.
        """
        self._is_given_up, self._gives_way_after, self._parts, self._hear = False, None, parts, hear
        try:
            try:
                answer, refusal, failure = self._send((function, arguments), progress)
            except _NoMemoryBesideOthers:
                answer, refusal, failure = self._send((function, arguments), progress)
        finally:
            self._asked_at = None
        if refusal is not None:
            kind, problems = refusal
            raise kind(problems)
        if failure is not None:
            raise RuntimeError(failure)
        return bytes(answer)

    def _send(self, question: tuple[Callable[..., bytes], tuple[object, ...]], progress: ProgressListener) -> Outcome:
        """Send a question to the process, and return its outcome. A repeated question keeps its first deadline."""
        try:
            connection = self._start()
            if self._is_given_up:
                raise busy()
            connection.send(question)
            self._asked_at = self._asked_at or time.monotonic()
            outcome = self._receive(connection, progress, deadline=self._asked_at + self._max_seconds)
        except (EOFError, OSError):
            raise self._explain_end() from None
        self._has_answered = True
        return outcome

    def _receive(self, connection: Connection[Any, Any], progress: ProgressListener, *, deadline: float) -> Outcome:
        """Return the outcome that comes before a deadline, after its progress. Raises OutOfTime without one."""
        while connection.poll(max(0.0, deadline - time.monotonic())):
            message = connection.recv()
            if message == _GAVE_WAY:
                raise self._no_turn_left()
            if isinstance(message, float):
                progress(message)
            elif isinstance(message, ComputationMessage):
                self._hear(*message)
            elif not isinstance(message, PartMessage):
                return cast("Outcome", message)
            elif self._parts is not None:
                self._parts.hear(message, connection)
        self.stop()
        rule = f"takes longer than {self._max_seconds:g} seconds"
        raise OutOfTime.of("the question", rule, value=None, remedy=self._when_too_slow)

    def stop(self) -> None:
        """End the process, whatever it does."""
        process, connection, files, started = self._process, self._connection, self._files, self._started
        self._process = self._connection = self._files = self._started = None
        if process is not None and connection is not None and started is not None:
            if not started.cancel() and process.pid is not None:
                process.kill()
                process.join(SECONDS_TO_END)  # that it has ended, the forkserver says, unless it is stopped itself
            connection.close()
        if files is not None:
            files.cleanup()

    def give_up(self) -> None:
        """End the question that another thread asks. The next question gets a new process."""
        self._is_given_up = True
        process = self._process
        if process is not None and process.pid is not None:
            self._kill(process)

    def give_way(self) -> None:
        """End another thread's question with OutOfTime. Its process stays, unless it does not react in time."""
        process, is_first = self._process, self._gives_way_after is None
        if process is None or process.pid is None or self._asked_at is None:
            return
        if is_first:
            self._gives_way_after = self.seconds_asked
            os.kill(process.pid, _GIVE_WAY)
        elif self.seconds_asked > (self._gives_way_after or 0.0) + SECONDS_TO_GIVE_WAY:
            self._kill(process)

    def _kill(self, process: ForkServerProcess) -> None:
        """Kill the process of another thread's question."""
        self._killed = process
        process.kill()

    def _no_turn_left(self) -> InvalidInput:
        rule = f"was not answered within {self._gives_way_after or 0.0:.2g} seconds, and others wait for their turn"
        remedy = "send it as a job (header Prefer: respond-async), or as smaller questions"
        return OutOfTime.of("the question", rule, value=None, remedy=remedy)

    def _explain_end(self) -> Exception:
        """Return the error that explains why the process ended in the middle of a question."""
        process = self._process
        if process is None:
            return busy()  # the server stops
        process.join(SECONDS_TO_END)
        code, memory, has_answered = process.exitcode, binary_bytes_text(self._max_bytes), self._has_answered
        self.stop()
        if self._is_given_up:
            return busy()  # nobody waits for it
        if self._gives_way_after is not None:
            return self._no_turn_left()
        if code == _OUT_OF_MEMORY:
            rule = f"needs more than {memory} of memory"
            refusal = TakesTooLong.of("the question", rule, value=None, remedy=SMALLER_QUESTIONS)
            return _NoMemoryBesideOthers() if has_answered else refusal
        if code is not None and code >= 0:
            return RuntimeError(f"a process for heavy questions ended with exit code {code}")
        # What has forked a process knows how it ended, unless that is stopped itself.
        name = "an unknown signal" if code is None else signal.Signals(-code).name
        _log.error("A process for heavy questions was ended by %s.", name)
        rule = f"was not answered: its process (max memory {memory}) was ended by {name}"
        return ProcessEnded.of("the question", rule, value=None, remedy=SMALLER_QUESTIONS)

    def _start(self) -> Connection[Any, Any]:
        """Start the process where it does not run, and return the connection to it.

        Raises Busy where it takes long. It goes on starting, and the next question waits for the same process.
        """
        process, started = self._process, self._started
        is_starting = started is not None and not started.done()
        if process is None or process is self._killed or not (is_starting or process.is_alive()):
            self.stop()
            self._killed = None
            self._has_answered = self._is_ready = False
            self._files = tempfile.TemporaryDirectory(prefix="ckpt-serve-compute-", ignore_cleanup_errors=True)
            self._connection, theirs = COMPUTING.Pipe()
            arguments = (theirs, self._files.name, self._max_bytes, self._max_estimate)
            self._process = COMPUTING.Process(target=_compute, args=arguments, daemon=True)
            self._started = start_in_thread(self._process, then=theirs.close)
        connection, started = self._connection, self._started
        if connection is None or started is None:
            raise busy()  # the server stops
        if not self._is_ready:
            deadline = time.monotonic() + SECONDS_TO_START
            try:
                started.result(SECONDS_TO_START)
            except CancelledError:
                raise busy() from None  # the server stops
            except TimeoutError:
                raise not_started() from None
            except (EOFError, OSError):  # the process that forks it has ended; the next question starts a new one
                self.stop()
                raise not_started() from None
            if not connection.poll(max(0.0, deadline - time.monotonic())):
                raise not_started()
            connection.recv()
            self._is_ready = True
        return connection


def start_in_thread(process: BaseProcess, *, then: Callable[[], None]) -> Future[None]:
    """Start a process in a thread of its own, as it may never start: what forks it may be stopped. `then` follows.

    A process that starts after its future was cancelled is killed at once.
    """
    started = Future[None]()

    def start() -> None:
        failure = None
        try:
            process.start()
        except Exception as error:  # noqa: BLE001 - who waits for the start raises it
            failure = error
        then()
        if not started.set_running_or_notify_cancel():
            if failure is None:
                process.kill()
        elif failure is None:
            started.set_result(None)
        else:
            started.set_exception(failure)

    threading.Thread(target=start, daemon=True).start()
    return started


def not_started() -> InvalidInput:
    """Return the error of a service that cannot start a process, and log it for who operates the service."""
    _log.error("A process for heavy questions did not start: is the process that forks them stopped?")
    rule = f"could not start a process for the question within {SECONDS_TO_START:g} seconds"
    return Busy.of("the service", rule, value=None, remedy="try again later; its operator sees the log")


class _NoMemoryBesideOthers(Exception):
    """Raised where a process lacks memory for a question and had answered others before."""


class _GivesWay(BaseException):
    """Raised in a question that ends because others wait. No handler in the question may catch it."""


_ANSWERING = threading.Event()
"""Set while a question is answered: a signal that comes later is for one that has ended."""


def _end_question(*_: object) -> None:
    if _ANSWERING.is_set():
        _ANSWERING.clear()
        raise _GivesWay


def _compute(connection: Connection[Any, Any], folder: str, max_bytes: int, max_estimate: float | None) -> None:
    """Answer questions until the server is gone: the main function of the process."""
    end_with_parent()  # also in the middle of a question, which nobody would stop any more
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a server that ignores it does not hand that on
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server says when to stop
    signal.signal(_GIVE_WAY, _end_question)
    limit_memory(max_bytes)
    tempfile.tempdir = folder
    with loading():
        from service.answers import heavy  # noqa: F401, PLC0415 - loaded before the first question's time begins

    _SERVER.set(connection)
    connection.send("ready")
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        connection.send(_answer(function, arguments, ProgressWatch(connection.send, max_seconds=max_estimate)))


_SERVER: ContextVar[Connection[Any, Any]] = ContextVar("server")
"""The server of this process."""


class JobQuestion(NamedTuple):
    """The question of a job: the kind that it is of, the form of its answer, and its request as JSON."""

    kind: HeavyKind
    form: ReportForm
    request: str


def answer_job(
    question: JobQuestion, kept: Collection[ItemRange], scheduler: str, limits: ChunkLimits, is_traced: bool
) -> bytes:
    """Answer the question of a job, of which parts may be kept. Nothing that comes from the database is run.

    What is missing is computed by workers of a Dask scheduler where one is named. Where it `is_traced`, the server is
    told which process computes what.
    """
    from service.answers.heavy import COMPUTER  # noqa: PLC0415 - which the process has loaded

    server = _SERVER.get()

    def tell(chunk: ItemRange | None, computation: Computation) -> None:
        server.send(ComputationMessage(chunk, computation))

    def compute_heard(work: ChunkedWork[Any, Any], make: WorkMaker, progress: Progress) -> Iterable[Any]:
        return compute(WorkHeard(work, tell), make, progress)

    hear = tell if is_traced else ignore_computation
    computer: Computer = compute_here
    if scheduler:
        computer = DaskWorkers(scheduler, limits, field=variable_of("dask"), hear=hear, is_awaited=True).compute
    compute = compute_what_is_missing(PartsOfServer(server, kept), computer)
    COMPUTER.set(compute_heard if is_traced else compute)
    if is_traced:
        tell(None, computed_since(time.time_ns()))
    return question.kind.answer_json(question.form, question.request)


def _answer(function: Callable[..., bytes], arguments: tuple[object, ...], watch: ProgressWatch) -> Outcome | str:
    """Return the answer, refusal or failure of a call, or that it gave way."""
    try:
        _ANSWERING.set()
        try:
            with report_progress_to(watch):
                return _call(function, arguments)
        finally:
            _ANSWERING.clear()
    except _GivesWay:
        return _GAVE_WAY


def _call(function: Callable[..., bytes], arguments: tuple[object, ...]) -> Outcome:
    try:
        return function(*arguments), None, None
    except InvalidInput as error:
        return b"", (type(error), error.problems), None
    except MemoryError:
        raise SystemExit(_OUT_OF_MEMORY) from None  # nothing that is left can be relied on
    except Exception:  # noqa: BLE001 - the server logs it and answers 500
        return b"", None, traceback.format_exc()
