"""Specifications as SVG, PNG and HTML that works offline. Needs the extra `charts`; nothing is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizing.charts.chart import Spec
from sizing.errors import NotInstalled

if TYPE_CHECKING:
    import types

_PNG_SCALE = 2.0
"""Pixels per point: sharp on a high-resolution screen and in print at half size."""
_NOTHING_FROM_OUTSIDE: list[str] = []


def svg(spec: Spec) -> str:
    """The chart as an SVG document. Raises NotInstalled where the extra `charts` is not installed."""
    text: str = _converter().vegalite_to_svg(spec, allowed_base_urls=_NOTHING_FROM_OUTSIDE)
    return text


def png(spec: Spec, *, scale: float = _PNG_SCALE) -> bytes:
    """The chart as a PNG image, by default at twice its size. Raises NotInstalled as `svg` does."""
    image: bytes = _converter().vegalite_to_png(spec, scale=scale, allowed_base_urls=_NOTHING_FROM_OUTSIDE)
    return image


def html(spec: Spec) -> str:
    """The chart as an interactive page with its scripts inside. Raises NotInstalled as `svg` does."""
    page: str = _converter().vegalite_to_html(spec, bundle=True)
    return page


def script() -> str:
    """The libraries that draw in a browser, as one script: it sets `vegaEmbed`. Raises NotInstalled as `svg` does.

    They are those that draw SVG and PNG here. It takes two seconds.
    """
    text: str = _converter().javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return text


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
