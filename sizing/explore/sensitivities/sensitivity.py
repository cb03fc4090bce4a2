"""From a SensitivityRequest to its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.explore.sensitivities.sensitivity_request import SensitivityRequest, sensitivity_request_from
from sizing.explore.sensitivities.varied import (
    VariedChoice,
    VariedNumber,
    varied_choices,
    varied_numbers,
    with_rates_in_profile,
)
from sizing.guesses.alternatives import alternatives_of
from sizing.guesses.figures import figures_as_reported, headline_of
from sizing.guesses.guess import Headline, InputSwing
from sizing.guesses.rows import Answered, answered, extremes, groups_of
from sizing.report import laid_out
from sizing.run.evaluation import evaluate
from sizing.scenario import Scenario
from sizing.sized import SizedLayout, sized


def sensitivity(document: object) -> SensitivityReport:
    """The SensitivityReport of a parsed document: a SensitivityRequest, or a scenario alone.

    Raises InvalidInput where the document breaks a rule or the scenario has no answer.
    """
    return sensitivity_of(sensitivity_request_from(document))


def sensitivity_of(request: SensitivityRequest) -> SensitivityReport:
    """The SensitivityReport of a SensitivityRequest.

    >>> from sizing.explore.sensitivities.sensitivity_request import REFERENCE_SENSITIVITY
    >>> found = sensitivity(REFERENCE_SENSITIVITY)
    >>> found.inputs[0].field, round(found.inputs[0].headline_low, 4), round(found.inputs[0].headline_high, 4)
    ('checkpoint.interval_seconds', 0.0531, 0.1965)
    """
    found_layout = laid_out(request.scenario)
    scenario = with_rates_in_profile(found_layout.scenario)
    asked = sized(scenario)
    run = evaluate(asked.demands, scenario.run_inputs).report
    figures = figures_as_reported(run, asked.demands)
    headline = headline_of(figures, run)
    numbers, choices = list(varied_numbers(request, scenario)), list(varied_choices(scenario))
    rows: dict[str, list[Answered]] = {}
    for row in _answered(scenario, asked, numbers, choices, figures=figures, headline=headline):
        rows.setdefault(row.field, []).append(row)
    swings = [*_of_numbers(numbers, rows, headline), *_of_choices(choices, rows, headline)]
    return SensitivityReport(
        headline=headline,
        inputs=sorted(swings, key=lambda swing: -swing.span(headline.value)),
        warnings=[*found_layout.warnings, *_warnings(swings)],
    )


def _answered(
    scenario: Scenario,
    asked: SizedLayout,
    numbers: Sequence[VariedNumber],
    choices: Sequence[VariedChoice],
    *,
    figures: Mapping[str, float],
    headline: Headline,
) -> Iterator[Answered]:
    ends = {number.field: number.ends for number in numbers}
    arrays = tuple(number.field for number in numbers if number.is_array)
    laid_out = list(alternatives_of(scenario, asked, _laid_out(numbers, choices)))
    inputs = scenario.run_inputs
    for group in groups_of(scenario.checkpoint, asked.demands, arrays, laid_out):
        yield from answered(inputs, group, ends, figures=figures, headline=headline.figure)


def _laid_out(numbers: Sequence[VariedNumber], choices: Sequence[VariedChoice]) -> Iterator[tuple[str, JsonValue]]:
    """What needs a layout of its own."""
    for number in numbers:
        if not number.is_array:
            yield from ((number.field, end) for end in number.ends)
    for choice in choices:
        yield from ((choice.field, other) for other in choice.others)


def _of_numbers(
    numbers: Sequence[VariedNumber], rows: Mapping[str, Sequence[Answered]], headline: Headline
) -> Iterator[InputSwing]:
    for number in numbers:
        given = _as_given(number.field, number.given, headline)
        by_value = {row.value: row for row in rows.get(number.field, ())}
        low, high = (by_value.get(end, given) for end in number.ends)
        if number.is_asked or low.moves_from(headline.value) or high.moves_from(headline.value):
            yield _swing(low, high, number.given, number.source)


def _of_choices(
    choices: Sequence[VariedChoice], rows: Mapping[str, Sequence[Answered]], headline: Headline
) -> Iterator[InputSwing]:
    for choice in choices:
        given = _as_given(choice.field, choice.given, headline)
        low, high = extremes(given, rows.get(choice.field, ()))
        if low.moves_from(headline.value) or high.moves_from(headline.value):
            yield _swing(low, high, choice.given, choice.source)


def _as_given(field: str, value: JsonValue, headline: Headline) -> Answered:
    return Answered(field, value, headline.value)


def _swing(low: Answered, high: Answered, given: JsonValue, source: str) -> InputSwing:
    return InputSwing(
        field=low.field,
        given=given,
        low=low.value,
        high=high.value,
        headline_low=low.headline,
        headline_high=high.headline,
        source=source,
    )


def _warnings(swings: Sequence[InputSwing]) -> Iterator[str]:
    if not swings:
        yield "No given input moves the headline. Give storage rates and reliability"
