"""Chart of a sweep: its first two objectives against each other, the front as a line."""

from __future__ import annotations

import math

from sizing.errors import InvalidInput
from sizing.present.chart import COLORS, Chart, chart, quantity
from sizing.questions.sweep.figures import OBJECTIVES
from sizing.questions.sweep.report import SweepReport

MAX_POINTS = 5_000
"""Max points: more would be one blot, and as SVG several megabytes; rows are left out evenly."""


def sweep_chart(report: SweepReport) -> Chart:
    """Draw every row as a point, up to 5,000 of them evenly chosen, and the rows that no other beats joined by a line.

    Raises InvalidInput for fewer than two objectives.
    """
    if len(report.objectives) < 2:
        raise InvalidInput.of(
            "objectives", "must name two or more for a chart", value=report.objectives, remedy="name a second one"
        )
    across, up = (report.columns.index(OBJECTIVES[name][0]) for name in report.objectives[:2])
    places = range(0, len(report.rows), max(1, len(report.rows) // MAX_POINTS))
    front = sorted(report.front or [], key=lambda place: math.inf if (x := report.rows[place][across]) is None else x)
    # Vega-Lite reads a dot in a name as a step into an object.
    names = tuple(report.columns[column].replace(".", "_") for column in (across, up))
    encoding = {
        "x": quantity(names[0], report.objectives[0].replace("-", " ")),
        "y": quantity(names[1], report.objectives[1].replace("-", " ")),
    }
    encoding["x"]["scale"]["zero"] = encoding["y"]["scale"]["zero"] = False
    all_rows, best = (
        [dict(zip(names, (report.rows[place][across], report.rows[place][up]), strict=True)) for place in chosen]
        for chosen in (places, front)
    )
    return chart(
        f"{report.objectives[0].capitalize()} against {report.objectives[1]}",
        subtitle=f"{report.num_rows:,} rows; the line is the Pareto front",
        rows=all_rows,
        encoding=encoding,
        layer=[
            {"mark": {"type": "point", "opacity": 0.35, "size": 18, "color": COLORS[3]}},
            {"data": {"values": best}, "mark": {"type": "line", "point": True, "color": COLORS[0]}},
        ],
    )
