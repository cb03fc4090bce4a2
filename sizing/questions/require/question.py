"""Question: which storage meets the targets, how it is asked and shown."""

from __future__ import annotations

from sizing.questions.question import SAVE_FIELDS, SIZE_FIELDS, Check, Question, RestRoute, ScenarioFlags
from sizing.questions.require.answer import answer_requirements
from sizing.questions.require.report import RequirementsReport
from sizing.questions.require.words import requirements_summary
from sizing.scenario import REFERENCE_SCENARIO, Scenario

QUESTION = Question[Scenario, RequirementsReport](
    title="Requirements of checkpoint storage",
    request=Scenario,
    report=RequirementsReport,
    example=REFERENCE_SCENARIO,
    route=RestRoute(
        path="requirements",
        name="create_requirements",
        summary="Find the storage that meets the targets",
        description="The min bandwidth and capacity, and the min and max interval, that meet the targets of the "
        "scenario.",
        example="A published run of 1T",
    ),
    answer=lambda scenario, _: answer_requirements(scenario),
    summary=requirements_summary,
    command_line=ScenarioFlags(
        layout="found",
        first_fields=(
            *SIZE_FIELDS,
            *SAVE_FIELDS,
            "training.framework",
            "reliability.mtbf_seconds",
            "targets.max_overhead_fraction",
            "targets.max_stall_seconds",
            "targets.recovery_seconds",
            "targets.min_goodput_fraction",
        ),
    ),
    check=Check("Exit with 1 where a target is missed", lambda report: not report.met_as_given),
    may_name_calibrations=("storage.calibration",),
    needs_answer=lambda scenario: scenario,
    draggable=lambda scenario: scenario,
)
