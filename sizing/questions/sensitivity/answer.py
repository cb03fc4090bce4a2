"""Answer of a sensitivity analysis: how far each input alone moves the headline figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from sizing.guesses.alternatives import alternatives_of
from sizing.guesses.figures import figures_as_reported, headline_of
from sizing.guesses.guess import Headline, InputSwing
from sizing.guesses.rows import VariedRow, answer_group, extremes, groups_of
from sizing.questions.sensitivity.request import SensitivityReport, SensitivityRequest
from sizing.questions.sensitivity.varied import (
    VariedChoice,
    VariedNumber,
    list_varied_choices,
    list_varied_numbers,
    with_rates_in_profile,
)
from sizing.report import find_layout
from sizing.run.evaluation import evaluate
from sizing.scenario import Scenario
from sizing.sized_layout import SizedLayout, size_layout


def answer_sensitivity(request: SensitivityRequest) -> SensitivityReport:
    """Answer a SensitivityRequest. Raises InvalidInput where the scenario has no answer.

    >>> from sizing.questions.registry import SENSITIVITY
    >>> from sizing.questions.sensitivity.request import REFERENCE_SENSITIVITY
    >>> first = SENSITIVITY.answer(REFERENCE_SENSITIVITY).inputs[0]
    >>> first.field, round(first.headline_low, 4), round(first.headline_high, 4)
    ('checkpoint.interval_seconds', 0.0531, 0.1965)
    """
    found_layout = find_layout(request.scenario)
    scenario = with_rates_in_profile(found_layout.scenario)
    layout = size_layout(scenario)
    run = evaluate(layout.workload, scenario.run_inputs).report
    figures = figures_as_reported(run, layout.workload)
    headline = headline_of(figures, run)
    numbers, choices = list(list_varied_numbers(request, scenario)), list(list_varied_choices(scenario))
    rows: dict[str, list[VariedRow]] = {}
    for row in _answer_variations(scenario, layout, numbers, choices, figures=figures, headline=headline):
        rows.setdefault(row.field, []).append(row)
    swings = [*_list_number_swings(numbers, rows, headline), *_list_choice_swings(choices, rows, headline)]
    no_swings = [] if swings else ["No given input moves the headline. Give storage rates and reliability"]
    return SensitivityReport(
        headline=headline,
        inputs=sorted(swings, key=lambda swing: -swing.span(headline.value)),
        warnings=[*found_layout.warnings, *no_swings],
    )


def _answer_variations(
    scenario: Scenario,
    layout: SizedLayout,
    numbers: Sequence[VariedNumber],
    choices: Sequence[VariedChoice],
    *,
    figures: Mapping[str, float],
    headline: Headline,
) -> Iterator[VariedRow]:
    ends = {number.field: number.ends for number in numbers}
    arrays = tuple(number.field for number in numbers if number.is_array)
    checkpoint_layout = list(alternatives_of(scenario, layout, _list_values_for_layouts(numbers, choices)))
    inputs = scenario.run_inputs
    for group in groups_of(scenario.checkpoint, layout.workload, arrays, checkpoint_layout):
        yield from answer_group(inputs, group, ends, own=layout.workload, figures=figures, headline=headline.figure)


def _list_values_for_layouts(
    numbers: Sequence[VariedNumber], choices: Sequence[VariedChoice]
) -> Iterator[tuple[str, JsonValue]]:
    """List the values that need a layout of their own, by field."""
    for number in numbers:
        if not number.is_array:
            yield from ((number.field, end) for end in number.ends)
    for choice in choices:
        yield from ((choice.field, other) for other in choice.others)


def _list_number_swings(
    numbers: Sequence[VariedNumber], rows: Mapping[str, Sequence[VariedRow]], headline: Headline
) -> Iterator[InputSwing]:
    for number in numbers:
        given = _answer_as_given(number.field, number.given, headline)
        by_value = {row.value: row for row in rows.get(number.field, ())}
        low, high = (by_value.get(end, given) for end in number.ends)
        if number.is_asked or low.moves_from(headline.value) or high.moves_from(headline.value):
            yield _make_swing(low, high, number.given, number.source)


def _list_choice_swings(
    choices: Sequence[VariedChoice], rows: Mapping[str, Sequence[VariedRow]], headline: Headline
) -> Iterator[InputSwing]:
    for choice in choices:
        given = _answer_as_given(choice.field, choice.given, headline)
        low, high = extremes(given, rows.get(choice.field, ()))
        if low.moves_from(headline.value) or high.moves_from(headline.value):
            yield _make_swing(low, high, choice.given, choice.source)


def _answer_as_given(field: str, value: JsonValue, headline: Headline) -> VariedRow:
    return VariedRow(field, value, headline.value)


def _make_swing(low: VariedRow, high: VariedRow, given: JsonValue, source: str) -> InputSwing:
    return InputSwing(
        field=low.field,
        given=given,
        low=low.value,
        high=high.value,
        headline_low=low.headline,
        headline_high=high.headline,
        source=source,
    )
