"""Charts as files: the ending of the name says which kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from sizing.charts.chart import Spec
from sizing.charts.rendering import html, png, svg
from sizing.errors import InvalidInput

_WRITERS: dict[str, Callable[[Spec], str | bytes]] = {".html": html, ".json": json.dumps, ".png": png, ".svg": svg}


def require_chart_name(path: Path) -> None:
    """Refuse a name whose ending is no kind of chart, before work is done for it.

    Raises InvalidInput.
    """
    if path.suffix.lower() not in _WRITERS:
        raise InvalidInput.of(
            "--chart", f"must end in {', '.join(sorted(_WRITERS))}", value=path.name, remedy="rename it"
        )


def drawn(spec: Spec, path: Path) -> bytes:
    """A chart as the content of a file of that name.

    Raises InvalidInput where the name's ending is no kind of chart, or the extra `charts` is not installed.
    """
    require_chart_name(path)
    content = _WRITERS[path.suffix.lower()](spec)
    return content.encode() if isinstance(content, str) else content


def write_chart(spec: Spec, path: Path) -> None:
    """Draw a chart into a file.

    Raises InvalidInput where the name's ending is no kind of chart, the extra `charts` is not installed or the file
    cannot be written.
    """
    content = drawn(spec, path)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InvalidInput.of(
            "--chart", f"cannot be written ({error.strerror})", value=str(path), remedy="check folder and permissions"
        ) from None
