"""What a series of like runs shows as a chart: its rates over time beside the level before each, changes marked."""

from __future__ import annotations

from sizing.charts.chart import Chart, Spec, chart, quantity
from sizing.charts.theme import COLORS
from sizing.storage.rate_changes import RatedSeries

_MARKS = {"none": ("circle", COLORS[0]), "loss": ("triangle-down", COLORS[6]), "gain": ("triangle-up", COLORS[2])}
"""Shape and color of a point by what changed with it."""
_MARK_SIZE = 110
"""Square pixels: large enough that a triangle is told from a circle."""


def rates_chart(series: RatedSeries) -> Chart:
    """The rate of each run as a point, the level before it as a line; a loss points down, a gain up."""
    rows = [
        {
            "published_at": rated.published_at.isoformat(),
            "run": rated.run_id,
            "bytes_per_second": rated.bytes_per_second,
            "expected_bytes_per_second": rated.judged.expected,
            "change": rated.judged.change or "none",
        }
        for rated in series.rates
    ]
    x = {"field": "published_at", "type": "temporal", "title": "published"}
    marks = {name: mark for name, mark in _MARKS.items() if any(row["change"] == name for row in rows)}
    level = {"mark": {"type": "line", "color": COLORS[4]}, "encoding": {"x": x, "y": _rate("expected_")}}
    return chart(
        f"Rates over time: {series.operation}",
        subtitle=[series.conditions, "points: measured; line: level of the runs before; triangles: a loss or a gain"],
        rows=rows,
        layer=[
            *([level] if any(rated.judged.expected is not None for rated in series.rates) else []),
            {
                "mark": {"type": "point", "filled": True, "size": _MARK_SIZE, "opacity": 1},
                "encoding": {
                    "x": x,
                    "y": _rate(""),
                    "shape": _marked({name: shape for name, (shape, _) in marks.items()}),
                    "color": _marked({name: color for name, (_, color) in marks.items()}),
                    "tooltip": [{"field": "run"}, {"field": "bytes_per_second", "format": ".3s"}, {"field": "change"}],
                },
            },
        ],
    )


def _rate(prefix: str) -> Spec:
    return quantity(f"{prefix}bytes_per_second", "bandwidth of all ranks")


def _marked(values: dict[str, str]) -> Spec:
    scale = {"domain": list(values), "range": list(values.values())}
    return {"field": "change", "type": "nominal", "title": "change", "scale": scale}
