"""What a SweepReport shows as a chart: its first two objectives against each other, the front as a line."""

from __future__ import annotations

from sizing.charts.chart import Chart, chart, quantity
from sizing.charts.theme import COLORS
from sizing.errors import InvalidInput
from sizing.explore.sweeps.figures import OBJECTIVES, ObjectiveName
from sizing.explore.sweeps.sweep_report import SweepReport

MOST_POINTS = 5_000
"""More would be one blot, and as SVG several megabytes; rows are left out evenly."""


def sweep_chart(report: SweepReport) -> Chart:
    """Every row as a point, up to 5,000 of them evenly chosen, and the rows that no other beats joined by a line.

    Raises InvalidInput for fewer than two objectives.
    """
    if len(report.objectives) < 2:
        raise InvalidInput.of("--chart", "needs two objectives", value=None, remedy="give --objective twice")
    across, up = (_column(report, name) for name in report.objectives[:2])
    places = range(0, len(report.rows), max(1, len(report.rows) // MOST_POINTS))
    front = sorted(report.front or [], key=lambda place: _known(report.rows[place][across]))
    names = (_field(report.columns[across]), _field(report.columns[up]))
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


def _column(report: SweepReport, objective: ObjectiveName) -> int:
    return report.columns.index(OBJECTIVES[objective][0])


def _field(column: str) -> str:
    """A column's name as Vega-Lite takes it, which reads a dot as a step into an object."""
    return column.replace(".", "_")


def _known(value: float | None) -> float:
    return float("inf") if value is None else value
