"""A document as one page of HTML or PDF that needs no other file. Needs the extra `report`."""

from __future__ import annotations

import base64
import html
import re
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from sizing.errors import NotInstalled
from sizing.guesses.fields import field_at
from sizing.present.document import Document
from sizing.present.figure_names import figure_name
from sizing.present.gpu_grid import gpu_picture
from sizing.present.rendering import render_svg
from sizing.present.rows import UNKNOWN, Grid
from sizing.version import __version__

if TYPE_CHECKING:
    import jinja2

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The page holds its own style and pictures, and no script."""

_FIGURE = re.compile(r"[-+]?\W?[\d.,]+( ?%| [A-Za-z/]{1,6})?")
_NO_FIGURE = ("", "-", UNKNOWN, "never")
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|ms|min|h|days|x|[kMGTPE]?i?B(?:/s)?)(?!\w))")
_DOTTED_NAME = re.compile(r"(?<![\w./-])[a-z_]+(?:\.[a-z0-9_]+)+(?![\w/])")
_WITHIN_NAME = re.compile(r"(?<=[a-z])[._](?=[a-z])")
_MAX_COLUMNS = 7
"""Max columns that a sheet of paper holds in letters of the usual size."""
_MANY_COLUMNS = 4
"""Columns that are many for a phone, where they are wide; more of them even where only one is a sentence."""
_SENTENCE = 30
"""Characters of a cell, which a fifth of a phone's width breaks into a line for each word."""
_TEXT_LIBRARIES = "Debian's libpango-1.0-0, libpangoft2-1.0-0 and libharfbuzz-subset0"
_EXTRA = "pip install 'checkpoint-sizing[report]'"


class Picture(NamedTuple):
    """A chart as an image inside the page, and what it shows for those who do not see it."""

    source: str
    text: str


def render_page(document: Document, *, made_at: datetime, origin: str = "") -> str:
    """Render the page: the answer first, then charts, what it rests on, and the question to ask again.

    `origin` says where the question is kept. Raises NotInstalled where the extra `report` is missing.
    """
    return _template().render(
        document=document,
        first=document.first_page,
        style=_asset("page.css"),
        gpus=_picture(gpu_picture(document.gpus), document.gpus.sentence) if document.gpus else None,
        charts=[_picture(render_svg(spec), spec["description"]) for spec in document.charts],
        origin=origin,
        made_at=moment_text(made_at),
        date=f"{made_at.day} {made_at:%B %Y}",
        version=__version__,
    )


def render_pdf(html_page: str) -> bytes:
    """Render the page as a PDF document.

    Raises NotInstalled where the extra `report` or the system's text libraries are missing.
    """
    try:
        import weasyprint  # noqa: PLC0415 - loads system libraries that nothing else needs
    except ModuleNotFoundError:
        raise NotInstalled.of("the PDF", "cannot be made without weasyprint", value=None, remedy=_EXTRA) from None
    except OSError:
        raise NotInstalled.of(
            "the PDF", "cannot be made: text libraries are missing", value=None, remedy=f"install {_TEXT_LIBRARIES}"
        ) from None
    no_other_file = weasyprint.urls.URLFetcher(allowed_protocols=("data",), fail_on_errors=True)
    document: bytes = weasyprint.HTML(string=html_page, url_fetcher=no_other_file).write_pdf()
    return document


def moment_text(moment: datetime) -> str:
    """Write a moment in UTC as the page shows it."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def name_fields(text: str) -> str:
    """Write the name of each field of a scenario in words, as the tables of a document have it, for its dotted path.

    >>> name_fields("no failure rate given: pass reliability.mtbf_seconds. The 2 files .metadata and metadata.json")
    'no failure rate given: pass “reliability: MTBF”. The 2 files .metadata and metadata.json'
    """
    return _DOTTED_NAME.sub(lambda found: f"“{figure_name(found[0])}”" if _is_field(found[0]) else found[0], text)


def _is_field(path: str) -> bool:
    try:
        field_at(path)
    except KeyError:
        return False
    return True


def _picture(drawing: str, text: str) -> Picture:
    image = base64.b64encode(drawing.encode()).decode()
    return Picture(f"data:image/svg+xml;base64,{image}", text)


@cache
def _template() -> jinja2.Template:
    try:
        import jinja2  # noqa: PLC0415 - only documents need it
    except ModuleNotFoundError:
        raise NotInstalled.of("the report", "cannot be made without jinja2", value=None, remedy=_EXTRA) from None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )

    def keep_words(text: str) -> str:
        """Keep each figure on one line with its unit, and let the name of a field break between its words alone."""
        kept = html.escape(_BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", text))
        return jinja2.filters.do_mark_safe(_WITHIN_NAME.sub(r"\g<0><wbr>", kept))

    environment.filters["with_units"] = keep_words
    environment.filters["sentence"] = lambda text: keep_words(name_fields(text))
    environment.filters["shape"] = _shape
    environment.filters["figure_columns"] = _find_figure_columns
    return environment.from_string(_asset("page.html"))


def _shape(grid: Grid) -> str:
    """Fit a table to a narrow page: many columns in small letters, cells of whole sentences below each other."""
    num_columns = len(grid.columns)
    if num_columns > _MAX_COLUMNS:
        return "dense"
    has_sentences = any(len(cell) > _SENTENCE for row in grid.rows for cell in row)
    return "stacked" if num_columns == _MANY_COLUMNS or (num_columns > _MANY_COLUMNS and has_sentences) else ""


def _find_figure_columns(grid: Grid) -> frozenset[int]:
    """Find the columns whose cells are figures, or words for a missing figure: they are aligned to the right."""
    places = set()
    for place, cells in enumerate(zip(*grid.rows, strict=True)):
        figures = [cell for cell in cells if cell not in _NO_FIGURE]
        if place and figures and all(_FIGURE.fullmatch(cell) for cell in figures):
            places.add(place)
    return frozenset(places)


def _asset(name: str) -> str:
    return resources.files("sizing.present").joinpath(name).read_text(encoding="utf-8")
