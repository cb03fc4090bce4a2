"""Background load of one rank, beside its saves: batches that a process reads, or training's own arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

import numpy as np
import torch

from io_bench import interruption
from io_bench.engines import IoReport
from io_bench.errors import RunFailed
from io_bench.payload.byte_source import POOL_BYTES, SeededBytes
from io_bench.target.target import RunFiles


class BackgroundLoad(Protocol):
    """The background load beside the saves of one rank. Methods raise OSError and RunFailed."""

    def alone(self, seconds: float) -> float:
        """Run for so much time with nothing beside; return the rate."""

    def beside(self, save: Callable[[], IoReport]) -> IoReport:
        """Run while a save does; return its report, with the `background_rate` while training would have gone on."""

    def close(self) -> None:
        """End the load, and remove what it had on the target. Raises OSError."""


_SECONDS_TO_END = 10.0
"""Max time until the reader ends: more than one request of a batch takes."""


class BatchReading:
    """A file of random bytes, and the process that reads from it. Fulfils BackgroundLoad."""

    def __init__(self, files: RunFiles, name: str, *, num_bytes: int, batch_bytes: int, seed: int) -> None:
        self._files = files
        self._name = name
        _write(files, name, num_bytes, seed)
        path = files.location(name)
        words = [sys.executable, "-m", "io_bench.workloads.batch_reader", path, str(batch_bytes), str(seed)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - this very program
        self._hear()

    def alone(self, seconds: float) -> float:
        """Count bytes per second with nothing beside."""
        self._tell("begin")
        interruption.sleep(seconds)
        return self._end_count()

    def beside(self, save: Callable[[], IoReport]) -> IoReport:
        """Count bytes per second while the save ran, an asynchronous one to the end of its drain."""
        self._tell("begin")
        report = save()
        return replace(report, background_rate=self._end_count())

    def close(self) -> None:
        """End the process and remove the file."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._files.remove([self._name])

    def _end_count(self) -> float:
        self._tell("end")
        counted = self._hear()
        return float(counted["bytes"] / counted["seconds"])

    def _tell(self, word: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        try:
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failure() from error

    def _hear(self) -> dict[str, float]:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        with interruption.at_once():
            line = self._process.stdout.readline()
        if not line:
            raise self._failure()
        counted: dict[str, float] = json.loads(line)
        return counted

    def _failure(self) -> RunFailed:
        location = self._files.location(self._name)
        return RunFailed(f"The process that reads batches from {location} ended with {self._process.wait()}.")


def _write(files: RunFiles, name: str, num_bytes: int, seed: int) -> None:
    """Write the file, of bytes that storage does not find twice, and drop it from the page cache."""
    seeded, chunk = SeededBytes(f"batches/{seed}"), np.empty(POOL_BYTES, dtype=np.uint8)
    with files.create(name) as file:
        for number, start in enumerate(range(0, num_bytes, POOL_BYTES)):
            seeded.fill(chunk, key=seeded.key(0, name, number))
            file.write(chunk[: num_bytes - start].data)
        file.flush()
        files.persist(file)
    files.drop_from_memory(name)


WIDTH = 512
"""Width of the square matrices: a product of some milliseconds per CPU, so that a save of a second runs beside
hundreds."""


class TrainingLoad:
    """A loop of steps in a thread of its own, with as many threads of torch as the rank has. Fulfils BackgroundLoad."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self._inputs = torch.randn(WIDTH, WIDTH, generator=generator)
        self._weights = torch.randn(WIDTH, WIDTH, generator=generator)
        self._output = torch.empty(WIDTH, WIDTH)

    def alone(self, seconds: float) -> float:
        """Count steps per second with nothing beside."""
        with self._running() as ends:
            started = time.perf_counter()
            interruption.sleep(seconds)
            ended = time.perf_counter()
        return _num_steps(ends, started, ended) / (ended - started)

    def beside(self, save: Callable[[], IoReport]) -> IoReport:
        """Count steps per second while the save drained: for as long as it stalled, training would have stood still."""
        with self._running() as ends:
            started = time.perf_counter()
            report = save()
            ended = time.perf_counter()
        goes_on = started + (report.stall_seconds or 0.0)
        return replace(report, background_rate=_num_steps(ends, goes_on, ended) / (ended - goes_on))

    def close(self) -> None:
        """Do nothing: no step runs between saves."""

    @contextmanager
    def _running(self) -> Iterator[list[float]]:
        """Run steps for the time of the block; the list of when each ended."""
        ends: list[float] = []
        stopped = threading.Event()

        def train() -> None:
            while not stopped.is_set():
                torch.mm(self._inputs, self._weights, out=self._output)
                ends.append(time.perf_counter())

        thread = threading.Thread(target=train, name="training", daemon=True)
        thread.start()
        try:
            yield ends
        finally:
            stopped.set()
            thread.join()


def _num_steps(ends: Sequence[float], started: float, ended: float) -> int:
    return sum(started < end <= ended for end in ends)
