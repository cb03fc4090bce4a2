"""What a scenario's checkpoint weighs, takes and costs: how that is asked and shown."""

from __future__ import annotations

from sizing.present.document import Document, as_file
from sizing.present.gpu_grid import gpu_grid
from sizing.present.grids import origins_grid, report_grids
from sizing.present.rows import Summary
from sizing.present.sliders import list_sliders
from sizing.questions.answer.charts import report_charts
from sizing.questions.answer.first_screen import first_screen
from sizing.questions.answer.words import assumptions_made, each_assumed, inputs, sections
from sizing.questions.chunks import Progress
from sizing.questions.question import Answer, Check, Question, RestRoute, ScenarioFlags, TerminalStyle
from sizing.report import ScenarioWithLayout, SizingReport, find_layout
from sizing.scenario import FIRST_SCENARIO, REFERENCE_SCENARIO, Scenario


def sizing_document(scenario: Scenario, report: SizingReport) -> Document:
    """The answer to a scenario with all its degrees."""
    return Document(
        kind="Checkpoint storage sizing",
        title=report.model.name,
        first_page=first_screen(report),
        charts=tuple(report_charts(scenario, report)),
        sections=tuple(section for section in sections(report) if section.rows),
        grids=(
            inputs(scenario, report.assumptions),
            *report_grids(report),
            assumptions_made(report.assumptions),
            origins_grid(report),
        ),
        question=as_file(scenario.model_dump(mode="json", exclude_unset=True)),
        gpus=gpu_grid(scenario, report),
        sliders=list_sliders(scenario),
        assumptions=tuple(each_assumed(scenario, report.assumptions)),
    )


def _ask(request: Scenario | ScenarioWithLayout, progress: Progress) -> Answer[SizingReport]:
    """Answer a scenario, in the best layout that fits where it leaves that open."""
    found = find_layout(request) if isinstance(request, Scenario) else request
    report = found.answer(progress=progress)
    return _show(found.scenario, report)


def _show(scenario: Scenario, report: SizingReport) -> Answer[SizingReport]:
    return Answer(report, lambda: sizing_document(scenario, report), lambda terminal: _print(report, terminal))


def _print(report: SizingReport, terminal: TerminalStyle) -> Summary:
    screen = first_screen(report)
    if not terminal.is_full:
        return Summary(headline="", grids=(), screen=screen)
    return Summary(
        headline="",
        sections=tuple(sections(report)),
        grids=(
            *report_grids(report),
            assumptions_made(report.assumptions, spelling=str),
            origins_grid(report),
        ),
        screen=screen,
        is_full=True,
    )


QUESTION = Question[Scenario, SizingReport](
    title="Checkpoint storage sizing",
    request=Scenario,
    report=SizingReport,
    example=REFERENCE_SCENARIO,
    route=RestRoute(
        path="sizings",
        name="create_sizing",
        summary="Answer a scenario",
        description="Size, times, overhead, costs and requirements of the scenario's checkpoints. Nothing is "
        "stored.\n\nWhere degrees are left open, they are those of the best layout that fits the number of GPUs.",
        example="A published run of 1T",
        tag="sizings",
        csv="the figures",
        is_quick=True,
    ),
    ask=_ask,
    show=_show,
    command_line=ScenarioFlags(layout="told"),
    further_tables="all tables and what was assumed",
    draws_first_chart=True,
    check=Check(
        "Exit with 1 where a target is missed",
        lambda report: any(target.met is False for target in report.targets),
    ),
    may_name_calibrations=("storage.calibration",),
    needs_answer=lambda scenario: scenario,
    first_example=FIRST_SCENARIO,
    schema_name="scenario",
)
