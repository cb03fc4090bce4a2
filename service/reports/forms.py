"""In which form an answer is sent: as the link says, or else as the Accept header prefers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import BaseModel
from starlette.responses import Response

from service.http.accept import preferred
from service.reports import spreadsheet
from service_client.terms import ReportForm
from sizing import __version__
from sizing.reports import page
from sizing.reports.document import Document
from sizing.reports.presentation import presentation_of

VERSION_HEADER = "X-Checkpoint-Sizing-Version"
"""Of the version that answers, for forms that are figures alone; a page says it in its last line."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, and what makes a document of it."""

    report: BaseModel
    document: Callable[[], Document]
    origin: str = ""
    """Where the question is kept, in words."""

    def page(self) -> str:
        """The document as a page, made now."""
        return page.html(self.document(), made_at=datetime.now(UTC), origin=self.origin)


@dataclass(frozen=True, slots=True)
class Form:
    """One form: its media type, how it is made, and what it needs in its headers."""

    media_type: str
    make: Callable[[Answer], str | bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
    has_charts: bool = False
    """Drawing them takes a second or more: a heavy question."""


FORMS: dict[ReportForm, Form] = {
    "json": Form("application/json", lambda answer: answer.report.model_dump_json()),
    "html": Form("text/html", Answer.page, {"Content-Security-Policy": page.CONTENT_SECURITY_POLICY}, has_charts=True),
    "pdf": Form("application/pdf", lambda answer: page.pdf(answer.page()), has_charts=True),
    "presentation": Form(
        "application/vnd.checkpoint-sizing.presentation+json",
        lambda answer: presentation_of(answer.document()).model_dump_json(),
    ),
    "csv": Form("text/csv", lambda answer: spreadsheet.csv_text(answer.report)),
}
"""Every form; the first is sent to who takes anything."""
PAGES: tuple[ReportForm, ...] = ("json", "html", "pdf", "presentation")
"""The forms of an answer that is no table of figures."""
IN_WORDS: tuple[ReportForm, ...] = ("json", "presentation")
"""The forms of what is stored and has a document in words: data, and what a page shows of it."""


def form_wanted(accept: str | None, *, name: ReportForm | None = None, among: Sequence[ReportForm] = ()) -> ReportForm:
    """The form that was named, or else the one that an Accept header prefers. Raises NotAcceptable."""
    if name is not None:
        return name
    by_media_type = {FORMS[known].media_type: known for known in among or FORMS}
    return by_media_type[preferred(accept, list(by_media_type))]


def made(form: ReportForm, answer: Answer) -> bytes:
    """An answer in a form."""
    content = FORMS[form].make(answer)
    return content.encode() if isinstance(content, str) else content


def report_response(form: ReportForm, content: bytes, *, file_stem: str = "checkpoint-sizing") -> Response:
    """An answer in a form, as it is sent; `file_stem` names the file that it may become."""
    shown = {"Content-Disposition": f'inline; filename="{file_stem}.{form}"', VERSION_HEADER: __version__}
    return Response(
        content, headers={**shown, "Vary": "Accept", **FORMS[form].headers}, media_type=FORMS[form].media_type
    )


def presented(document: Document) -> Response:
    """A document in words and charts as data, as it is sent."""
    return report_response("presentation", presentation_of(document).model_dump_json().encode())


def contents_of(*forms: ReportForm) -> dict[str, dict[str, object]]:
    """The media types of forms, as OpenAPI has them."""
    return {FORMS[form].media_type: {} for form in forms or FORMS}
