"""Output of programs: tables of `sizing.present`, and the progress of long work on the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sizing.present.rows import Grid, Summary

WIDTH_WITHOUT_TERMINAL = 160
"""Characters of a line in a file or a pipe: no table of one answer is wrapped at that width."""
WIDE_WITHOUT_TERMINAL = 200
"""Characters of a line in a file or a pipe, for tables with a column per figure."""
EXIT_MISSED = 1
"""Exit code where a target or a published fact is missed."""


def console(*, width_without_terminal: int = WIDTH_WITHOUT_TERMINAL) -> Console:
    """Return the output, as wide as the terminal or as COLUMNS says, or as given where there is neither."""
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if is_known else width_without_terminal, highlight=False)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar on the terminal of standard error, and yield the function that tells it the fraction that is done."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda fraction: bar.update(task, completed=fraction)


def summary_text(summary: Summary, words: Callable[[str], str] = str) -> RenderableType:
    """Show an answer: headline, tables, remarks, warnings; `words` puts them as the reader typed them."""
    verdict = [Text(words(summary.verdict), style="bold red" if summary.misses else "bold")] if summary.verdict else []
    return Group(
        Text(summary.headline, style="bold"),
        *verdict,
        *(line for grid in summary.grids for line in ("", table_of(grid, words))[not grid.title :]),
        *(Text(words(remark)) for remark in summary.remarks),
        *(Text(f"warning: {words(warning)}", style="yellow") for warning in summary.warnings),
        *(Text(note, style="dim") for note in summary.notes),
    )


def table_of(grid: Grid, words: Callable[[str], str] = str) -> RenderableType:
    """Show a table with headings, or with none; rows that stand out are bold.

    Figures are never cut: headings above them wrap, and columns that are too many for the terminal go on below.
    """
    return _Figures(grid, words) if grid.is_figures else _table(grid, words)


class _Figures(NamedTuple):
    """A table of figures in several parts: each has as many columns as fit, after those by which rows are known."""

    grid: Grid
    words: Callable[[str], str]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        keys, title = list(range(self.grid.num_keys)), self.grid.title
        places = keys.copy()
        for place in range(len(keys), len(self.grid.columns)):
            width = sum(_BESIDE_A_COLUMN + _min_width(self.grid, each) for each in (*places, place)) + 1
            if len(places) > len(keys) and width > options.max_width:
                yield self._part(places, title)
                places, title = keys.copy(), ""
            places.append(place)
        yield self._part(places, title)

    def _part(self, places: Sequence[int], title: str) -> Table:
        columns, *rows = (tuple(row[place] for place in places) for row in (self.grid.columns, *self.grid.rows))
        return _table(self.grid._replace(title=title, columns=columns, rows=tuple(rows)), self.words)


_BESIDE_A_COLUMN = 3
"""Characters: padding on either side and a line, which box.SIMPLE_HEAD leaves blank; one more line is at the end."""


def _min_width(grid: Grid, place: int) -> int:
    """Count the characters of the longest figure of a column, or of the longest word above it."""
    return max(map(len, [*grid.columns[place].split(), *(row[place] for row in grid.rows)]), default=0)


def _table(grid: Grid, words: Callable[[str], str]) -> Table:
    table = Table(
        title=grid.title or None,
        title_justify="left",
        title_style="bold cyan",
        box=box.SIMPLE_HEAD if grid.columns else None,
        show_header=bool(grid.columns),
    )
    for place, column in enumerate(grid.columns):
        if grid.is_figures:
            table.add_column(column, justify="right", width=_min_width(grid, place))
        else:
            table.add_column(column)
    for place, row in enumerate(grid.rows):
        table.add_row(*(Text(words(cell)) for cell in row), style="bold" if place in grid.stressed else "")
    return table
