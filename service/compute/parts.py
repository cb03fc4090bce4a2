"""Parts of a job's answer on their way: from the process that computes them to the database, and to who goes on.

The process has no database. It tells its server each part, and asks it for those that are there, by the pipe between
them, which holds one part at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from executors.worker import Computation
from service.database import Database, jobs
from service.database.jobs import MAX_PART_BYTES, MAX_PARTS_BYTES, Owner, TakenJob
from sizing.questions.chunks import ItemRange

_log = logging.getLogger(__name__)


class PartMessage(NamedTuple):
    """What a process says to its server: the part of a chunk that it has computed, or that it wants one."""

    chunk: ItemRange
    part: bytes | None


class ComputationMessage(NamedTuple):
    """What a process says to its server where it is traced: that it has begun, without a chunk, or has computed one."""

    chunk: ItemRange | None
    computation: Computation


class PartsOfServer:
    """The parts of a job, as the process that computes it has them of its server."""

    def __init__(self, connection: Connection[Any, Any], chunks: Collection[ItemRange]) -> None:
        self._connection, self.chunks = connection, frozenset(chunks)

    def find(self, chunk: ItemRange) -> bytes | None:
        """Ask the server for the part of a chunk; None where it is gone."""
        self._connection.send(PartMessage(chunk, None))
        part: bytes | None = self._connection.recv()
        return part

    def keep(self, chunk: ItemRange, part: bytes) -> None:
        """Send a part that is not too large."""
        if len(part) <= MAX_PART_BYTES:
            self._connection.send(PartMessage(chunk, part))


class PartsInDatabase:
    """The parts of a job, as its owner has them in the database."""

    def __init__(self, database: Database, owner: Owner, job: TakenJob) -> None:
        self._database, self._owner, self._job = database, owner, job
        self._num_bytes = sum(job.parts.values())

    def hear(self, message: PartMessage, connection: Connection[Any, Any]) -> None:
        """Keep a part that a process has computed, or send it the one that it wants.

        Where the database is away the process computes it, and nothing is kept.
        """
        chunk, part = message
        try:
            if part is None:
                connection.send(jobs.find_part(self._database, self._job.id, chunk))
            elif self._num_bytes + len(part) <= MAX_PARTS_BYTES:
                jobs.store_part(self._database, self._job.id, self._owner, chunk, part)
                self._num_bytes += len(part)
        except SQLAlchemyError as error:
            _log.warning("A part of a job waits for no database: %s", str(error).partition("\n")[0])
            if part is None:
                connection.send(None)
