"""Vega-Lite specifications in one theme: title, data and encodings; colors, sizes and fonts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sizing.printed_numbers import CURRENCY_SIGNS

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

Spec = dict[str, Any]
"""A Vega-Lite specification, as JSON has it."""

_MIME_TYPES = ("application/vnd.vegalite.v5+json", "application/vnd.vegalite.v6+json")
"""Under which notebooks draw a specification; JupyterLab 4 knows version 5, whose syntax ours keeps to."""


class Chart(Spec):
    """A whole specification; a notebook draws it."""

    def _repr_mimebundle_(self, **_limits: object) -> dict[str, Any]:
        return {"text/plain": self["description"]} | {kind: dict(self) for kind in _MIME_TYPES}


_WITH_PREFIX = "replace(format(datum.value, '~s'), /([a-zA-Z]?)$/, ' $1')"
_LABELS = {
    "bytes": f"{_WITH_PREFIX} + 'B'",
    "bytes_per_second": f"{_WITH_PREFIX} + 'B/s'",
    "seconds": "format(datum.value, '~g') + ' s'",
    "fraction": "format(datum.value, '~%')",
}
"""How an axis writes its figures, by the unit that ends the field's name."""


def chart(title: str, *, rows: Sequence[Mapping[str, object]], subtitle: str | list[str] = "", **body: Any) -> Chart:
    """Make a titled specification over rows; `body` is its mark and encoding, or its layers, facets or views.

    A `subtitle` of several lines is a list.

    >>> spec = chart("Writes", rows=[{"num_nodes": 1, "bytes_per_second": 2e9}], mark="point")
    >>> spec["title"]["text"], spec["data"]["values"][0]["num_nodes"], spec["mark"]
    ('Writes', 1, 'point')
    """
    sentences = subtitle if isinstance(subtitle, str) else ". ".join(subtitle)
    sizes = {} if {"spec", "facet", "hconcat", "vconcat"} & body.keys() else {"width": WIDTH, "height": HEIGHT}
    return Chart(
        {
            "$schema": SCHEMA,
            "title": {"text": title, "subtitle": subtitle} if subtitle else {"text": title},
            "description": f"{title}. {sentences}".rstrip(". ") + ".",
            "data": {"values": [dict(row) for row in rows]},
            **sizes,
            **body,
            "config": CONFIG,
        }
    )


def quantity(field: str, title: str, *, scale: str = "linear", **more: Any) -> Spec:
    """Encode a number on an axis; the unit at the end of the field's name says how the axis writes it.

    `scale` is a Vega-Lite scale type: linear, log, sqrt, symlog.

    >>> quantity("write_seconds", "write time")["axis"]["labelExpr"]
    "format(datum.value, '~g') + ' s'"
    """
    unit = max((unit for unit in _LABELS if field.endswith(unit)), key=len, default="")
    axis = {"axis": {"labelExpr": _LABELS[unit]}} if unit else {}
    return {"field": field, "type": "quantitative", "title": title, "scale": {"type": scale}, **axis, **more}


def series(field: str, title: str | None, names: Sequence[str]) -> Spec:
    """Tell series apart by color, dash and shape at once, in the order of `names`.

    Give them to a line or a point mark: `{"x": ..., "y": ..., **series("system", "System", names)}`.

    >>> sorted(series("system", None, ["a", "b"]))
    ['color', 'shape', 'strokeDash']
    """
    ranges: dict[str, Sequence[object]] = {
        "color": COLORS,
        "strokeDash": [list(dash) for dash in DASHES],
        "shape": SHAPES,
    }
    return {
        channel: {
            "field": field,
            "type": "nominal",
            "title": title,
            "scale": {"domain": list(names), "range": [values[i % len(values)] for i in range(len(names))]},
        }
        for channel, values in ranges.items()
    }


WIDTH = 640
HEIGHT = 360
"""Height in pixels of what the axes enclose: with their labels it fits the text of a page, on screen and in print."""

BAR_STEP = {"step": 18}
"""Pixels of a horizontal bar whose name stands beside the axis, with the space to the next one."""

FONT = "Liberation Sans, Arial, Helvetica, DejaVu Sans, sans-serif"

COLORS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#000000", "#CC79A7", "#D55E00")
"""Okabe and Ito's palette, jfly.uni-koeln.de/color (2008), so ordered that neighbours differ in brightness."""

DASHES = ((1, 0), (8, 4), (2, 2), (12, 3, 2, 3), (4, 2), (1, 4), (8, 2, 2, 2, 2, 2))
"""Dashes, one per color, that tell lines apart where there is no color."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
"""Shapes, one per color, that tell points apart where there is no color."""

INK = "#222222"
GRID = "#DDDDDD"
BAND_OPACITY = 0.2
"""Opacity of a band: two that overlap are still seen as two."""
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
        "labelLimit": 300,
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


def money_axis(currency: str) -> Spec:
    """Write amounts of money on an axis as budgets do: $1bn, not 1G."""
    figure = "replace(replace(format(datum.value, '~s'), 'G', 'bn'), 'M', 'm')"
    sign = CURRENCY_SIGNS.get(currency.upper(), "")
    return {"format": "~s", "labelExpr": f"'{sign}' + {figure}" if sign else figure}
