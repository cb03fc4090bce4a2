"""Text of `ckpt-size inspect`: the tensors and files of a checkpoint, and the flags that size a run like it."""

from __future__ import annotations

import shlex
from pathlib import Path

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.checkpoint_files import CheckpointContents
from sizing.cli.flags import FLAG_OF_FIELD, flag_words
from sizing.present.inspections import (
    NUM_PARAMETERS,
    files_section,
    find_config,
    infer_fields,
    inspection_notes,
    tensors_grid,
)
from sizing.present.rows import Grid, Section

_TEXT_COLUMNS = 2
"""Part and dtype; figures follow, which stand to the right."""


def inspection_table(contents: CheckpointContents, path: Path) -> RenderableType:
    """Show the tensors by part and dtype, the files' figures, notes, and last the flags for `ckpt-size`."""
    return Group(
        *([_tensors_table(tensors_grid(contents))] if contents.tensors else []),
        _figures_table(files_section(contents)),
        *(Text(f"note: {flag_words(None, {})(note)}") for note in inspection_notes(contents)),
        Text(),
        Text(flags_text(contents, str(path if path.is_dir() else path.parent))),
    )


def flags_text(contents: CheckpointContents, folder: str | None = None) -> str:
    """Write the flags of `ckpt-size` for this checkpoint; the user names a model of unknown parameters.

    `folder` is where it lies: a config.json there gives the shapes that some optimizers' state follows from.
    """
    config = find_config(contents) if folder is not None else None
    fields = infer_fields(contents, has_config=config is not None)
    model = [] if NUM_PARAMETERS in fields else ["--model NAME"]
    if config is not None and folder is not None:
        model = [f"--hf-config {shlex.quote(f'{folder}/{config}')}"]
    given = (f"{FLAG_OF_FIELD[field]} {value}" for field, value in fields.items())
    return " ".join(("ckpt-size", *model, *given))


def _tensors_table(grid: Grid) -> Table:
    table = Table(title=grid.title, title_justify="left", box=box.SIMPLE_HEAD)
    for place, column in enumerate(grid.columns):
        table.add_column(column, justify="left" if place < _TEXT_COLUMNS else "right")
    for row in grid.rows:
        table.add_row(*row)
    return table


def _figures_table(section: Section) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column()
    for row in section.rows:
        table.add_row(row.label, row.figure, Text(row.meaning))
    return table
