"""Training steps on the CPU: matrix products in threads of the rank's process, as torch does them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from io_bench.engines import IoReport
from io_bench.shapes.company import Beside

WIDTH = 512
"""Of the square matrices: a product of some milliseconds per CPU, so that a save of a second runs beside hundreds."""


class Training:
    """A loop of steps in a thread of its own, with as many threads of torch as the rank has. Fulfils Company."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self._inputs = torch.randn(WIDTH, WIDTH, generator=generator)
        self._weights = torch.randn(WIDTH, WIDTH, generator=generator)
        self._output = torch.empty(WIDTH, WIDTH)

    def alone(self, seconds: float) -> float:
        """Steps per second."""
        with self._running() as ends:
            started = time.perf_counter()
            time.sleep(seconds)
            ended = time.perf_counter()
        return _num_steps(ends, started, ended) / (ended - started)

    def beside(self, save: Callable[[], IoReport]) -> Beside:
        """Steps per second while the save drained: for as long as it stalled, training would have stood still."""
        with self._running() as ends:
            started = time.perf_counter()
            report = save()
            ended = time.perf_counter()
        goes_on = started + (report.stall_seconds or 0.0)
        return Beside(report, _num_steps(ends, goes_on, ended) / (ended - goes_on))

    def close(self) -> None:
        """Nothing runs between saves."""

    @contextmanager
    def _running(self) -> Iterator[list[float]]:
        """Steps for the time of the block; when each ended."""
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
