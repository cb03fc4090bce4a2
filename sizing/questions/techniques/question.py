"""Question: what each training technique would change in a scenario, how it is asked and shown."""

from __future__ import annotations

from sizing.questions.question import Question, RestRoute, ScenarioFlags
from sizing.questions.techniques.answer import answer_techniques
from sizing.questions.techniques.report import TechniquesReport
from sizing.questions.techniques.request import REFERENCE_TECHNIQUES, TechniquesRequest
from sizing.questions.techniques.words import techniques_summary

QUESTION = Question[TechniquesRequest, TechniquesReport](
    title="Training techniques",
    request=TechniquesRequest,
    report=TechniquesReport,
    example=REFERENCE_TECHNIQUES,
    route=RestRoute(
        path="techniques",
        name="create_techniques",
        summary="Try the training techniques on a scenario",
        description="Each technique of the catalog: the fields that apply it and the figures that it moves, or why it "
        "does not apply.",
        example="70B on 512 GPUs",
    ),
    answer=lambda request, _: answer_techniques(request),
    summary=techniques_summary,
    terminal_summary=lambda report, style: techniques_summary(report, spelling=style.spelling),
    command_line=ScenarioFlags(layout="found", catalog="techniques"),
    ask_of_entries=lambda request, names: request.model_copy(update={"names": tuple(names)}),
    needs_answer=lambda request: request.scenario,
    draggable=lambda request: request.scenario,
)
