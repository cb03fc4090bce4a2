"""In which form a report is sent: as the link says, or else as the Accept header prefers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from service.http.accept import preferred
from service.reports import page, spreadsheet
from service.reports.saved import Saved
from service_client.documents import ReportForm
from sizing.report import SizingReport
from sizing.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Form:
    """One form: its media type, how it is made, and what it needs in its headers."""

    media_type: str
    make: Callable[[Saved, Scenario, SizingReport], str | bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    has_charts: bool = False
    """Drawing them takes a second or more: a heavy question."""


FORMS: dict[ReportForm, Form] = {
    "json": Form("application/json", lambda _, __, report: report.model_dump_json()),
    "html": Form("text/html", page.html, {"Content-Security-Policy": page.CONTENT_SECURITY_POLICY}, has_charts=True),
    "pdf": Form("application/pdf", lambda *asked: page.pdf(page.html(*asked)), has_charts=True),
    "csv": Form("text/csv", lambda _, __, report: spreadsheet.csv_text(report)),
}
"""Every form; the first is sent to who takes anything."""


def form_wanted(name: ReportForm | None, accept: str | None) -> ReportForm:
    """The form that was named, or else the one that an Accept header prefers. Raises NotAcceptable."""
    if name is not None:
        return name
    by_media_type = {form.media_type: known for known, form in FORMS.items()}
    return by_media_type[preferred(accept, list(by_media_type))]


def headers_of(name: ReportForm, saved: Saved) -> dict[str, str]:
    """What is said of a report beside its media type."""
    file = f"checkpoint-sizing-{saved.id}.{name}"
    return {"Content-Disposition": f'inline; filename="{file}"', "Vary": "Accept", **FORMS[name].headers}
