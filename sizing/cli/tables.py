"""Tables of `sizing.summary` at the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich import box
from rich.console import Group, RenderableType
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


def table_of(grid: Grid, words: Callable[[str], str] = str) -> Table:
    """A table with headings, or with none; rows that stand out are bold."""
    table = Table(
        title=grid.title or None,
        title_justify="left",
        title_style="bold cyan",
        box=box.SIMPLE_HEAD if grid.columns else None,
        show_header=bool(grid.columns),
    )
    for column in grid.columns:
        table.add_column(column, justify="right" if grid.is_figures else "left", no_wrap=grid.is_figures)
    for place, row in enumerate(grid.rows):
        table.add_row(*(Text(words(cell)) for cell in row), style="bold" if place in grid.stressed else "")
    return table
