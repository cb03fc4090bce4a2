"""Tables of `sizing.summary` at the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from sizing.summary import Grid


def table_of(grid: Grid) -> Table:
    """A table with headings; rows that stand out are bold."""
    table = Table(*grid.columns, title=grid.title, title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD)
    for place, row in enumerate(grid.rows):
        table.add_row(*map(Text, row), style="bold" if place in grid.stressed else "")
    return table
