"""A Vega-Lite specification in the project's theme: title, data, encodings in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sizing.charts.theme import COLORS, CONFIG, DASHES, HEIGHT, SHAPES, WIDTH

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

Spec = dict[str, Any]
"""A Vega-Lite specification, as JSON has it."""

_MIME_TYPES = ("application/vnd.vegalite.v5+json", "application/vnd.vegalite.v6+json")
"""Under which notebooks draw a specification; JupyterLab 4 knows version 5, whose syntax ours keeps to."""


class Chart(Spec):
    """A whole specification, which a notebook draws."""

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
    """A titled specification over rows; `body` is its mark and encoding, or its layers, facets or views.

    A `subtitle` of several lines is a list.

    >>> spec = chart("Writes", rows=[{"num_nodes": 1, "bytes_per_second": 2e9}], mark="point")
    >>> spec["title"]["text"], spec["data"]["values"][0]["num_nodes"], spec["mark"]
    ('Writes', 1, 'point')
    """
    said = subtitle if isinstance(subtitle, str) else ". ".join(subtitle)
    sizes = {} if {"spec", "facet", "hconcat", "vconcat"} & body.keys() else {"width": WIDTH, "height": HEIGHT}
    return Chart(
        {
            "$schema": SCHEMA,
            "title": {"text": title, "subtitle": subtitle} if subtitle else {"text": title},
            "description": f"{title}. {said}".rstrip(". ") + ".",
            "data": {"values": [dict(row) for row in rows]},
            **sizes,
            **body,
            "config": CONFIG,
        }
    )


def quantity(field: str, title: str, *, scale: str = "linear", **more: Any) -> Spec:
    """The encoding of a number; the unit at the end of the field's name says how the axis writes it.

    `scale` is a Vega-Lite scale type: linear, log, sqrt, symlog.

    >>> quantity("write_seconds", "write time")["axis"]["labelExpr"]
    "format(datum.value, '~g') + ' s'"
    """
    unit = max((unit for unit in _LABELS if field.endswith(unit)), key=len, default="")
    axis = {"axis": {"labelExpr": _LABELS[unit]}} if unit else {}
    return {"field": field, "type": "quantitative", "title": title, "scale": {"type": scale}, **axis, **more}


def series(field: str, title: str | None, names: Sequence[str]) -> Spec:
    """Encodings that tell series apart by color, dash and shape at once, in the order of `names`.

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
