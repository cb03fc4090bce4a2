"""How every chart looks: colors and dashes that stay apart in black and white and for colour-blind readers."""

from __future__ import annotations

from typing import Any

WIDTH = 640
HEIGHT = 360
"""In pixels, of what the axes enclose: with their labels it fits the text of a page, on screen and in print."""

BAR_STEP = {"step": 18}
"""Pixels of a horizontal bar whose name stands beside the axis, with the space to the next one."""

FONT = "Liberation Sans, Arial, Helvetica, DejaVu Sans, sans-serif"

COLORS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#000000", "#CC79A7", "#D55E00")
"""Okabe and Ito's palette, jfly.uni-koeln.de/color (2008), so ordered that neighbours differ in brightness."""

DASHES = ((1, 0), (8, 4), (2, 2), (12, 3, 2, 3), (4, 2), (1, 4), (8, 2, 2, 2, 2, 2))
"""One per color: what tells lines apart where there is no color."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
"""One per color: what tells points apart where there is no color."""

INK = "#222222"
GRID = "#DDDDDD"
BAND_OPACITY = 0.2
"""So that two bands that overlap are still seen as two."""
SEQUENTIAL_SCHEME = "cividis"
"""Colors of a quantity: brightness alone orders them (Nunez et al. 2018, PLOS ONE 13(7))."""

CONFIG: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    "title": {
        "anchor": "start",
        "fontSize": 16,
        "subtitleFontSize": 12,
        "color": INK,
        "subtitleColor": INK,
        "offset": 12,
    },
    "axis": {
        "labelFontSize": 11,
        "labelSeparation": 6,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": GRID,
        "domainColor": INK,
        "tickColor": INK,
    },
    "legend": {
        "orient": "top",
        "columns": 5,
        "labelLimit": 300,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "symbolSize": 90,
        "symbolOpacity": 1,
    },
    "header": {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK, "titleColor": INK},
    "view": {"stroke": None},
    "line": {"strokeWidth": 2},
    "point": {"size": 60, "filled": True},
    "rule": {"color": INK},
    "text": {"color": INK, "fontSize": 11},
    "range": {
        "category": list(COLORS),
        "symbol": list(SHAPES),
        "heatmap": {"scheme": SEQUENTIAL_SCHEME},
        "ramp": {"scheme": SEQUENTIAL_SCHEME},
    },
}
"""The Vega-Lite config of every chart."""
