"""What a LayoutsReport shows as a chart: what the fullest GPU of each layout holds, and its memory."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.charts.chart import Chart, Spec, chart, quantity, series
from sizing.charts.theme import BAR_STEP, COLORS, WIDTH
from sizing.explore.layouts.layouts_report import FoundLayout, LayoutsReport
from sizing.layout.degrees import degrees_text

MAX_BARS = 40
"""As many as a page holds at the height of a bar."""

_LABEL_LIMIT = 420
"""Pixels of a name with all its degrees and the recomputation."""
_BAR_WIDTH = WIDTH - _LABEL_LIMIT // 2
"""So that names and bars together fit the page."""
_PARTS = ("state", "activations")


def layouts_chart(report: LayoutsReport) -> Chart:
    """A bar for each of the best layouts, state and activations stacked; lines for the memory and its headroom."""
    shown = report.layouts[:MAX_BARS]
    names = [_name(layout) for layout in shown]
    lines = [
        {"bytes": report.gpu_memory_bytes, "line": "GPU memory"},
        {"bytes": report.room_bytes, "line": "GPU memory without headroom"},
    ]
    return chart(
        f"Memory of the fullest GPU in {report.num_fitting:,} layouts",
        subtitle=f"{report.num_gpus:,} GPUs; the best {len(shown):,} by {report.objective}",
        rows=[],
        width=_BAR_WIDTH,
        height=BAR_STEP,
        layer=[
            {
                "data": {"values": [row for layout in shown for row in _rows(layout)]},
                "mark": "bar",
                "encoding": {
                    "y": {
                        "field": "layout",
                        "type": "nominal",
                        "title": None,
                        "sort": names,
                        "axis": {"labelLimit": _LABEL_LIMIT},
                    },
                    "x": quantity("bytes", "on the fullest GPU"),
                    "color": series("part", "of it", _PARTS)["color"],
                },
            },
            {
                "data": {"values": lines},
                "mark": {"type": "rule", "strokeWidth": 2, "color": COLORS[4]},
                "encoding": {"x": quantity("bytes", "on the fullest GPU"), "strokeDash": _dashes(lines)},
            },
        ],
    )


def _dashes(lines: list[dict[str, object]]) -> Spec:
    dashes: Spec = series("line", "lines", [str(line["line"]) for line in lines])["strokeDash"]
    return dashes


def _rows(layout: FoundLayout) -> Iterator[dict[str, object]]:
    """State and activations of the fullest GPU; of activations none where they are not known."""
    activations = layout.activation_bytes or 0
    for part, num_bytes in zip(_PARTS, (layout.gpu_bytes - activations, activations), strict=True):
        yield {"layout": _name(layout), "part": part, "bytes": num_bytes}


def _name(layout: FoundLayout) -> str:
    recomputed = f"; recomputation {layout.recomputation}" if layout.recomputation else ""
    layers = f" of {layout.recomputed_layers} layers" if layout.recomputed_layers else ""
    return degrees_text(layout.parallelism) + recomputed + layers
