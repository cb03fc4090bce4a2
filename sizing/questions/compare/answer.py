"""Answer of a comparison: which inputs and figures differ, and which input makes which difference."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sizing.errors import InvalidInput
from sizing.field_paths import value_at
from sizing.present.compared_figures import COMPARED_FIGURES, differ
from sizing.questions.compare.report import (
    ComparisonReport,
    Explanation,
    FigureRow,
    InputDifference,
    Step,
    StepChange,
)
from sizing.questions.compare.request import ComparisonRequest
from sizing.report import SizingReport, answer, find_layout
from sizing.scenario import Scenario, scenario_from


def answer_comparison(request: ComparisonRequest) -> ComparisonReport:
    """Answer a ComparisonRequest. Raises InvalidInput where a scenario has no answer."""
    named = request.scenarios
    scenarios: list[Scenario] = []
    reports: list[SizingReport] = []
    for place, each in enumerate(named):
        try:
            layout = find_layout(each.scenario)
            reports.append(layout.answer())
        except InvalidInput as error:
            raise error.within(f"scenarios.{place}.scenario") from None
        scenarios.append(layout.scenario)
    names = find_differing_fields(scenarios)
    differences = list(_list_differences(names, scenarios, reports))
    return ComparisonReport(
        names=[each.name for each in named],
        inputs=[each for each in differences if each.field in names],
        assumed=[each for each in differences if each.field not in names],
        figures=[_compare_figure(figure, reports) for figure in COMPARED_FIGURES],
        explanations=[
            Explanation(name=each.name, steps=list(_list_steps(scenarios[0], scenario, names)))
            for each, scenario in zip(named[1:], scenarios[1:], strict=True)
        ],
        targets=[report.targets for report in reports],
        cannot_run=[report.training.cannot_run for report in reports],
        headlines=[report.headline for report in reports],
        guesses=[report.guesses for report in reports],
        warnings=[report.warnings for report in reports],
    )


def _list_differences(
    names: Sequence[str], scenarios: Sequence[Scenario], reports: Sequence[SizingReport]
) -> Iterator[InputDifference]:
    """List the fields that differ, and those left open for which other values are assumed."""
    effective = [list_effective_fields(scenario) for scenario in scenarios]
    assumed = [{each.field: each.value for each in report.assumptions} for report in reports]
    for name in dict.fromkeys([*names, *(name for values in assumed for name in values)]):
        values = [
            fields[name] if fields.get(name) is not None else open_values.get(name)
            for fields, open_values in zip(effective, assumed, strict=True)
        ]
        if name in names or any(value != values[0] for value in values):
            yield InputDifference(field=name, values=values, assumed=[name in open_values for open_values in assumed])


def _compare_figure(figure: str, reports: Sequence[SizingReport]) -> FigureRow:
    first, *_ = values = [value_at(report, figure) for report in reports]
    has_ratios = isinstance(first, int | float) and first != 0
    return FigureRow(
        figure=figure,
        values=values,
        ratios=[value / first if has_ratios and isinstance(value, int | float) else None for value in values],
        differs=any(differ(first, value) for value in values),
    )


def _list_steps(start: Scenario, end: Scenario, names: Sequence[str]) -> Iterator[Step]:
    """Change inputs one after the other; what has no answer alone is changed together with the next."""
    before, changed, waiting = answer(start), start, []
    effective, wanted = list_effective_fields(start), list_effective_fields(end)
    for name in names:
        if effective.get(name) == wanted.get(name):
            continue
        waiting.append(name)
        try:
            tried = copy_fields(changed, end, waiting)
            after = answer(tried)
        except InvalidInput:
            continue
        yield Step(inputs=list(waiting), changes=list(_list_changes(before, after)))
        before, changed, waiting = after, tried, []
    if waiting:
        yield Step(inputs=waiting, changes=list(_list_changes(before, answer(end))))


def _list_changes(before: SizingReport, after: SizingReport) -> Iterator[StepChange]:
    for figure in COMPARED_FIGURES:
        values = value_at(before, figure), value_at(after, figure)
        if differ(*values):
            yield StepChange(figure=figure, before=values[0], after=values[1])


def find_differing_fields(scenarios: Sequence[Scenario]) -> list[str]:
    """Find, by dotted name, the fields whose values in effect are not the same in all scenarios, in their order."""
    flat = [list_effective_fields(scenario) for scenario in scenarios]
    names = dict.fromkeys(name for fields in flat for name in fields)
    return [name for name in names if any(fields.get(name) != flat[0].get(name) for fields in flat[1:])]


def list_effective_fields(scenario: Scenario) -> dict[str, Any]:
    """List every field by its dotted name, defaults included; lists are one value."""
    return dict(_flatten(scenario.model_dump(), ""))


def copy_fields(scenario: Scenario, other: Scenario, names: Iterable[str]) -> Scenario:
    """Copy some fields of another scenario into one: given alike, or left to their default.

    Raises InvalidInput where the fields do not go together.
    """
    document = copy.deepcopy(scenario.model_dump(exclude_unset=True))
    given = dict(_flatten(other.model_dump(exclude_unset=True), ""))
    for name in names:
        _set(document, name.split("."), given, name)
    return scenario_from(document)


def _flatten(block: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in block.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _set(document: dict[str, Any], path: Sequence[str], given: Mapping[str, Any], name: str) -> None:
    """Set a field as it is given, or take it out, and a block with it that is left empty."""
    first, *rest = path
    if not rest and name in given:
        document[first] = given[name]
    elif not rest:
        document.pop(first, None)
    else:
        block = document.get(first)
        document[first] = block if isinstance(block, dict) else {}
        _set(document[first], rest, given, name)
        if not document[first]:
            del document[first]
