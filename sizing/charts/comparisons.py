"""What a ComparisonReport shows as a chart: how long saving and reading take, and what share of the time is lost."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.charts.chart import Chart, Spec, chart, quantity, series
from sizing.charts.theme import BAR_STEP, WIDTH
from sizing.explore.comparisons.comparison_report import ComparisonReport

_TIMES = {"write.stall_seconds": "stall per save", "restore.seconds": "restore"}
_LOSSES = {"overhead.fraction": "saving", "overhead.rework_fraction": "failures"}


def comparison_chart(report: ComparisonReport) -> Chart:
    """A bar for each scenario and time, above one for each share of the time that the run loses."""
    views = [_bars(report, _TIMES, "seconds", "time", "time of"), _bars(report, _LOSSES, "fraction", "lost", "lost to")]
    return chart(
        " against ".join(
            (report.names[0], report.names[1] if len(report.names) == 2 else f"{len(report.names) - 1} others")
        ),
        rows=[],
        vconcat=views,
        resolve={"scale": {"color": "independent"}},
    )


def _bars(report: ComparisonReport, figures: dict[str, str], unit: str, title: str, legend: str) -> Spec:
    kinds = list(figures.values())
    return {
        "width": WIDTH,
        "height": BAR_STEP,
        "data": {"values": list(_rows(report, figures, unit))},
        "mark": "bar",
        "encoding": {
            "y": {"field": "scenario", "type": "nominal", "title": None, "sort": report.names},
            "yOffset": {"field": "kind", "type": "nominal", "sort": kinds},
            "x": quantity(unit, title),
            "color": series("kind", legend, kinds)["color"],
        },
    }


def _rows(report: ComparisonReport, figures: dict[str, str], unit: str) -> Iterator[dict[str, object]]:
    for row in report.figures:
        if row.figure in figures:
            for name, value in zip(report.names, row.values, strict=True):
                yield {"scenario": name, "kind": figures[row.figure], unit: value}
