"""Answer about training techniques: what each would change in a scenario, and which figures of the answer then move."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from sizing.errors import InvalidInput, unknown_name
from sizing.field_paths import value_at
from sizing.questions.techniques.registry import SCENARIO_TECHNIQUES, Balance, PlanFigures
from sizing.questions.techniques.report import FigureChange, TechniqueEffect, TechniquesReport
from sizing.questions.techniques.request import TechniquesRequest
from sizing.report import SizingReport, answer, find_layout
from sizing.scenario import Scenario
from sizing.training.run_length import learning_rate_factor
from sizing.training.techniques import Technique, techniques

FIGURES = (
    "training.gpu_state_bytes",
    "training.activation_bytes",
    "training.total_bytes",
    "training.fits",
    "training.bubble_fraction",
    "training.step.seconds",
    "host_memory.offloaded_bytes",
    "host_memory.fits",
    "offload.nvme_bytes",
    "gradient_compression.sent_bytes",
    "checkpoint.written_bytes",
    "layout.max_rank_bytes",
    "write.seconds",
    "write.stall_seconds",
    "restore.seconds",
    "shares.useful_fraction",
    "run_length.num_steps",
    "run_length.num_checkpoints",
    "run_length.wall_seconds",
)
"""What a technique may move of a report, by dotted path: memory, the step, the checkpoint, the stall, the run."""


def answer_techniques(request: TechniquesRequest) -> TechniquesReport:
    """Answer a TechniquesRequest: of each technique the difference of two answers.

    Raises InvalidInput where the scenario itself has no answer, and for a name that no technique has.

    >>> from sizing.questions.registry import TECHNIQUES
    >>> from sizing.questions.techniques.request import REFERENCE_TECHNIQUES
    >>> report = TECHNIQUES.answer(REFERENCE_TECHNIQUES | {"kinds": ["low-precision-optimizer"]})
    >>> [(each.name, each.change) for each in report.techniques if each.reason is None][0]
    ('8-bit Adam', {'training.optimizer': 'adam-8bit'})
    """
    found_layout = find_layout(request.scenario)
    scenario, before = found_layout.scenario, found_layout.answer()
    rows = {row.name: row for row in techniques()}
    for number, name in enumerate(request.names):
        if name not in rows:
            raise unknown_name(f"names.{number}", name, known=rows, otherwise="the catalog of techniques lists all")
    named = [row for name, row in rows.items() if name in (request.names or rows)]
    wanted = [row for row in named if not request.kinds or row.kind in request.kinds]
    return TechniquesReport(
        model=before.model.name,
        num_gpus=before.layout.num_gpus,
        techniques=[_try_technique(row, scenario, before) for row in wanted],
        warnings=found_layout.warnings,
    )


def _try_technique(row: Technique, scenario: Scenario, before: SizingReport) -> TechniqueEffect:
    """Try one technique: what applies it and the figures that it moves, or why it does not apply."""
    fields: dict[str, JsonValue] = {}
    effects: list[FigureChange] = []
    plan = reason = None
    outcome = SCENARIO_TECHNIQUES[row.name].apply(scenario)
    if isinstance(outcome, str):
        reason = outcome
    elif isinstance(outcome, PlanFigures):
        plan, effects = outcome.plan, _list_planned_changes(outcome, before)
    elif isinstance(outcome, Balance):
        effects = [FigureChange(figure=name, before=one, after=other) for name, one, other in outcome.figures]
        fields = outcome.fields
    else:
        try:
            effects = [
                *_list_differences(before, answer(outcome.scenario)),
                *_list_learning_rate(scenario, outcome.scenario),
            ]
            fields = outcome.fields
        except InvalidInput as error:
            reason = str(error)
    return TechniqueEffect(
        name=row.name, kind=row.kind, source=row.source, change=fields, plan=plan, reason=reason, effects=effects
    )


def _list_learning_rate(before: Scenario, after: Scenario) -> Iterator[FigureChange]:
    """List by how much the learning rate grows with the batch, where a technique changes that."""
    batches = [each.training.global_batch_size for each in (before, after)]
    if batches[0] is None or batches[1] is None or batches[0] == batches[1]:
        return
    length = before.training.sequence_length or 1
    critical = before.training.critical_batch_tokens
    factor = learning_rate_factor(length * batches[0], length * batches[1], critical_batch_tokens=critical)
    yield FigureChange(figure="learning_rate.factor", before=1.0, after=factor)


def _list_planned_changes(plan: PlanFigures, before: SizingReport) -> list[FigureChange]:
    extra = "rematerialization.extra_compute_fraction"
    return [
        FigureChange(figure="training.total_bytes", before=before.training.total_bytes, after=plan.total_bytes),
        FigureChange(figure=extra, before=plan.extra_before, after=plan.extra_compute_fraction),
    ]


def _list_differences(before: SizingReport, after: SizingReport) -> Iterator[FigureChange]:
    for figure in FIGURES:
        values = [value_at(report, figure) for report in (before, after)]
        # What is not there and what is nothing look alike to a reader.
        if (values[0] or 0.0) != (values[1] or 0.0):
            yield FigureChange(figure=figure, before=values[0], after=values[1])
