"""Charts as SVG, PNG and HTML that work offline. Needs the extra `charts`; nothing is fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sizing.errors import NotInstalled
from sizing.present.chart import Spec

if TYPE_CHECKING:
    import types

_PNG_SCALE = 2.0
"""Pixels per point: sharp on a high-resolution screen and in print at half size."""
_NOTHING_FROM_OUTSIDE: list[str] = []


def render_svg(spec: Spec) -> str:
    """Render the chart as an SVG document. Raises NotInstalled where the extra `charts` is not installed."""
    text: str = _converter().vegalite_to_svg(spec, allowed_base_urls=_NOTHING_FROM_OUTSIDE)
    return text


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
