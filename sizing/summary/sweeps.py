"""A sweep in words: the front where there are objectives, else the first rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.summary.figure_text import figure_name, figure_text
from sizing.summary.rows import Grid, Summary
from sizing.units import counted_text

MAX_SHOWN = 40
"""About a screen; CSV and JSON have the others."""


def sweep_summary(report: SweepReport) -> Summary:
    """The front where there are objectives, else the first rows: what differs as a table, the rest below it."""
    places = list(range(len(report.rows)) if report.front is None else report.front)
    shown = [report.rows[place] for place in places[:MAX_SHOWN]]
    differing = [place for place in range(len(report.columns)) if len({str(row[place]) for row in shown}) > 1]
    kind = "row" if report.front is None else "best row"
    rows = tuple(tuple(figure_text(report.columns[place], row[place]) for place in differing) for row in shown)
    headings = tuple(_heading(report.columns[place]) for place in differing)
    return Summary(
        headline=f"{counted_text(len(places), kind)} of {report.num_rows:,}",
        grids=(Grid("", headings, rows, is_figures=True),) if differing else (),
        remarks=tuple(_notes(report, places, shown, differing)),
        warnings=tuple(report.warnings),
    )


def _heading(column: str) -> str:
    """A column's block and name in words; its unit stands in the cells."""
    return figure_name(column).replace(": ", "\n")


def _notes(
    report: SweepReport, places: Sequence[int], shown: Sequence[Sequence[Any]], differing: Sequence[int]
) -> Iterator[str]:
    if report.front is not None:
        yield f"Pareto front: no other row is better in {' and '.join(report.objectives)} together."
    same = list(_same(report.columns, shown, differing))
    if same:
        yield f"The same in all of them: {', '.join(same)}."
    if len(shown) < len(places):
        yield f"{len(places) - len(shown):,} more rows: --csv or --json prints all."
    if report.num_refused_rows:
        yield f"{report.num_refused_rows:,} rows have no answer. Reason of the first: {report.refused[0].problem}"


def _same(columns: Sequence[str], shown: Sequence[Sequence[Any]], differing: Sequence[int]) -> Iterator[str]:
    """The figures that all rows have alike, as far as they are known."""
    for place, value in enumerate(shown[0] if shown else ()):
        if place not in differing and value is not None:
            yield f"{figure_name(columns[place])} {figure_text(columns[place], value)}"
