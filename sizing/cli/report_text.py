"""An answer at the terminal: the words of any question, and the first screen of a report before them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.present.rows import FirstScreen, Row, Section, Summary
from sizing.terminal.output import summary_text, table_of


def answer_text(summary: Summary, words: Callable[[str], str] = str) -> RenderableType:
    """Show an answer in words; `words` puts what it says to do as the reader typed it."""
    tables = [_section_table(section, words) for section in summary.sections] + [*map(table_of, summary.grids)]
    if summary.screen is not None:
        return Group(*_screen_lines(summary.screen, words, tables, summary))
    if summary.sections:
        return Group(*[line for table in tables for line in ("", table)][1:])
    return summary_text(summary, words)


def _screen_lines(
    screen: FirstScreen, words: Callable[[str], str], tables: Iterable[RenderableType], summary: Summary
) -> Iterator[RenderableType]:
    """Yield the first screen alone, or its verdict with all tables below it."""
    yield Text(screen.headline, style="bold")
    style = "bold red" if screen.misses else "bold yellow" if screen.is_weak else "bold green"
    yield Text(words(screen.verdict), style=style)
    yield from (Text(words(remedy), style="red") for remedy in screen.remedies)
    if summary.is_full:
        yield from (line for table in tables for line in ("", table))
    else:
        yield ""
        yield _figures_table(screen.figures, words)
        if screen.mark_meaning:
            yield Text(screen.mark_meaning, style="dim")
    yield from (Text(f"warning: {words(warning)}", style="yellow") for warning in screen.warnings)
    if not summary.is_full:
        yield from (Text(f"guess: {guess}") for guess in screen.guesses)
    yield from (Text(note, style="dim") for note in summary.notes)


def _figures_table(rows: Iterable[Row], words: Callable[[str], str]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right", no_wrap=True, style="bold")
    table.add_column()
    for row in rows:
        table.add_row(row.label, row.figure, words(row.meaning))
    return table


def _section_table(section: Section, words: Callable[[str], str]) -> RenderableType:
    table = Table(title=section.title, title_justify="left", title_style="bold cyan", box=None, show_header=False)
    table.add_column(style="dim", min_width=19)
    table.add_column(justify="right", min_width=24, no_wrap=True)
    table.add_column()
    for row in section.rows:
        table.add_row(row.label, row.figure, words(row.meaning))
    return table
