"""How the command line asks for a sweep and shows it: values of flags, a table, CSV."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.explore.sweeps.sweep import Sweep, shown_columns
from sizing.explore.sweeps.sweep_report import SweepReport
from sizing.explore.sweeps.sweep_request import sweep_request_from
from sizing.explore.sweeps.table import cells
from sizing.summary.figure_text import figure_text, figure_words

MAX_SHOWN = 40
"""About a screen; --csv has the others."""

_RANGE = re.compile(r"(?P<start>[^.]+(?:\.\d+)?[^.]*)\.\.(?P<stop>[^:]+):(?P<num>\d+)(?::(?P<scale>linear|log))?")


def varied_value(text: str) -> Any:
    """The value of a flag: a list where there are commas, a range where there are two dots, else the text itself.

    >>> varied_value("1,2,4"), varied_value("20GB/s..1TB/s:10:log"), varied_value("13.8TB")
    (['1', '2', '4'], {'from': '20GB/s', 'to': '1TB/s', 'num': 10, 'scale': 'log'}, '13.8TB')
    """
    if match := _RANGE.fullmatch(text):
        scale = match["scale"] or "linear"
        return {"from": match["start"], "to": match["stop"], "num": int(match["num"]), "scale": scale}
    return text.split(",") if "," in text else text


def sweep_text(report: SweepReport) -> RenderableType:
    """The front where there are objectives, else the first rows: what differs as a table, the rest below it."""
    places = list(range(len(report.rows)) if report.front is None else report.front)
    shown = [report.rows[place] for place in places[:MAX_SHOWN]]
    differing = [place for place in range(len(report.columns)) if len({str(row[place]) for row in shown}) > 1]
    kind = "best rows" if report.front is not None else "rows"
    table = _table(f"{len(places):,} {kind} of {report.num_rows:,}", report.columns, shown, differing)
    return Group(table, *(Text(line) for line in _notes(report, places, shown, differing)))


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], places: Sequence[int]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for place in places:
        table.add_column(_heading(columns[place]), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(figure_text(columns[place], row[place]) for place in places))
    return table


def write_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV; what is not known is empty."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)


def write_sweep_csv(document: object) -> None:
    """Print every row of a sweep as CSV while it is computed, and on standard error what has no answer.

    Raises InvalidInput.
    """
    asked = Sweep(sweep_request_from(document))
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for place, table in enumerate(map(shown_columns, asked.tables())):
        if place == 0:
            writer.writerow(table)
        writer.writerows(zip(*map(cells, table.values()), strict=True))
    asked.require_some_answer()
    for refused in asked.refused:
        print(f"no answer for {refused.num_rows:,} rows: {refused.problem}", file=sys.stderr)


def _heading(column: str) -> str:
    """A column's block and name in words; its unit stands in the cells."""
    return f"{column.split('.')[-2]}\n{figure_words(column)}"


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
    yield from (f"warning: {warning}" for warning in report.warnings)


def _same(columns: Sequence[str], shown: Sequence[Sequence[Any]], differing: Sequence[int]) -> Iterator[str]:
    """The figures that all rows have alike, as far as they are known."""
    for place, value in enumerate(shown[0] if shown else ()):
        if place not in differing and value is not None:
            yield f"{columns[place]} {figure_text(columns[place], value)}"
