"""Where the words of a chart stand in its picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from sizing.present.chart import Spec
from sizing.present.rendering import render_svg

LETTERS = 11
"""Pixels that the words beside an axis are high."""

_MOVED = re.compile(r"translate\([-\d.]+,([-\d.]+)\)")


def place_lines(spec: Spec) -> dict[str, float]:
    """Each line of words in a chart, with the pixels from the top of the picture to its base."""
    return dict(_place_lines(ET.fromstring(render_svg(spec)), 0.0))  # noqa: S314 - our own


def _place_lines(node: ET.Element, top: float) -> Iterator[tuple[str, float]]:
    moved = _MOVED.match(node.get("transform", ""))
    top += float(moved[1]) if moved else float(node.get("dy", 0))
    if node.text and node.tag.rpartition("}")[2] in ("text", "tspan"):
        yield node.text, top
    for inner in node:
        yield from _place_lines(inner, top)
