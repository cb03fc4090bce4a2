"""Chart of a layout search: what the fullest GPU of each layout holds, and its memory."""

from __future__ import annotations

from sizing.layout.degrees import degrees_text
from sizing.present.chart import BAR_STEP, COLORS, WIDTH, Chart, chart, quantity, series
from sizing.questions.layouts.report import FoundLayout, LayoutsReport

MAX_BARS = 40
"""Max layouts: as many as a page holds at the height of a bar."""

_LABEL_LIMIT = 420
"""Pixels of a layout's name with all its degrees and the recomputation."""
_BAR_WIDTH = WIDTH - _LABEL_LIMIT // 2
"""Pixels of the bars, so that names and bars together fit the page."""
_PARTS = ("state", "activations")


def layouts_chart(report: LayoutsReport) -> Chart:
    """Draw a bar for each of the best layouts, state and activations stacked; lines for the memory and its headroom."""
    shown = report.layouts[:MAX_BARS]
    names = [_name(layout) for layout in shown]
    rows = []
    for name, layout in zip(names, shown, strict=True):
        activations = layout.activation_bytes or 0  # none where they are not known
        for part, num_bytes in zip(_PARTS, (layout.gpu_bytes - activations, activations), strict=True):
            rows.append({"layout": name, "part": part, "bytes": num_bytes})
    memory = {"whole": report.gpu_memory_bytes, "without headroom": report.room_bytes}
    return chart(
        f"Memory of the fullest GPU in {report.num_fitting:,} layouts",
        subtitle=f"{report.num_gpus:,} GPUs; the best {len(shown):,} by {report.objective}",
        rows=[],
        width=_BAR_WIDTH,
        height=BAR_STEP,
        layer=[
            {
                "data": {"values": rows},
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
                "data": {"values": [{"bytes": num_bytes, "line": line} for line, num_bytes in memory.items()]},
                "mark": {"type": "rule", "strokeWidth": 2, "color": COLORS[4]},
                "encoding": {
                    "x": quantity("bytes", "on the fullest GPU"),
                    "strokeDash": series("line", "GPU memory", list(memory))["strokeDash"]
                    | {"legend": {"orient": "bottom"}},
                },
            },
        ],
    )


def _name(layout: FoundLayout) -> str:
    recomputed = f"; recomputation {layout.recomputation}" if layout.recomputation else ""
    layers = f" of {layout.recomputed_layers} layers" if layout.recomputed_layers else ""
    return degrees_text(layout.parallelism) + recomputed + layers
