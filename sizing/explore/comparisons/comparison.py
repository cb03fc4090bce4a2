"""From scenarios to a ComparisonReport."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from sizing.errors import InvalidInput
from sizing.explore.comparisons.comparison_report import (
    ComparisonReport,
    Explanation,
    FigureRow,
    InputDifference,
    Step,
    StepChange,
)
from sizing.explore.comparisons.comparison_request import ComparisonRequest, NamedScenario, comparison_request_from
from sizing.explore.comparisons.inputs import differing_fields, effective_fields, with_fields_of
from sizing.report import SizingReport, answer, laid_out
from sizing.scenario import Scenario

_ROUNDING = 1e-9
"""Figures of equal inputs agree to some 1e-13; what differs by less than this was not changed."""

COMPARED_FIGURES = (
    "model.num_parameters",
    "checkpoint.total_bytes",
    "checkpoint.written_bytes",
    "checkpoint.num_files",
    "layout.num_gpus",
    "layout.num_nodes",
    "layout.num_writers",
    "layout.max_rank_bytes",
    "training.gpu_state_bytes",
    "training.total_bytes",
    "training.bubble_fraction",
    "write.seconds",
    "write.stall_seconds",
    "write.drain_seconds",
    "write.bytes_per_second",
    "write.bottleneck",
    "restore.read_bytes",
    "restore.seconds",
    "restore.bottleneck",
    "overhead.fraction",
    "overhead.rework_fraction",
    "interval.mtbf_seconds",
    "interval.goodput_at_interval_fraction",
    "interval.optimal_period_seconds",
    "interval.goodput_at_optimum_fraction",
    "recovery.recovery_seconds",
    "recovery.available_fraction",
    "recovery.num_spare_gpus",
    "required.write_bytes_per_second",
    "required.restore_bytes_per_second",
    "capacity.capacity_bytes",
    "capacity.written_bytes_per_day",
    "cost.total",
)


def compare(document: object) -> ComparisonReport:
    """The ComparisonReport of a parsed ComparisonRequest document.

    Raises InvalidInput where the document breaks a rule or a scenario has no answer.
    """
    return comparison_of(comparison_request_from(document))


def comparison_of(request: ComparisonRequest) -> ComparisonReport:
    """The ComparisonReport of a ComparisonRequest.

    Raises InvalidInput where a scenario has no answer.
    """
    named = request.scenarios
    found = [_found(each, place) for place, each in enumerate(named)]
    scenarios, reports = [scenario for scenario, _ in found], [report for _, report in found]
    names = differing_fields(scenarios)
    differences = list(_differences(names, scenarios, reports))
    return ComparisonReport(
        names=[each.name for each in named],
        inputs=[each for each in differences if each.field in names],
        assumed=[each for each in differences if each.field not in names],
        figures=[_row(figure, reports) for figure in COMPARED_FIGURES],
        explanations=[
            Explanation(name=each.name, steps=list(_steps(scenarios[0], scenario, names)))
            for each, scenario in zip(named[1:], scenarios[1:], strict=True)
        ],
        targets=[report.targets for report in reports],
        cannot_run=[report.training.cannot_run for report in reports],
        headlines=[report.headline for report in reports],
        guesses=[report.guesses for report in reports],
        warnings=[report.warnings for report in reports],
    )


def _found(named: NamedScenario, place: int) -> tuple[Scenario, SizingReport]:
    """A scenario with all its degrees, and its answer."""
    try:
        asked = laid_out(named.scenario)
        return asked.scenario, answer(asked.scenario, assumed=asked.assumed, nothing_fits=asked.nothing_fits)
    except InvalidInput as error:
        raise error.within(f"scenarios.{place}.scenario") from None


def _differences(
    names: Sequence[str], scenarios: Sequence[Scenario], reports: Sequence[SizingReport]
) -> Iterator[InputDifference]:
    """The fields that differ, and those left open for which other values are assumed."""
    effective = [effective_fields(scenario) for scenario in scenarios]
    assumed = [{each.field: each.value for each in report.assumptions} for report in reports]
    for name in dict.fromkeys([*names, *(name for values in assumed for name in values)]):
        values = [
            fields[name] if fields.get(name) is not None else open_values.get(name)
            for fields, open_values in zip(effective, assumed, strict=True)
        ]
        if name in names or any(value != values[0] for value in values):
            yield InputDifference(field=name, values=values, assumed=[name in open_values for open_values in assumed])


def _row(figure: str, reports: Sequence[SizingReport]) -> FigureRow:
    values = [_figure(report, figure) for report in reports]
    return FigureRow(
        figure=figure,
        values=values,
        ratios=[_ratio(value, values[0]) for value in values],
        differs=any(differ(values[0], value) for value in values),
    )


def _figure(report: SizingReport, figure: str) -> Any:
    block, field = figure.split(".")
    return getattr(getattr(report, block), field, None)


def _ratio(value: Any, first: Any) -> float | None:
    if not isinstance(value, int | float) or not isinstance(first, int | float) or first == 0:
        return None
    return value / first


def _steps(start: Scenario, end: Scenario, names: Sequence[str]) -> Iterator[Step]:
    """Inputs changed one after the other; what has no answer alone is changed together with the next."""
    before, changed, waiting = answer(start), start, []
    effective, wanted = effective_fields(start), effective_fields(end)
    for name in names:
        if effective.get(name) == wanted.get(name):
            continue
        waiting.append(name)
        try:
            tried = with_fields_of(changed, end, waiting)
            after = answer(tried)
        except InvalidInput:
            continue
        yield Step(inputs=list(waiting), changes=list(_changes(before, after)))
        before, changed, waiting = after, tried, []
    if waiting:
        yield Step(inputs=waiting, changes=list(_changes(before, answer(end))))


def _changes(before: SizingReport, after: SizingReport) -> Iterator[StepChange]:
    for figure in COMPARED_FIGURES:
        values = _figure(before, figure), _figure(after, figure)
        if differ(*values):
            yield StepChange(figure=figure, before=values[0], after=values[1])


def differ(one: Any, other: Any) -> bool:
    """Whether values of a figure differ by more than rounding.

    >>> differ(0.1 + 0.2, 0.3), differ(1, 2)
    (False, True)
    """
    if isinstance(one, float) and isinstance(other, float):
        return not math.isclose(one, other, rel_tol=_ROUNDING)
    return bool(one != other)
