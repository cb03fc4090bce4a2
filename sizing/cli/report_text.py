"""A SizingReport at the terminal: the first screen, and the whole of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.cli.tables import table_of
from sizing.report import SizingReport
from sizing.summary import (
    FirstScreen,
    Row,
    Section,
    assumed,
    came_from,
    checkpoint_section,
    first_screen,
    grids,
    rank_classes,
    sections,
)

_MORE = "--full prints all tables and what was assumed; --report FILE.pdf or FILE.html has them with charts"


def first_screen_text(report: SizingReport, words: Callable[[str], str] = str) -> RenderableType:
    """The answer on one screen; `words` puts what it says to do as the reader typed it."""
    screen = _in_words(first_screen(report), words)
    guesses = (Text(f"guess: {guess}") for guess in screen.guesses)
    mark = [Text(screen.mark_meaning, style="dim")] if screen.mark_meaning else []
    return Group(
        *_heading(screen), "", _figures(screen.figures), *mark, *_warnings(screen), *guesses, Text(_MORE, style="dim")
    )


def report_text(report: SizingReport, words: Callable[[str], str] = str) -> RenderableType:
    """The whole report as tables; `words` as for the first screen."""
    screen = _in_words(first_screen(report), words)
    tables = [*map(_rows, sections(report)), *map(table_of, grids(report))]
    return Group(
        *_heading(screen),
        *(line for table in tables for line in ("", table)),
        *_warnings(screen),
        Text(came_from(report), style="dim"),
        Text(assumed(report), style="dim"),
    )


def manifest_text(report: SizingReport) -> RenderableType:
    """Who writes which files."""
    return Group(_rows(checkpoint_section(report)), "", table_of(rank_classes(report)))


def _in_words(screen: FirstScreen, words: Callable[[str], str]) -> FirstScreen:
    return screen._replace(
        verdict=words(screen.verdict),
        remedies=tuple(map(words, screen.remedies)),
        warnings=tuple(map(words, screen.warnings)),
    )


def _heading(screen: FirstScreen) -> Iterator[RenderableType]:
    yield Text(screen.headline, style="bold")
    style = "bold red" if screen.misses else "bold yellow" if screen.is_weak else "bold green"
    yield Text(screen.verdict, style=style)
    for remedy in screen.remedies:
        yield Text(remedy, style="red")


def _figures(rows: Iterable[Row]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="bold")
    table.add_column()
    for row in rows:
        table.add_row(*row)
    return table


def _warnings(screen: FirstScreen) -> Iterator[RenderableType]:
    for warning in screen.warnings:
        yield Text(f"warning: {warning}", style="yellow")


def _rows(section: Section) -> Table:
    table = Table(title=section.title, title_justify="left", title_style="bold cyan", box=None, show_header=False)
    table.add_column(style="dim", min_width=19)
    table.add_column(justify="right", min_width=24, no_wrap=True)
    table.add_column()
    for row in section.rows:
        table.add_row(*row)
    return table
