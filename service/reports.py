"""Reports as REST sends them: the form that a client wants, and what became of a saved scenario's answer since.

The form is the one that the link says, or else the one that the Accept header prefers.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, JsonValue
from starlette.responses import Response

from service.http.accept import choose_media_type
from service_client.documents import ChangedFigure, ScenarioChanges
from service_client.terms import ReportForm
from sizing import __version__
from sizing.field_paths import value_at
from sizing.present import page
from sizing.present.compared_figures import COMPARED_FIGURES, TARGETS_MET, differ, targets_met
from sizing.present.document import Document, presentation_of
from sizing.present.page import moment_text
from sizing.questions.question import Answer
from sizing.spreadsheets import TableWriter


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """The scenario that a report answers, saved under a name or sent once; `document` is as it was given."""

    document: dict[str, Any]
    name: str = ""
    id: UUID | None = None
    """Id of a saved scenario."""
    saved_at: datetime | None = None
    code_version: str | None = None
    """Version that answered it when it was saved; None where it was saved before versions were kept."""
    figures: dict[str, Any] | None = None
    """Figures of the answer when it was saved."""

    @property
    def origin(self) -> str:
        """Place where the scenario is saved, in words; empty for one that was sent once."""
        return "" if self.saved_at is None else f"Saved {moment_text(self.saved_at)} as {self.id}"


VERSION_HEADER = "X-Checkpoint-Sizing-Version"
"""Header with the version that answers, for forms that are figures alone; a page says it in its last line."""


@dataclass(frozen=True, slots=True)
class Form:
    """Form of an answer: its media type, how it is made, and which headers it needs."""

    media_type: str
    make: Callable[[Answer[Any], str], str | bytes]
    """Takes the answer, and where its question is kept, in words."""
    headers: Mapping[str, str] = field(default_factory=dict)
    has_charts: bool = False
    """Drawing them takes a second or more: a heavy question."""


def _page(answer: Answer[Any], origin: str) -> str:
    """Render the document as a page with the present time."""
    return page.render_page(answer.document(), made_at=datetime.now(UTC), origin=origin)


def _csv(answer: Answer[Any], _: str) -> str:
    """Render the table of the answer, or else the figures of its report."""
    if answer.table is None:
        return csv_text(answer.report)
    table = answer.table()
    return table_text(table.columns, table.rows, line_end="\n")


FORMS: dict[ReportForm, Form] = {
    "json": Form("application/json", lambda answer, _: answer.report.model_dump_json()),
    "html": Form("text/html", _page, {"Content-Security-Policy": page.CONTENT_SECURITY_POLICY}, has_charts=True),
    "pdf": Form("application/pdf", lambda answer, origin: page.render_pdf(_page(answer, origin)), has_charts=True),
    "presentation": Form(
        "application/vnd.checkpoint-sizing.presentation+json",
        lambda answer, _: presentation_of(answer.document()).model_dump_json(),
    ),
    "csv": Form("text/csv", _csv),
}
"""Every form; the first is sent to who takes anything."""
PAGES: tuple[ReportForm, ...] = ("json", "html", "pdf", "presentation")
"""The forms of an answer that is no table of figures."""
IN_WORDS: tuple[ReportForm, ...] = ("json", "presentation")
"""The forms of what is stored and has a document in words: data, and what a page shows of it."""


def choose_form(accept: str | None, *, name: ReportForm | None = None, among: Sequence[ReportForm] = ()) -> ReportForm:
    """Choose the form that was named, or else the one that an Accept header prefers. Raises NotAcceptable."""
    if name is not None:
        return name
    by_media_type = {FORMS[known].media_type: known for known in among or FORMS}
    return by_media_type[choose_media_type(accept, list(by_media_type))]


def render_answer(form: ReportForm, answer: Answer[Any], *, origin: str = "") -> bytes:
    """Render an answer in a form; `origin` says where its question is kept."""
    content = FORMS[form].make(answer, origin)
    return content.encode() if isinstance(content, str) else content


def report_response(form: ReportForm, content: bytes, *, file_stem: str = "checkpoint-sizing") -> Response:
    """Make the response with an answer in a form; `file_stem` names the file that it may become."""
    headers = {
        "Content-Disposition": f'inline; filename="{file_stem}.{form}"',
        VERSION_HEADER: __version__,
        "Vary": "Accept",
        **FORMS[form].headers,
    }
    return Response(content, headers=headers, media_type=FORMS[form].media_type)


def respond_with_document(document: Document) -> Response:
    """Make the response with a document in words and charts, as data."""
    return report_response("presentation", presentation_of(document).model_dump_json().encode())


def contents_of(*forms: ReportForm) -> dict[str, dict[str, object]]:
    """Return the media types of forms for OpenAPI."""
    return {FORMS[form].media_type: {} for form in forms or FORMS}


_MAX_NAMES = 5
"""Max figures that the line below a page has room for."""


def figures_in(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a report document that are stored with a saved scenario; None for those that it lacks.

    >>> figures_in({"write": {"seconds": 2.5}})["write.seconds"]
    2.5
    """
    figures = {figure: value_at(report, figure) for figure in COMPARED_FIGURES}
    cannot_run = (report.get("training") or {}).get("cannot_run")
    return figures | {TARGETS_MET: targets_met(report.get("targets", []), cannot_run=cannot_run)}


def changes_since(subject: ReportSubject, report: Mapping[str, Any]) -> ScenarioChanges:
    """Compare the report of today, as a document, with the one that the saved scenario had.

    A figure that was not kept then, or that this version does not know, is left out.
    """
    today = figures_in(report)
    changed = [
        ChangedFigure(figure=figure, then=then, now=today[figure])
        for figure, then in (subject.figures or {}).items()
        if figure in today and differ(then, today[figure])
    ]
    return ScenarioChanges(saved_by=subject.code_version, answered_by=__version__, figures=changed)


def describe_origin(subject: ReportSubject, report: Mapping[str, Any]) -> str:
    """Say where the question is kept, and what changed since; empty for one that was sent once."""
    if subject.code_version is None or not subject.origin:
        return subject.origin
    changes = changes_since(subject, report)
    names = [change.figure for change in changes.figures]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    differences = f"figures that differ since: {', '.join(names[:_MAX_NAMES])}{more}"
    since = differences if names else "no figure differs since"
    return f"{subject.origin} by checkpoint-sizing {subject.code_version}, {since}"


def csv_text(report: BaseModel) -> str:
    """Return every figure of the report with its path in the JSON document, as CSV."""
    return table_text(("field", "value"), _walk_leaves(report.model_dump(mode="json"), ""))


def table_text(heading: Iterable[object], rows: Iterable[Iterable[object]], *, line_end: str = "\r\n") -> str:
    r"""Write a table as CSV.

    A text that a spreadsheet would run as a formula gets an apostrophe before it; numbers stay what they are.

    >>> print(table_text(["name", "value"], [["=HYPERLINK(1)", -1.5], ["gpt2", None]], line_end="\n"), end="")
    name,value
    '=HYPERLINK(1),-1.5
    gpt2,
    """
    out = io.StringIO()
    writer = TableWriter(out, line_end=line_end)
    writer.row(heading)
    writer.rows(rows)
    return out.getvalue()


def _walk_leaves(value: JsonValue, path: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _walk_leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _walk_leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
