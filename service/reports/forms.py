"""In which form a report is sent: as the link says, or else as the Accept header prefers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from starlette.responses import Response

from service.accept import preferred
from service.database.tables import ScenarioRow
from service.reports import figures, page, pdf
from sizing.report import SizingReport, answer
from sizing.scenario import Scenario

FormName = Literal["json", "html", "pdf", "csv"]


@dataclass(frozen=True, slots=True)
class Form:
    """One form: its media type, how it is made, and what it needs in its headers."""

    media_type: str
    make: Callable[[ScenarioRow, Scenario, SizingReport], str | bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


FORMS: dict[FormName, Form] = {
    "json": Form("application/json", lambda _, __, report: report.model_dump_json()),
    "html": Form("text/html", page.html, {"Content-Security-Policy": page.CONTENT_SECURITY_POLICY}),
    "pdf": Form("application/pdf", lambda *asked: pdf.pdf(page.html(*asked))),
    "csv": Form("text/csv", lambda _, __, report: figures.csv_text(report)),
}
"""Every form; the first is sent to who takes anything."""


def sent(row: ScenarioRow, scenario: Scenario, *, name: FormName | None, accept: str | None) -> Response:
    """The answer of today to a saved scenario, in the form that was named or that the Accept header prefers.

    Args: `scenario`, that of the row as this version reads it, with its calibration in place.
    Raises InvalidInput where it has no answer, NotAcceptable, and NotReady where a form cannot be made here.
    """
    by_media_type = {form.media_type: form for form in FORMS.values()}
    form = FORMS[name] if name else by_media_type[preferred(accept, list(by_media_type))]
    extension = next(name for name, known in FORMS.items() if known is form)
    headers = {
        "Content-Disposition": f'inline; filename="checkpoint-sizing-{row.id}.{extension}"',
        "Vary": "Accept",
        **form.headers,
    }
    return Response(form.make(row, scenario, answer(scenario)), headers=headers, media_type=form.media_type)
