"""The live view of a scan: how far it is, how long it still takes, what runs now, and the best so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table

from sizing.storage.measurement import Measurement, Operation
from sizing.units import rate_text, seconds_text


class ScanProgress:
    """Hears of every step and draws itself.

    `weights` are bytes, one per configuration to come, each moved in `num_steps` writes and restores. The time left
    is that of the bytes left at the pace so far.
    """

    def __init__(
        self, weights: Sequence[int], *, num_steps: int, num_done: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._weights, self._num_steps, self._num_done = weights, num_steps, num_done
        self._clock, self._started = clock, clock()
        self._number, self._steps_done = -1, 0
        self._title, self._doing, self._rate = "", "preparing", ""
        self._best: dict[Operation, tuple[float, str]] = {}

    def begin_configuration(self, title: str) -> None:
        """The next configuration begins."""
        self._number, self._steps_done, self._title = self._number + 1, 0, title

    def begin(self, doing: str) -> None:
        """What runs now."""
        self._doing = doing

    def end(self, bytes_per_second: float) -> None:
        """It is done, at this rate over all ranks."""
        self._steps_done, self._rate = self._steps_done + 1, rate_text(bytes_per_second)

    def end_configuration(self, measurements: Sequence[Measurement]) -> str:
        """What the configuration gave, in a line; the best is kept in view."""
        self._steps_done = self._num_steps
        for measurement in measurements:
            best, _ = self._best.get(measurement.operation, (0.0, ""))
            if measurement.is_of_storage and measurement.headline_bytes_per_second > best:
                self._best[measurement.operation] = (measurement.headline_bytes_per_second, self._title)
        rates = ", ".join(map(_rate, measurements))
        return f"{self._count}  {self._title}: {rates}{self._left}"

    def __rich__(self) -> RenderableType:
        """A bar, and under it what runs and what was best."""
        bar = Table.grid(padding=(0, 1))
        elapsed = seconds_text(self._clock() - self._started)
        bar.add_row(f"Scan {self._count}", ProgressBar(1.0, self._fraction, width=40), f"{elapsed} so far{self._left}")
        lines = [f"  {self._title or 'preparing'}: {self._doing} {self._rate}".rstrip()]
        lines += [f"  best {operation} {rate_text(rate)}: {title}" for operation, (rate, title) in self._best.items()]
        return Group(bar, *lines)

    @property
    def _count(self) -> str:
        return f"{self._num_done + self._number + 1}/{self._num_done + len(self._weights)}"

    @property
    def _done_weight(self) -> float:
        """Bytes behind us; repetitions beyond the plan count no more."""
        if self._number < 0:
            return 0.0
        part = min(1.0, self._steps_done / self._num_steps)
        return sum(self._weights[: self._number]) + part * self._weights[self._number]

    @property
    def _fraction(self) -> float:
        return self._done_weight / sum(self._weights) if self._weights else 1.0

    @property
    def _left(self) -> str:
        fraction = self._fraction
        if not 0 < fraction < 1:
            return ""
        return f", {seconds_text((self._clock() - self._started) * (1 - fraction) / fraction)} left"


def _rate(measurement: Measurement) -> str:
    of_memory = "" if measurement.is_of_storage else " from the page cache"
    return f"{measurement.operation} {rate_text(measurement.headline_bytes_per_second)}{of_memory}"
