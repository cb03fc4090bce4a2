"""Charts as SVG, PNG and HTML that work offline. Needs the extra `charts`; nothing is fetched."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sizing.errors import NotInstalled
from sizing.present.chart import FONT, Spec

if TYPE_CHECKING:
    import types

_PNG_SCALE = 2.0
"""Pixels per point: sharp on a high-resolution screen and in print at half size."""
_NOTHING_FROM_OUTSIDE: list[str] = []
_FONT = re.compile(r'font-size="([\d.]+)px"(?: font-weight="(\w+)")?')
_LINE = re.compile(r">([^<>]+)(?=</(?:text|tspan)>)")


def render_svg(spec: Spec) -> str:
    """Render the chart as an SVG document. Raises NotInstalled where the extra `charts` is not installed.

    Each line of words states the width that it was laid out with, so that it fits in whatever font it is drawn.
    """
    svg: str = _converter().vegalite_to_svg(spec, allowed_base_urls=_NOTHING_FROM_OUTSIDE)
    head, *texts = re.split("(?=<text )", svg)
    lines = [
        {"text": html.unescape(line), "size": float(font[1]), "weight": font[2] or "normal"}
        for text in texts
        if (font := _FONT.search(text))
        for line in _LINE.findall(text)
    ]
    widths = iter(_measure_lines(lines))
    return head + "".join(
        _LINE.sub(lambda line: f' textLength="{next(widths):.2f}" lengthAdjust="spacingAndGlyphs"{line[0]}', text)
        for text in texts
    )


def render_png(spec: Spec, *, scale: float = _PNG_SCALE) -> bytes:
    """Render the chart as a PNG image, by default at twice its size. Raises NotInstalled as `render_svg` does."""
    image: bytes = _converter().vegalite_to_png(spec, scale=scale, allowed_base_urls=_NOTHING_FROM_OUTSIDE)
    return image


def render_html(spec: Spec) -> str:
    """Render the chart as an interactive page with its scripts inside. Raises NotInstalled as `render_svg` does."""
    page: str = _converter().vegalite_to_html(spec, bundle=True)
    return page


def bundle_script() -> str:
    """Bundle the libraries that draw in a browser as one script, which sets `vegaEmbed`. It takes two seconds.

    They are those that draw SVG and PNG here. Raises NotInstalled as `render_svg` does.
    """
    text: str = _converter().javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return text


def _measure_lines(lines: Sequence[Spec]) -> list[float]:
    """Measure lines of words in pixels, with the font that comes with the renderer: as wide as their bounds are."""
    encoding = {"text": {"field": "text"}, "fontSize": {"field": "size"}, "fontWeight": {"field": "weight"}}
    words = {
        "type": "text",
        "name": "words",
        "from": {"data": "lines"},
        "encode": {"enter": {**encoding, "font": {"value": FONT}}},
    }
    bounds = {"x": {"field": "bounds.x1"}, "x2": {"field": "bounds.x2"}}
    boxes = {"type": "rect", "from": {"data": "words"}, "encode": {"update": bounds}}
    spec = {"data": [{"name": "lines", "values": list(lines)}], "marks": [words, boxes]}
    [page] = _converter().vega_to_scenegraph(spec, allowed_base_urls=_NOTHING_FROM_OUTSIDE)["scenegraph"]["items"]
    return [box["width"] for box in page["items"][1]["items"]]


def _converter() -> types.ModuleType:
    try:
        import vl_convert  # noqa: PLC0415 - 80 MB that only drawing needs
    except ModuleNotFoundError:
        raise NotInstalled.of(
            "the chart",
            "cannot be drawn without vl-convert",
            value=None,
            remedy="pip install 'checkpoint-sizing[charts]'",
        ) from None
    return vl_convert
