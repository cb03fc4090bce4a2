"""Silent PostgreSQL servers, which accept connections and say nothing: frozen, or on a disk that hangs.

The kernel of such a server still acknowledges packets, so no timeout of TCP ends the wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.errors import ConnectionTimeout
from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

MAX_SECONDS_OF_SILENCE = 8.0
"""Max silence of a server that was sent a statement. A guess: statements of the service take milliseconds, and the
locks that they wait for as long; less would fail requests on a busy server. Shorter than the wait for a free
connection, so that who comes after that wait is refused at once."""


MAX_WAITING = 20
"""Transactions of a process that are open: half of its threads (40), so that what needs no database is answered where
all of these wait for a silent server."""
SECONDS_OF_DOUBT = 1.0
"""Without the end of any of MAX_WAITING transactions: no more are let in. A guess: transactions take milliseconds."""


class Silence:
    """Silence of the server: once noticed, one transaction at a time tries, and nobody else waits for it."""

    def __init__(self) -> None:
        self.is_noticed = False
        self._trying = threading.Lock()
        self._ends = threading.Condition()
        self._num_open = 0
        self._latest_end = 0.0
        """End of the latest transaction, or when there were none; by the clock of `time.monotonic`."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Use the database within the block.

        Raises NoConnection at once where it is silent and another tries, or where so many wait that it may be silent.
        """
        is_trying = self.is_noticed
        if is_trying and not self._trying.acquire(blocking=False):
            raise NoConnection("the server says nothing")
        try:
            with self._counted():
                yield
        except (DBAPIError, NoConnection):
            raise
        except BaseException:
            self.is_noticed = False  # whatever it is about, the server has answered
            raise
        else:
            self.is_noticed = False
        finally:
            if is_trying:
                self._trying.release()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Count a transaction while it is open, after waiting for a place. Raises NoConnection where none ends."""
        with self._ends:
            self._latest_end = self._latest_end if self._num_open else time.monotonic()
            while self._num_open >= MAX_WAITING:
                left = self._latest_end + SECONDS_OF_DOUBT - time.monotonic()
                if left <= 0:
                    raise NoConnection("the server says nothing to those who wait")
                self._ends.wait(left)
            self._num_open += 1
        try:
            yield
        finally:
            with self._ends:
                self._num_open -= 1
                self._latest_end = time.monotonic()
                self._ends.notify()


class SilentServer(psycopg.OperationalError):
    """Raised where the server says nothing to a statement."""


class BoundedConnection(psycopg.Connection[Any]):
    """Connection that is closed where the server says nothing for MAX_SECONDS_OF_SILENCE."""

    silence = Silence()
    is_patient = False

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **named: Any) -> Any:
        """Wait as the driver does, but not without end. Raises SilentServer."""
        return super().wait(gen if self.is_patient else self._until_silent(gen), *arguments, **named)

    def _until_silent(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Yield what the driver waits for, step by step. Nothing is ready where only time has passed."""
        latest = time.monotonic()
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if ready:
                    latest = time.monotonic()
                elif time.monotonic() - latest > MAX_SECONDS_OF_SILENCE:
                    self.silence.is_noticed = True
                    self.pgconn.finish()  # what it still says would be taken for the answer to the next statement
                    raise SilentServer(f"the server said nothing for {MAX_SECONDS_OF_SILENCE:g} s")
                wanted = waiting.send(ready)
        except StopIteration as end:
            return end.value


def bound_silence(engine: Engine, *, patient_option: str) -> Silence:
    """Let an engine of PostgreSQL give up connections to a silent server, and notice it.

    Args: `patient_option`, of the engine of a transaction whose statements may take any time.
    """
    silence = Silence()

    @event.listens_for(engine, "do_connect")
    def connect(_: object, __: object, arguments: Any, named: Any) -> BoundedConnection:
        try:
            connection = BoundedConnection.connect(*arguments, **named)
        except ConnectionTimeout:
            silence.is_noticed = True
            raise
        connection.silence = silence
        return connection

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        driver.is_patient = connection.get_execution_options().get(patient_option, False)

    @event.listens_for(engine, "checkin")
    def give_back(connection: BoundedConnection | None, _: object) -> None:
        if connection is not None:
            connection.is_patient = False

    return silence
