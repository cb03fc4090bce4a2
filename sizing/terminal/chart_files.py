"""Charts as files: the ending of the name says which kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sizing.errors import InvalidInput
from sizing.present.chart import Spec
from sizing.present.rendering import render_html, render_png, render_svg

_RENDERERS: dict[str, Callable[[Spec], str | bytes]] = {
    ".html": render_html,
    ".json": json.dumps,
    ".png": render_png,
    ".svg": render_svg,
}


def require_chart_name(path: Path) -> None:
    """Refuse a name whose ending is no kind of chart, before work is done for it.

    Raises InvalidInput.
    """
    if path.suffix.lower() not in _RENDERERS:
        raise InvalidInput.of(
            "--chart", f"must end in {', '.join(sorted(_RENDERERS))}", value=path.name, remedy="rename it"
        )


def draw_chart(spec: Spec, path: Path) -> bytes:
    """Draw a chart as the content of a file of that name.

    Raises InvalidInput where the name's ending is no kind of chart, or the extra `charts` is not installed.
    """
    require_chart_name(path)
    content = _RENDERERS[path.suffix.lower()](spec)
    return content.encode() if isinstance(content, str) else content


def write_chart(spec: Spec, path: Path) -> None:
    """Draw a chart into a file.

    Raises InvalidInput where the name's ending is no kind of chart, the extra `charts` is not installed or the file
    cannot be written.
    """
    content = draw_chart(spec, path)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidInput.of(
            "--chart", f"cannot be written ({error.strerror})", value=str(path), remedy="check folder and permissions"
        ) from None
