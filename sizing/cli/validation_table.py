"""Comparisons of predicted with published figures as text: counts first, then each part by source."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sizing.validation import Comparison, ValidationReport

WIDTH = 100
"""Characters of a line in which every row can be read where there is no terminal."""

_MIN_NUMBER = 12
"""Columns of a figure, so that those of all sources stand below each other."""


def validation_text(report: ValidationReport) -> RenderableType:
    """Show the counts of all parts, each part with its comparisons, assumptions about runs, and what has no figure."""
    parts: list[RenderableType] = []
    for number, part in enumerate(report.parts, start=1):
        parts.append(_heading(f"{number}. {part.title}"))
        by_source = groupby(part.comparisons, key=lambda row: row.source)
        parts += [_source_table(source, list(rows)) for source, rows in by_source]
    return Group(
        _counts_table(report),
        *parts,
        _heading("Assumed of runs that do not publish it, the same for all"),
        *(_bullet(f"{row.quantity}: {row.value:.4g} ({row.reason}; {row.source})") for row in report.run_assumptions),
        _heading("Published without a figure to compare"),
        *(_bullet(f"{name}: {instead}") for name, instead in report.without_figure.items()),
    )


def _counts_table(report: ValidationReport) -> Table:
    table = Table("predicted against published", box=box.SIMPLE_HEAD, width=WIDTH)
    for column in ("rows", "agree", "explained miss", "unexplained", "no prediction"):
        table.add_column(column, justify="right")
    for number, part in enumerate(report.parts, start=1):
        counts = part.counts
        figures = (counts.agrees, counts.explained_misses, counts.unexplained, counts.no_prediction)
        table.add_row(f"{number}. {part.title}", str(len(part.comparisons)), *map(str, figures))
    return table


def _source_table(source: str, rows: list[Comparison]) -> Group:
    """Show the rows of one source, and below them the numbered notes of their verdicts."""
    notes = list(dict.fromkeys(row.note for row in rows if row.note))
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0), pad_edge=False, width=WIDTH - 2)
    table.add_column("", ratio=1)
    for column in ("predicted", "published"):
        table.add_column(column, justify="right", min_width=_MIN_NUMBER, no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, notes))
    footnotes = (_bullet(note, mark=f"({number})") for number, note in enumerate(notes, start=1))
    return Group(Text(), Text(source, style="bold cyan"), Padding(table, (0, 0, 0, 2)), *footnotes)


def _cells(row: Comparison, notes: list[str]) -> Iterator[str | Text]:
    yield Text(row.fact)
    yield "-" if row.predicted is None else _number(row.predicted)
    yield ("> " if row.is_lower_bound else "") + _number(row.published)
    yield "-" if row.ratio is None else f"{row.ratio:.4f}"
    mark = f" ({notes.index(row.note) + 1})" if row.note else ""
    yield Text(_verdict(row) + mark, style=_STYLES[row.verdict])


_STYLES = {"agrees": "", "explained-miss": "yellow", "no-prediction": "yellow", "unexplained": "red"}


def _verdict(row: Comparison) -> str:
    match row.verdict:
        case "agrees" if row.is_lower_bound and row.predicted is not None and row.predicted >= row.published:
            return "above"
        case "agrees":
            tolerance = row.tolerance_fraction
            percent = f"{100 * tolerance:.2g} %" if tolerance >= 1e-4 else f"{tolerance:.0e}"
            return f"within {percent}" if tolerance else "equal"
        case "explained-miss":
            return "explained"
        case "no-prediction":
            return "no prediction"
        case "unexplained":
            return "UNEXPLAINED"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _heading(text: str) -> Padding:
    return Padding(Text(text, style="bold"), (1, 0, 0, 0))


def _bullet(text: str, *, mark: str = "-") -> Padding:
    row = Table.grid(padding=(0, 1, 0, 0), expand=True)
    row.add_column()
    row.add_column(ratio=1)
    row.add_row(Text(mark), Text(text))
    return Padding(row, (0, 0, 0, 2))
