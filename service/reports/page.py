"""A saved scenario and its answer as one page that needs nothing beside it: HTML, and on paper."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import NamedTuple

import jinja2
import markupsafe
import yaml

from service.errors import NotReady
from service.reports.saved import Saved
from sizing import __version__, summary
from sizing.charts import Spec
from sizing.charts.rendering import svg
from sizing.charts.sizing_report import report_charts
from sizing.report import SizingReport
from sizing.scenario import Scenario

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""The page holds its own style and pictures, and no script."""

_MISSING_LIBRARY = "Debian's libpango-1.0-0, libpangoft2-1.0-0 and libharfbuzz-subset0"


class Picture(NamedTuple):
    """A chart as an image inside the page, and what it shows for those who do not see it."""

    source: str
    text: str


def html(saved: Saved, scenario: Scenario, report: SizingReport) -> str:
    """The page: the answer first, then charts, what it rests on, and the scenario to ask again."""
    return _template().render(
        id=saved.id,
        name=saved.name,
        style=markupsafe.Markup(_asset("report.css")),  # noqa: S704 - the project's own
        headline=summary.headline(report),
        key_figures=summary.key_figures(report),
        warnings=report.warnings,
        charts=[_picture(spec) for spec in report_charts(scenario, report)],
        sections=summary.sections(report),
        grids=summary.grids(report),
        assumptions=report.assumptions,
        origins=summary.origins(report),
        scenario=yaml.safe_dump(saved.document, sort_keys=False, allow_unicode=True),
        saved_at=_moment(saved.created_at),
        answered_at=_moment(datetime.now(UTC)),
        version=__version__,
    )


def pdf(html_page: str) -> bytes:
    """The page as a PDF document.

    Raises NotReady where the system's text libraries are missing.
    """
    try:
        import weasyprint  # noqa: PLC0415 - loads system libraries that nothing else needs
    except OSError:
        raise NotReady.of(
            "the PDF", "cannot be made: text libraries are missing", value=None, remedy=f"install {_MISSING_LIBRARY}"
        ) from None
    only_what_it_holds = weasyprint.urls.URLFetcher(allowed_protocols=("data",), fail_on_errors=True)
    document: bytes = weasyprint.HTML(string=html_page, url_fetcher=only_what_it_holds).write_pdf()
    return document


def _picture(spec: Spec) -> Picture:
    image = base64.b64encode(svg(spec).encode()).decode()
    return Picture(f"data:image/svg+xml;base64,{image}", spec["description"])


def _moment(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("report.html"))


def _asset(name: str) -> str:
    return resources.files("service").joinpath("pages", name).read_text(encoding="utf-8")
