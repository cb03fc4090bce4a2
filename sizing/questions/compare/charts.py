"""Chart of a comparison: how long saving and reading take, and what share of the time is lost."""

from __future__ import annotations

from sizing.present.chart import BAR_STEP, WIDTH, Chart, Spec, chart, quantity, series
from sizing.questions.compare.report import ComparisonReport

_TIMES = {"write.stall_seconds": "stall per save", "restore.seconds": "restore"}
_LOSSES = {"overhead.fraction": "saving", "overhead.rework_fraction": "failures"}


def comparison_chart(report: ComparisonReport) -> Chart:
    """Draw a bar for each scenario and time, above one for each share of the time that the run loses."""
    first, *others = report.names
    return chart(
        f"{first} against {others[0] if len(others) == 1 else f'{len(others)} others'}",
        rows=[],
        vconcat=[
            _bars(report, _TIMES, "seconds", "time", "time of"),
            _bars(report, _LOSSES, "fraction", "lost", "lost to"),
        ],
        resolve={"scale": {"color": "independent"}},
    )


def _bars(report: ComparisonReport, figures: dict[str, str], unit: str, title: str, legend: str) -> Spec:
    kinds = list(figures.values())
    rows = [
        {"scenario": name, "kind": figures[row.figure], unit: value}
        for row in report.figures
        if row.figure in figures
        for name, value in zip(report.names, row.values, strict=True)
    ]
    return {
        "width": WIDTH,
        "height": BAR_STEP,
        "data": {"values": rows},
        "mark": "bar",
        "encoding": {
            "y": {"field": "scenario", "type": "nominal", "title": None, "sort": report.names},
            "yOffset": {"field": "kind", "type": "nominal", "sort": kinds},
            "x": quantity(unit, title),
            "color": series("kind", legend, kinds)["color"],
        },
    }
