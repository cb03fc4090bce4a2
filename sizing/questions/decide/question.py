"""Question: which offer to buy, how it is asked and shown."""

from __future__ import annotations

from sizing.present.rows import Summary
from sizing.questions.decide.answer import DecisionWork
from sizing.questions.decide.briefing import brief_decision
from sizing.questions.decide.charts import decision_chart, decision_charts
from sizing.questions.decide.report import DecisionReport
from sizing.questions.decide.request import REFERENCE_DECISION, DecisionRequest
from sizing.questions.decide.words import decision_screen, decision_summary
from sizing.questions.question import Check, Option, Question, RequestFiles, RestRoute, TerminalStyle, split_at_commas


def _terminal_summary(report: DecisionReport, style: TerminalStyle) -> Summary:
    return decision_summary(report) if style.is_full else decision_screen(report)


QUESTION = Question[DecisionRequest, DecisionReport](
    title="What storage to buy",
    request=DecisionRequest,
    report=DecisionReport,
    example=REFERENCE_DECISION,
    route=RestRoute(
        path="decisions",
        name="create_decision",
        summary="Decide which offer to buy",
        description="Which of up to 20 offers is enough for the workloads, and which costs least with the GPU time "
        "that it loses.",
        example="Two file systems for 1T",
    ),
    work=DecisionWork,
    summary=decision_summary,
    charts=decision_charts,
    briefing=brief_decision,
    terminal_summary=_terminal_summary,
    further_tables="needs, ledgers and sources too",
    command_line=RequestFiles(
        "offers",
        "Workloads, offers and prices, JSON or YAML",
        scenarios_in="workloads",
        has_example=True,
        offers_in="offers",
    ),
    options=(
        Option("odds", "odds.num_draws", "Draw the inputs that are ranges N times, as 100000", metavar="N"),
        Option(
            "author", "author", "Who answers for the recommendation, for the first page of the report", metavar="NAME"
        ),
        Option(
            "growth",
            "growth.times",
            "Compare the offers at these sizes of the workloads too, as 2,3",
            metavar="TIMES",
            read=split_at_commas,
        ),
        Option("growth-of", "growth.of", "What grows: gpus or model", metavar="WHAT"),
        Option("guesses", "odds.guesses", "Draw what nobody stated from its plausible range too"),
    ),
    chart=decision_chart,
    check=Check("Exit with 1 where no offer is enough", lambda report: report.offers[0].verdict != "enough"),
    is_wide=True,
    refusals=lambda report: (
        f"{offer.name}: {problem}" for offer in report.refused_offers for problem in offer.problems
    ),
    may_name_calibrations=("offers.*.storage.calibration",),
    draggable=lambda request: request.workloads[0].scenario if len(request.workloads) == 1 else None,
    schema_name="decision",
)
