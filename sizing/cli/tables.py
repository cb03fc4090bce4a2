"""Tables of `sizing.summary` at the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from sizing.summary import Grid
from sizing.summary.rows import Summary


def summary_text(summary: Summary, words: Callable[[str], str] = str) -> RenderableType:
    """The answer to a question: headline, tables, remarks, warnings; `words` puts them as the reader typed them."""
    verdict = [Text(words(summary.verdict), style="bold red" if summary.misses else "bold")] if summary.verdict else []
    return Group(
        Text(summary.headline, style="bold"),
        *verdict,
        *(line for grid in summary.grids for line in ("", table_of(grid, words))[not grid.title :]),
        *(Text(words(remark)) for remark in summary.remarks),
        *(Text(f"warning: {words(warning)}", style="yellow") for warning in summary.warnings),
    )


def table_of(grid: Grid, words: Callable[[str], str] = str) -> RenderableType:
    """A table with headings, or with none; rows that stand out are bold.

    Figures are never cut: headings above them wrap, and columns that are too many for the terminal go on below.
    """
    return _Figures(grid, words) if grid.is_figures else _table(grid, words)


class _Figures(NamedTuple):
    """Tables of as many columns as fit beside each other, each with those by which rows are known."""

    grid: Grid
    words: Callable[[str], str]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        keys, title = list(range(self.grid.num_keys)), self.grid.title
        shown = keys.copy()
        for place in range(len(keys), len(self.grid.columns)):
            if len(shown) > len(keys) and self._width([*shown, place]) > options.max_width:
                yield self._part(shown, title)
                shown, title = keys.copy(), ""
            shown.append(place)
        yield self._part(shown, title)

    def _part(self, places: Sequence[int], title: str) -> Table:
        columns, *rows = (tuple(row[place] for place in places) for row in (self.grid.columns, *self.grid.rows))
        return _table(self.grid._replace(title=title, columns=columns, rows=tuple(rows)), self.words)

    def _width(self, places: Sequence[int]) -> int:
        return sum(_BESIDE_A_COLUMN + _uncut(self.grid, place) for place in places) + 1


_BESIDE_A_COLUMN = 3
"""Characters: padding on either side and a line, which box.SIMPLE_HEAD leaves blank; one more line is at the end."""


def _uncut(grid: Grid, place: int) -> int:
    """Characters of a column of figures and of the longest word above them."""
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
            table.add_column(column, justify="right", width=_uncut(grid, place))
        else:
            table.add_column(column)
    for place, row in enumerate(grid.rows):
        table.add_row(*(Text(words(cell)) for cell in row), style="bold" if place in grid.stressed else "")
    return table
