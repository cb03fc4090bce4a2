"""Answer of a comparison: which inputs and figures differ, and which input makes which difference."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sizing.errors import InvalidInput
from sizing.field_paths import flattened, holds_blocks, value_at
from sizing.layout.degrees import DEGREES
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
from sizing.scenario import NUM_GPUS, Scenario, scenario_from
from sizing.storage.storage import STORAGE_WAYS

_TOGETHER = dict.fromkeys([*(f"parallelism.{degree}" for degree in DEGREES), NUM_GPUS], "layout") | dict.fromkeys(
    [f"storage.{way}" for way in STORAGE_WAYS], "storage"
)
"""What changes in one step, by path: the degrees of a layout, of which nobody runs some with those of another, and
another way to state the storage, as a run without one has no times."""
LISTED_TENSORS = "model.tensors"
"""A list of hundreds of blocks, of which none means anything alone."""


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
        if any(path.startswith(f"{name}.") for fields in effective for path in fields):
            continue  # a block: its own fields say how it differs
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
    """Change inputs one after the other; those that have no answer alone come last, with what they need."""
    before, changed = answer(start), start
    inputs = list_changes_to_make(start, end, names)
    changes: dict[str, list[str]] = {}
    for path in inputs:
        changes.setdefault(_TOGETHER.get(path, path), []).append(path)
    pending = list(changes.values())
    while pending:
        is_any_made = False
        for together in list_combinations(pending):
            if is_any_made and len(together) > 1:
                break  # what stands alone now needs no other
            paths = [path for each in together for path in each]
            try:
                tried = end if len(together) == len(pending) else copy_fields(changed, end, paths)
                after = answer(tried)
            except InvalidInput:
                continue
            yield Step(
                inputs=[name for path in paths for name in inputs[path]], changes=list(_list_changes(before, after))
            )
            before, changed, is_any_made = after, tried, True
            pending = [each for each in pending if each not in together]


def list_combinations(changes: Sequence[list[str]]) -> Iterator[Sequence[list[str]]]:
    """Yield which changes to make together, the fewest first: each alone, each two, and the first of three or more."""
    yield from ([change] for change in changes)
    yield from itertools.combinations(changes, 2)
    yield from (changes[:number] for number in range(3, len(changes) + 1))


def list_changes_to_make(start: Scenario, end: Scenario, names: Iterable[str]) -> dict[str, list[str]]:
    """List the least that can change from one scenario to another, by path, with the fields that differ in each.

    A block that only one of them has is a change of its own, and so is a list of blocks that is longer in one of them:
    nobody runs a part of it.

    >>> start = scenario_from({"model": {"preset": "gpt2"}, "checkpoint": {"mode": "async"}})
    >>> end = scenario_from({"model": {"preset": "gpt2"}, "checkpoint": {"export": {"every": 2}}})
    >>> changes = list_changes_to_make(start, end, find_differing_fields([start, end]))
    >>> list(changes), changes["checkpoint.export"][:2]
    (['checkpoint.mode', 'checkpoint.export'], ['checkpoint.export.every', 'checkpoint.export.format'])
    """
    changes: dict[str, list[str]] = {}
    effective = [list_effective_fields(scenario) for scenario in (start, end)]
    for name in names:
        if differ(*(fields.get(name) for fields in effective)):
            parts = name.split(".")
            blocks = (".".join(parts[:number]) for number in range(1, len(parts)))
            wholes = (path for path in blocks if not can_change_in_part(value_at(start, path), value_at(end, path)))
            changes.setdefault(next(wholes, name), []).append(name)
    return changes


def can_change_in_part(one: object, other: object) -> bool:
    """Whether both scenarios have a block, or as many of a list, so that one part of it can change alone."""
    if isinstance(one, Sequence) and isinstance(other, Sequence):
        return len(one) == len(other)
    return (one is None) == (other is None)


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
    """List every field by its dotted path, defaults included. A list of a quoted config, no tuple, is one value."""
    fields = flattened(
        scenario.model_dump(),
        opens=lambda path, items: isinstance(items, tuple) and path != LISTED_TENSORS and holds_blocks(path, items),
    )
    return {path: None if value == () else value for path, value in fields}


def copy_fields(scenario: Scenario, other: Scenario, paths: Iterable[str]) -> Scenario:
    """Copy some fields or blocks of another scenario into one: given alike, or left to their default.

    Raises InvalidInput where the fields do not go together.
    """
    document = copy.deepcopy(scenario.model_dump(exclude_unset=True))
    other_document = other.model_dump(exclude_unset=True)
    for path in paths:
        _set(document, path.split("."), value_at(other_document, path, missing=_LEFT_OUT))
    return scenario_from(document)


_LEFT_OUT = object()


def _set(document: Any, path: Sequence[str], value: object) -> None:
    """Set a field or a block, or take out one that is left out, and a block with it that is left empty."""
    first, *rest = path
    if isinstance(document, tuple):
        _set(document[int(first)], rest, value)
    elif rest:
        block = document.get(first)
        document[first] = block if isinstance(block, dict | tuple) else {}
        _set(document[first], rest, value)
        if not document[first]:
            del document[first]
    elif value is _LEFT_OUT:
        document.pop(first, None)
    else:
        document[first] = value
