"""Terminal of a run, on which rank 0 alone speaks. Results go to stdout, all else to stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from sizing.units import rate_text

WIDTH_WITHOUT_TERMINAL = 130
"""Width of what goes into a log: the widest table of one run."""
# Drawing costs the GIL now and then, also under the clock.
_REDRAWS_PER_SECOND = 2


class StepProgress(Protocol):
    """Progress that is told of every write and every restore."""

    def begin(self, doing: str) -> None:
        """Hear what runs now."""

    def end(self, bytes_per_second: float) -> None:
        """Hear that it is done, at this rate over all ranks."""


class RunProgress:
    """A bar with a step per operation, and the rate of the last; `num_steps` at least, and `max_steps` at most.

    Repetitions end as soon as the rates have settled. Until the least is done the bar counts to that, then to the most.
    Where no bar is drawn, as in the log of a batch job, each step that is done becomes a line, with both.
    """

    def __init__(self, progress: Progress, num_steps: int, *, max_steps: int, say: Callable[[str], None]) -> None:
        self._progress, self._say = progress, say
        self._task = progress.add_task("preparing", total=num_steps, rate="")
        self._num_done, self._num_steps, self._max_steps, self._doing = 0, num_steps, max(num_steps, max_steps), ""

    def begin(self, doing: str) -> None:
        """Say what runs now."""
        self._doing = doing
        self._max_steps = max(self._max_steps, self._num_done + 1)
        total = self._num_steps if self._num_done < self._num_steps else self._max_steps
        self._progress.update(self._task, description=doing, total=total)

    def end(self, bytes_per_second: float) -> None:
        """Count one step, at this rate over all ranks."""
        self._num_done += 1
        rate = rate_text(bytes_per_second)
        self._progress.update(self._task, completed=self._num_done, rate=rate)
        if self._progress.disable:
            least = (
                ""
                if self._num_done > self._num_steps or self._max_steps == self._num_steps
                else f"{self._num_steps} to "
            )
            self._say(f"{self._num_done} of {least}{self._max_steps}, {self._doing}: {rate}")


class Terminal:
    """stdout and stderr of the one rank that speaks; silence on the others."""

    def __init__(self, *, is_speaker: bool) -> None:
        width = None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL
        self._out = Console(quiet=not is_speaker, highlight=False, width=width)
        self._err = Console(quiet=not is_speaker, highlight=False, stderr=True)

    def show(self, result: RenderableType) -> None:
        """Print a part of the result to stdout."""
        self._out.print(result, markup=False, soft_wrap=isinstance(result, str))

    def say(self, sentence: str) -> None:
        """Print one line to stderr."""
        self._err.print(sentence, markup=False, soft_wrap=True)

    @contextmanager
    def live(self, view: RenderableType) -> Iterator[None]:
        """Show a view that redraws itself on stderr, only where that is a terminal."""
        if self._err.quiet or not self._err.is_terminal:
            yield
            return
        with Live(view, console=self._err, refresh_per_second=_REDRAWS_PER_SECOND, transient=True):
            yield

    @contextmanager
    def bytes_progress(self, doing: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """Show a bar on stderr where that is a terminal; the function that hears of bytes, from any thread."""
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        is_silent = self._err.quiet or not self._err.is_terminal
        with Progress(*columns, TimeRemainingColumn(), console=self._err, transient=True, disable=is_silent) as bar:
            task = bar.add_task(doing, total=total_bytes)
            yield lambda num_bytes: bar.advance(task, num_bytes)

    @contextmanager
    def progress(self, num_steps: int, *, max_steps: int) -> Iterator[RunProgress]:
        """Show progress on stderr, as a bar or as lines. The run has `num_steps` to `max_steps` steps."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
        )
        with Progress(
            *columns,
            console=self._err,
            refresh_per_second=_REDRAWS_PER_SECOND,
            transient=True,
            disable=self._err.quiet or not self._err.is_terminal,
        ) as progress:
            yield RunProgress(progress, num_steps, max_steps=max_steps, say=self.say)
