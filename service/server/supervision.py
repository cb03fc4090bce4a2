"""Several workers on one socket, each replaced as soon as it dies.

uvicorn has a supervisor, too. It asks its workers in turn for signs of life, kills those that take long to start on a
busy machine, and does not notice meanwhile that another has died. This one waits for the ends of processes alone;
whether a worker still answers is for whoever asks /healthz.
"""

from __future__ import annotations

import logging
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess

from executors.worker import end_with_parent
from service.telemetry import LOG_CONFIG, WORKERS_DIRECTORY
from sizing.errors import EXIT_BAD_INPUT, SizingError

SECONDS_TO_FINISH = 5
"""How long requests in progress may take after the service was told to stop."""

_SECONDS_TO_END = SECONDS_TO_FINISH + 5
"""Time until workers that have not ended are killed."""
_SECONDS_BETWEEN_STARTS = 0.5
"""Pause between two starts, so that a worker that cannot even start does not keep a CPU busy."""
_SECONDS_TO_NOTICE_A_SIGNAL = 0.2
"""Python handles a signal between two waits."""

SPAWNING = multiprocessing.get_context("spawn")
"""For a worker, which is the service anew. It is not forked off the service: a fork copies the locks of threads that it
does not copy, and a locked one is never released."""

_log = logging.getLogger(__name__)


def supervise(work: Callable[[socket.socket], None], num_workers: int, listener: socket.socket) -> None:
    """Let `num_workers` processes `work` on a socket until SIGTERM or SIGINT. `work` must be picklable."""
    logging.config.dictConfig(LOG_CONFIG)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with tempfile.TemporaryDirectory(prefix="ckpt-serve-metrics-") as directory:
        os.environ[WORKERS_DIRECTORY] = directory  # for the workers, which count there
        workers = [_start_worker(work, listener) for _ in range(num_workers)]
        while not stop.is_set():
            wait([worker.sentinel for worker in workers], timeout=_SECONDS_TO_NOTICE_A_SIGNAL)
            for place, worker in enumerate(workers):
                if not worker.is_alive() and not stop.is_set():
                    _log.error("Worker %s ended with exit code %s and is replaced.", worker.pid, worker.exitcode)
                    time.sleep(_SECONDS_BETWEEN_STARTS)  # one that cannot even start must not keep a CPU busy
                    workers[place] = _start_worker(work, listener)
        _end(workers)


def _start_worker(work: Callable[[socket.socket], None], listener: socket.socket) -> SpawnProcess:
    worker = SPAWNING.Process(target=_work, args=(work, listener))
    worker.start()
    return worker


def _work(work: Callable[[socket.socket], None], listener: socket.socket) -> None:
    """Run one worker. If it cannot start, as where the database is away, it logs why and is tried again."""
    logging.config.dictConfig(LOG_CONFIG)
    end_with_parent()
    try:
        work(listener)
    except SizingError as error:
        _log.error("A worker cannot start: %s", error)
        sys.exit(EXIT_BAD_INPUT)


def _end(workers: list[SpawnProcess]) -> None:
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + _SECONDS_TO_END
    for worker in workers:
        worker.join(timeout=max(0.0, deadline - time.monotonic()))
        if worker.is_alive():
            worker.kill()
            worker.join()
