"""What `ckpt-size inspect` prints of a checkpoint: its tensors, its files, and the flags that use them."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.checkpoint_files import CheckpointContents
from sizing.summary.inspections import files_section, flags_text, inspection_notes, tensors_grid
from sizing.summary.rows import Grid, Section

_TEXT_COLUMNS = 2
"""Part and dtype; figures follow, which stand to the right."""


def inspection_table(contents: CheckpointContents) -> RenderableType:
    """Tensors by part and dtype, the files' figures, notes, and last the flags for `ckpt-size`."""
    return Group(
        *([_tensors(tensors_grid(contents))] if contents.tensors else []),
        _figures(files_section(contents)),
        *(Text(f"note: {note}") for note in inspection_notes(contents)),
        Text(),
        Text(flags_text(contents)),
    )


def _tensors(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left", box=box.SIMPLE_HEAD)
    for place, column in enumerate(grid.columns):
        table.add_column(column, justify="left" if place < _TEXT_COLUMNS else "right")
    for row in grid.rows:
        table.add_row(*row)
    return table


def _figures(section: Section) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for row in section.rows:
        table.add_row(row.label, row.figure, Text(row.meaning))
    return table
