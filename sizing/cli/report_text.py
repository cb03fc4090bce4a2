"""A SizingReport at the terminal: the answer first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.report import SizingReport
from sizing.summary import (
    Grid,
    Section,
    assumed,
    came_from,
    checkpoint_section,
    grids,
    headline,
    rank_classes,
    sections,
)


def report_text(report: SizingReport) -> RenderableType:
    """The whole report as tables."""
    tables = [*map(_rows, sections(report)), *map(_table, grids(report))]
    title = Text(headline(report), style="bold")
    return Group(title, *(line for table in tables for line in ("", table)), *_notes(report))


def manifest_text(report: SizingReport) -> RenderableType:
    """Who writes which files."""
    return Group(_rows(checkpoint_section(report)), "", _table(rank_classes(report)))


def _rows(section: Section) -> Table:
    table = Table(title=section.title, title_justify="left", title_style="bold cyan", box=None, show_header=False)
    table.add_column(style="dim", min_width=19)
    table.add_column(justify="right", min_width=24, no_wrap=True)
    table.add_column()
    for row in section.rows:
        table.add_row(*row)
    return table


def _table(grid: Grid) -> Table:
    table = Table(*grid.columns, title=grid.title, title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD)
    for row in grid.rows:
        table.add_row(*map(Text, row))
    return table


def _notes(report: SizingReport) -> Iterator[RenderableType]:
    for warning in report.warnings:
        yield Text(f"warning: {warning}", style="yellow")
    yield Text(came_from(report), style="dim")
    yield Text(assumed(report), style="dim")
