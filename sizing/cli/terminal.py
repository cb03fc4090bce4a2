"""Where the command line prints: tables to the output, progress of long work to the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

WIDTH_WITHOUT_TERMINAL = 160
"""Of what goes into a file or a pipe: no table of one answer is wrapped at that width."""
WIDE_WITHOUT_TERMINAL = 200
"""The same for tables with a column per figure."""
EXIT_MISSED = 1
"""Exit code where a target or a published fact is missed."""


def console(*, width_without_terminal: int = WIDTH_WITHOUT_TERMINAL) -> Console:
    """The output, as wide as the terminal or as COLUMNS says, or as given where there is neither."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_known else width_without_terminal, highlight=False)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """A bar on the terminal of standard error, and the function that tells it the fraction that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)
