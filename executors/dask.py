"""Workers of a Dask scheduler compute chunks, on other machines too. Needs the extra `cluster`.

What is Dask's: who computes which chunk, and that another worker computes what one that is gone has left. What is ours:
the order of parts with few of them under way, limits, versions, and a sentence for each way in which it can fail.
"""

from __future__ import annotations

import logging
import pickle
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from executors.dask_worker import TOPIC, ComputedPart, Terms, compute_on_worker, find_versions
from executors.window import CHUNKS_AHEAD, MAX_ATTEMPTS, ChunkLimits, ClusterFailed, receive_in_order, refused_chunk
from executors.worker import ComputationListener, ComputedChunk, ignore_computation, pickle_maker
from sizing.errors import InvalidInput, NotInstalled
from sizing.questions.chunks import ChunkedWork, ItemRange, Progress, WorkMaker, compute_here
from sizing.units import seconds_text

if TYPE_CHECKING:
    from distributed import Client, Future

MAX_CHUNKS_AHEAD = 10_000
"""Chunks under way at once, however many workers there are: the scheduler keeps 1 kB of each."""
SECONDS_TO_REACH = 10.0
SECONDS_TO_RETURN = 30.0
"""Time in which a scheduler that is gone must be there again."""
SECONDS_WITHOUT_WORKERS = 60.0
_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_COUNTS = 5.0
_SECONDS_TO_CLOSE = 5.0
_MAX_LOSSES = 3
"""Losses of the scheduler, or of a chunk by it, between two parts that are received."""


def check_scheduler(address: str, field: str) -> None:
    """Check that an address can be one of a scheduler, and that what speaks to it is installed; `field` names it.

    Raises NotInstalled without the extra `cluster`, and InvalidInput for an address that is none.
    """
    if not all(map(find_spec, ("distributed", "pebble"))):  # of which workers need the second
        remedy = "pip install 'checkpoint-sizing[cluster]'"
        raise NotInstalled.of(field, "needs the library distributed", value=None, remedy=remedy)
    try:
        parts = urlsplit(address)
        is_one = parts.scheme in ("tcp", "tls") and parts.hostname and parts.port and not parts.path.strip("/")
    except ValueError:
        is_one = False
    if not is_one:
        remedy = "give for example tcp://scheduler.example.org:8786"
        raise InvalidInput.of(field, "must be tcp:// or tls://, a host and a port", value=address, remedy=remedy)
    if address.startswith("tls:"):
        from distributed import Security  # noqa: PLC0415 - an extra

        if not Security().tls_ca_file:
            remedy = "set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, __CLIENT__CERT and __CLIENT__KEY"
            raise InvalidInput.of(field, "needs certificates for tls", value=address, remedy=remedy)


class DaskWorkers:
    """Workers of the Dask scheduler at an address, such as tcp://HOST:8786; `field` names it in sentences.

    Args: `hear`, who hears of each chunk that comes from a worker; `is_awaited`, whether a scheduler that is not there
    yet is waited for as long as for one that is gone in between, as where nobody sits before the answer.

    Certificates of tls:// are those of Dask's configuration. Raises as `check_scheduler`.
    """

    def __init__(
        self,
        address: str,
        limits: ChunkLimits | None = None,
        *,
        field: str = "--dask",
        hear: ComputationListener = ignore_computation,
        is_awaited: bool = False,
    ) -> None:
        check_scheduler(address, field)
        self._hear, self._is_awaited = hear, is_awaited
        self._address, self._field, self._limits = address, field, limits or ChunkLimits()

    def compute(self, work: ChunkedWork[Any, Any], make: WorkMaker, progress: Progress) -> Iterator[Any]:
        """Compute the parts of all chunks, in their order; those of one chunk here.

        Raises InvalidInput where a chunk does, for one that takes too much time or memory or is killed twice, and where
        the scheduler is not there, has no workers, or other versions.
        """
        if len(work.chunks) == 1:
            yield from compute_here(work, make, progress)
            return
        terms = Terms(uuid.uuid4().hex, self._field, find_versions(), self._limits)
        seconds = SECONDS_TO_RETURN if self._is_awaited else SECONDS_TO_REACH
        with closing(_Scheduler(self._address, terms, pickle_maker(make), seconds)) as scheduler:
            yield from receive_in_order(work, scheduler.send, scheduler.num_ahead, progress, self._hear)


@dataclass(slots=True)
class _Task:
    """A chunk that the scheduler has given to a worker, or will."""

    scheduler: _Scheduler
    chunk: ItemRange
    future: Future
    num_sent: int = 1

    def receive(self) -> ComputedChunk:
        """Wait for the part, and return it with the process that computed it."""
        return self.scheduler.receive(self)


class _Scheduler:
    """A scheduler, for the chunks of one question. It is connected to again where it was gone for a while."""

    def __init__(self, address: str, terms: Terms, maker: bytes, seconds_to_reach: float) -> None:
        self._address, self._terms, self._maker = address, terms, maker
        self._tasks: list[_Task] = []
        self._begun: Counter[ItemRange] = Counter()
        self._news = threading.Event()
        """Set where a task has ended, or a worker begins or ends a chunk."""
        self._num_losses, self._num_threads = 0, 0
        self._counted_at, self._had_workers_at = 0.0, time.monotonic()
        rule = f"cannot be reached within {seconds_text(seconds_to_reach)}"
        self._client, self._maker_there = self.connect(seconds_to_reach, rule)

    def close(self) -> None:
        """Disconnect. The scheduler forgets the chunks then, and workers end those that they compute."""
        with suppress(Exception):  # it may be gone
            self._client.close(timeout=_SECONDS_TO_CLOSE)

    def send(self, chunk: ItemRange) -> _Task:
        """Give a chunk to the scheduler, and keep it until its part is received."""
        task = _Task(self, chunk, self.submit(chunk, num_sent=1))
        self._tasks.append(task)
        return task

    def num_ahead(self) -> int:
        """Count the chunks that may be under way at once, by the workers that are there now."""
        self.look()
        return min(MAX_CHUNKS_AHEAD, CHUNKS_AHEAD * max(1, self._num_threads))

    def receive(self, task: _Task) -> ComputedChunk:
        """Wait for a part.

        Raises InvalidInput as `DaskWorkers.compute`.
        """
        part: object = None
        while part is None:
            self._news.clear()
            try:
                if task.future.status == "finished":
                    part = task.future.result(timeout=SECONDS_TO_REACH)
                elif task.future.status == "error":
                    self.resend_killed(task, task.future.exception(timeout=SECONDS_TO_REACH))
                elif task.future.status == "pending":
                    self._news.wait(_SECONDS_BETWEEN_LOOKS)
                    self.look()
                else:  # forgotten by the scheduler, which was gone, or is
                    self.connect_again()
            except (OSError, TimeoutError):
                self.connect_again()
        is_one = isinstance(part, ComputedPart) and part[:2] == (self._terms.question, task.chunk)
        if not isinstance(part, ComputedPart) or not is_one or part.computed is None:
            raise self.failure("answered with something else than the part of a chunk", "start it anew")
        self._tasks.remove(task)
        self._num_losses = 0
        task.future.release()
        return part.computed

    def submit(self, chunk: ItemRange, *, num_sent: int) -> Future:
        """Give the scheduler a chunk, for the how manyth time."""
        if self._client.status == "closed":
            self.connect_again()
        order = pickle.dumps((self._terms, chunk))
        key = f"chunk-{self._terms.question}-{chunk.start}-{num_sent}"
        future = self._client.submit(compute_on_worker, order, self._maker_there, key=key, pure=False)
        future.add_done_callback(lambda _: self._news.set())
        return future

    def look(self) -> None:
        """Look whether a chunk was killed twice, and whether there are workers. Raises InvalidInput."""
        for chunk, begun in self._begun.copy().items():
            if begun > MAX_ATTEMPTS:
                raise refused_chunk(chunk, f"was computed by {MAX_ATTEMPTS} workers of {self._address} that died of it")
        now = time.monotonic()
        if now < self._counted_at + _SECONDS_BETWEEN_COUNTS:
            return
        client = self._client
        try:
            threads = client.sync(client.scheduler.ncores, workers=None, callback_timeout=SECONDS_TO_REACH)
        except (OSError, TimeoutError):
            self.connect_again()
            return
        self._counted_at, self._num_threads = now, sum(threads.values())
        if threads:
            self._had_workers_at = now
        elif now > self._had_workers_at + SECONDS_WITHOUT_WORKERS:
            raise self.failure(f"has had no worker for {seconds_text(SECONDS_WITHOUT_WORKERS)}", "start workers")

    def resend_killed(self, task: _Task, error: BaseException) -> None:
        """Send a chunk again whose workers died beside it. Raises InvalidInput where it is at fault, and its errors."""
        from distributed import KilledWorker  # noqa: PLC0415 - an extra

        is_other_version = isinstance(error, (ImportError, AttributeError)) or "deserialization" in str(error)
        if is_other_version and not isinstance(error, InvalidInput):
            remedy = "install the same version of this project and of its libraries there and here"
            raise self.failure("has not this version of checkpoint-sizing, itself or on a worker", remedy) from None
        if not isinstance(error, KilledWorker):
            raise error from None
        if task.num_sent == MAX_ATTEMPTS:
            raise refused_chunk(
                task.chunk, f"was with workers of {self._address} that died, each time that it was sent"
            )
        task.num_sent += 1
        task.future = self.submit(task.chunk, num_sent=task.num_sent)

    def connect(self, seconds: float, rule: str) -> tuple[Client, Future]:
        """Connect, and send what makes the work. Raises InvalidInput where that takes longer than some seconds."""
        from distributed import Client  # noqa: PLC0415 - an extra

        class LimitedClient(Client):  # type: ignore[misc]  # a library without types
            """Client that gives up what accepts its connection and never answers, as a frozen process does.

            It is closed where it is given up, and never where garbage is collected: that may be while the next client
            starts, which holds the lock that closing waits for.
            """

            def start(self, **options: Any) -> None:
                try:
                    super().start(callback_timeout=seconds, **options)
                except BaseException:
                    with suppress(Exception):
                        self.close(timeout=_SECONDS_TO_CLOSE)
                    raise

            def __del__(self) -> None:
                pass

        for name in ("distributed", "distributed.client"):  # which have levels of their own
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what goes wrong is said here, once
        try:
            client = LimitedClient(self._address, timeout=seconds, set_as_default=False, name="checkpoint-sizing")
        except Exception:  # noqa: BLE001 - what speaks there may be anything
            remedy = "see that it runs there, and that this machine has its certificates where it is tls"
            raise self.failure(rule, remedy) from None
        client.subscribe_topic(TOPIC, self.hear)
        key = f"maker-{self._terms.question}-{self._num_losses}"
        return client, client.submit(bytes, self._maker, key=key, pure=False)

    def connect_again(self) -> None:
        """Connect to a scheduler that was gone, and send what is under way. Raises InvalidInput where it stays away."""
        self._num_losses += 1
        rule = f"is gone, and was not there again within {seconds_text(SECONDS_TO_RETURN)}"
        if self._num_losses > _MAX_LOSSES:
            raise self.failure(f"has lost the chunks {_MAX_LOSSES} times", "see why it ends")
        self.close()
        self._begun.clear()
        self._client, self._maker_there = self.connect(SECONDS_TO_RETURN, rule)
        self._had_workers_at = time.monotonic()
        for task in self._tasks:
            task.future = self.submit(task.chunk, num_sent=task.num_sent)

    def hear(self, event: tuple[float, Any]) -> None:
        """Hear that a worker begins or ends a chunk, of whatever question."""
        _, message = event
        if message["question"] == self._terms.question:
            self._begun[ItemRange(*message["chunk"])] += message["begun"]
            self._news.set()

    def failure(self, rule: str, remedy: str) -> InvalidInput:
        """Return the sentence about a scheduler that does not what it must."""
        return ClusterFailed.of(self._terms.field, rule, value=self._address, remedy=remedy)
