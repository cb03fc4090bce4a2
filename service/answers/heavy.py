"""Heavy questions as functions from question to answer, for the processes of `service.compute.pool`."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from service.answers.progress import tell
from service.errors import validated
from service.reports import FORMS, ReportSubject, describe_origin, render_answer
from service_client.terms import ReportForm
from sizing.checkpoint_files.sent import SentFile, contents_of_sent
from sizing.errors import InvalidInput, model_in
from sizing.importers import ImportRequest, import_config_files
from sizing.offer_tables import OfferTableRequest, answer_offer_table
from sizing.present import rendering
from sizing.present.document import Document, as_file
from sizing.present.inspections import infer_fields, inspection_document, inspection_summary
from sizing.present.sliders import list_sliders
from sizing.questions.chunks import Computer, compute_here
from sizing.questions.question import Answer
from sizing.questions.registry import ANSWER, DECIDE, QUESTIONS, QuestionEntry
from sizing.report import SizingReport
from sizing.scenario import Scenario
from sizing.storage.calibration import Calibration, Publisher, calibrate, select_agreeing
from sizing.storage.measurement import BenchmarkResult

LOADED = {entry.name: entry.question for entry in QUESTIONS.values()}
"""Every question, imported before the time of the first one begins."""

COMPUTER: ContextVar[Computer] = ContextVar("computer", default=compute_here)
"""Who computes the chunks of questions that have some."""


class HeavyKind(NamedTuple):
    """What questions of a route ask with, and what answers them in a form. Processes may send it to each other."""

    request: type[BaseModel]
    answer: Callable[[ReportForm, Any], bytes]

    def answer_json(self, form: ReportForm, request: str) -> bytes:
        """Answer a request that is JSON, as jobs keep it. Raises InvalidInput as the answer does."""
        model = self.request
        return self.answer(form, validated(model, lambda: model.model_validate_json(request)))


def heavy_kind(path: str) -> HeavyKind:
    """Return the kind of the questions of `POST /v1/<path>`. Raises InvalidInput for a path of another version."""
    if path in _OTHER_KINDS:
        return _OTHER_KINDS[path]
    for entry in QUESTIONS.values():
        if entry.question.route.path == path:
            return HeavyKind(entry.question.request, functools.partial(question_in, entry))
    raise InvalidInput.of("the job", "must be of a kind that this version knows", value=path, remedy="ask it again")


def request_json(request: BaseModel) -> str:
    """Return the JSON of a request: parsed again it is the same, in what was given and in what was left out."""
    return request.model_dump_json(exclude_unset=True)


def question_in(entry: QuestionEntry[Any, Any], form: ReportForm, request: BaseModel) -> bytes:
    """Answer a request of a question in one of its forms. Its document gets sliders where the question has some."""
    question = entry.question
    answer = question.answer_request(request, tell, COMPUTER.get())
    scenario = question.draggable(request) if question.draggable else None
    if scenario is None:
        return render_answer(form, answer)
    return render_answer(form, _with(answer, lambda: {"sliders": list_sliders(scenario)}))


class GivenScenario(BaseModel):
    """A scenario whose stored calibration is in it, and the document as it was given, which its answer shows."""

    scenario: Scenario
    document: dict[str, Any]


def given_sizing_in(form: ReportForm, given: GivenScenario) -> bytes:
    """Answer a scenario that was sent, in one of the report forms."""
    return sizing_in(form, ReportSubject(given.document), given.scenario)


def sizing_in(form: ReportForm, subject: ReportSubject, scenario: Scenario) -> bytes:
    """Answer a scenario anew, in one of the report forms."""
    return _sizing_in(form, subject, ANSWER.question.answer_request(scenario, tell))


def sizing_report_in(form: ReportForm, subject: ReportSubject, scenario: Scenario, report: SizingReport) -> bytes:
    """Render the report of a scenario in one of the report forms."""
    return _sizing_in(form, subject, ANSWER.question.present(scenario, report))


def _sizing_in(form: ReportForm, subject: ReportSubject, answer: Answer[SizingReport]) -> bytes:
    """Render an answer under the name of its scenario, with the question as it was given."""
    named = {"title": subject.name} if subject.name else {}
    has_origin = subject.saved_at and FORMS[form].has_charts
    origin = describe_origin(subject, answer.report.model_dump(mode="json")) if has_origin else ""
    return render_answer(form, _with(answer, lambda: named | {"question": as_file(subject.document)}), origin=origin)


def _with(answer: Answer[Any], changes: Callable[[], Mapping[str, Any]]) -> Answer[Any]:
    """Return the answer with fields of its document changed, once the document is made."""

    def document() -> Document:
        return dataclasses.replace(answer.document(), **changes())

    return dataclasses.replace(answer, document=document)


def inspection_in(form: ReportForm, file: SentFile) -> bytes:
    """Describe the checkpoint that an uploaded file belongs to, in one of the report forms."""
    contents = contents_of_sent(file)
    fields = infer_fields(contents)
    answer = Answer(
        contents,
        lambda: dataclasses.replace(inspection_document(contents, name=file.name), told_fields=fields),
        lambda _: inspection_summary(contents, name=file.name),
    )
    return render_answer(form, answer)


def import_in(_: ReportForm, request: ImportRequest) -> bytes:
    """Read config files as a scenario, and return the ImportReport in its one form, JSON."""
    return import_config_files(request).model_dump_json().encode()


def offer_table_in(_: ReportForm, request: OfferTableRequest) -> bytes:
    """Read or write a table of offers, and return the OfferTable in its one form, JSON."""
    offer = model_in(DECIDE.question.request.model_fields["offers"].annotation)
    return answer_offer_table(request, model=offer).model_dump_json().encode()


_OTHER_KINDS = {
    ANSWER.question.route.path: HeavyKind(GivenScenario, given_sizing_in),
    "imports": HeavyKind(ImportRequest, import_in),
    "inspections": HeavyKind(SentFile, inspection_in),
    "offer-tables": HeavyKind(OfferTableRequest, offer_table_in),
}
"""By the paths of their routes, the questions that are answered otherwise than those of the registry."""


class CalibrationFit(BaseModel):
    """A calibration, and the reasons why runs are left out of it, by their ids."""

    calibration: Calibration
    left_out: dict[str, str]


def fit_json(
    documents: dict[str, str], engine: str | None, *, named: bool, sources: dict[str, Publisher] | None = None
) -> bytes:
    """Calibrate from result documents by run id, the newest first, and return the JSON of a `CalibrationFit`.

    Documents that this version cannot read are left out. So are runs that contradict others, as `select_agreeing`
    decides by their `sources`, unless the client has `named` the runs.
    """
    left_out: dict[str, str] = {}
    results = []
    for run_id, document in documents.items():
        try:
            results.append(BenchmarkResult.model_validate_json(document))
        except ValidationError:
            left_out[run_id] = "cannot be read by this version"
    disputes: list[str] = []
    if not named:
        results, contradicting = select_agreeing(results, engine=engine, sources=sources)
        left_out |= {run_id: f"contradicts others: {text}" for run_id, text in contradicting.items()}
        disputes = _disputes(contradicting, sources or {})
    calibration = calibrate(results, engine=engine)
    calibration = calibration.model_copy(update={"warnings": (*disputes, *calibration.warnings)})
    return CalibrationFit(calibration=calibration, left_out=left_out).model_dump_json().encode()


def _disputes(contradicting: dict[str, str], sources: dict[str, Publisher]) -> list[str]:
    """Warn whose runs contradict others, where several tokens publish runs of a system."""
    if len(set(sources.values())) < 2:
        return []
    num_left_out = Counter(sources[run_id].name for run_id in contradicting)
    return [
        f"{num_runs} of the runs that {name} published contradict others and are left out, all or in part: "
        "withdraw what is wrong, or name the run_ids that count"
        for name, num_runs in num_left_out.items()
    ]


def vega_script() -> bytes:
    """Return the scripts that draw charts in a browser. Raises NotInstalled without the extra `charts`."""
    return rendering.bundle_script().encode()
