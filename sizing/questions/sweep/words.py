"""Sweep in words: the front where there are objectives, else the first rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sizing.errors import has_field
from sizing.present.figure_names import figure_name
from sizing.present.rows import Grid, Summary
from sizing.questions.question import ALL_ROWS
from sizing.questions.sweep.figures import FIGURES
from sizing.questions.sweep.report import SweepReport
from sizing.scenario import Scenario
from sizing.units import counted_text, figure_text

MAX_SHOWN = 40
"""Max rows, about a screen; CSV and JSON have the others."""


def sweep_summary(report: SweepReport, *, all_rows: str = ALL_ROWS) -> Summary:
    """Show the front where there are objectives, else the first rows: what differs as a table, the rest below it."""
    places = list(range(len(report.rows)) if report.front is None else report.front)
    shown = [report.rows[place] for place in places[:MAX_SHOWN]]
    differing = [place for place in range(len(report.columns)) if len({str(row[place]) for row in shown}) > 1]
    same = [place for place in range(len(report.columns)) if place not in differing] if len(shown) > 1 else []
    known = [f"{name} {text}" for name, text in _known(report.columns, shown, same)]
    kind = "row" if report.front is None else "best row"
    return Summary(
        headline=f"{counted_text(len(places), kind)} of {report.num_rows:,}",
        grids=tuple(_grids(report.columns, shown, differing)),
        remarks=tuple(_notes(report, places, known, all_rows=all_rows)),
        warnings=tuple(report.warnings),
    )


def _grids(columns: Sequence[str], shown: Sequence[Sequence[Any]], differing: Sequence[int]) -> Iterator[Grid]:
    """Show a line for each row, a column for each figure that differs; of one row alone a line for each figure."""
    if len(shown) == 1:
        yield Grid("", (), tuple(_known(columns, shown, range(len(columns)))))
    elif differing:
        rows = tuple(tuple(figure_text(columns[place], row[place]) for place in differing) for row in shown)
        names = [columns[place] for place in differing]
        # Some figures, such as the bandwidth, are fields that may vary.
        num_varied = sum(name not in FIGURES or has_field(Scenario, name) for name in names)
        headings = tuple(figure_name(name).replace(": ", "\n") for name in names)
        yield Grid("", headings, rows, is_figures=True, num_keys=max(num_varied, 1))


def _notes(report: SweepReport, places: Sequence[int], same: Sequence[str], *, all_rows: str) -> Iterator[str]:
    if report.front is not None:
        yield f"Pareto front: no other row is better in {' and '.join(report.objectives)} together."
    if same:
        yield f"The same in all of them: {', '.join(same)}."
    if len(places) > MAX_SHOWN:
        yield f"{len(places) - MAX_SHOWN:,} more rows: {all_rows}."
    if report.num_refused_rows:
        yield f"{report.num_refused_rows:,} rows have no answer. Reason of the first: {report.refused[0].problem}"


def _known(columns: Sequence[str], shown: Sequence[Sequence[Any]], places: Iterable[int]) -> Iterator[tuple[str, str]]:
    """List names and texts of figures of the first row, as far as they are known."""
    for place in places:
        value = shown[0][place]
        if value is not None:
            yield figure_name(columns[place]), figure_text(columns[place], value)
