"""The values that nobody stated, by how far their ranges move the answer."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.guesses.alternatives import (
    Alternative,
    alternatives_of,
    choices_among,
    choices_to_try,
    too_many_kinds_of_ranks,
)
from sizing.guesses.fields import with_field
from sizing.guesses.figures import figures_as_reported, headline_of
from sizing.guesses.guess import WIDE_FRACTION, Guess, Headline
from sizing.guesses.rows import (
    Group,
    Row,
    figures_at_ends,
    figures_of_group,
    groups_of,
    profile_in_scenario,
    value_at,
)
from sizing.provenance import Assumption
from sizing.ranges import plausible_choices, plausible_ranges
from sizing.run.demands.demands import Demands
from sizing.run.evaluation import RunReport
from sizing.scenario import Scenario, scenario_from
from sizing.sized import LAYOUTS_KEPT, layout_text, sized

_ROUNDING = 1e-9
"""Of a figure: what moves it by less does not move it."""

Answered = tuple[JsonValue, Row]
"""A value of an input, and the figures with it."""


def guesses_of(
    scenario: Scenario, run: RunReport, demands: Demands, assumptions: Sequence[Assumption]
) -> tuple[Headline, list[Guess]]:
    """The headline of an answer, and every assumption that moves it within its plausible range, the largest first."""
    figures = figures_as_reported(run, demands)
    headline = headline_of(figures)
    assumed = {assumption.field: assumption.value for assumption in assumptions}
    found = [
        guess
        for field, answered in _answered(scenario, demands, assumed).items()
        if (guess := _guess(field, assumed[field], answered, figures, headline.figure)) is not None
    ]
    moving = [guess for guess in found if guess.span(headline.value) > _ROUNDING * abs(headline.value)]
    return headline, sorted(moving, key=lambda guess: -guess.span(headline.value))


def guess_warnings(scenario: Scenario, assumptions: Sequence[Assumption]) -> Iterator[str]:
    """Choices whose alternatives are not answered."""
    choices = choices_among({assumption.field for assumption in assumptions})
    if choices and (num_kinds := too_many_kinds_of_ranks(scenario)):
        names = ", ".join(choice.field for choice in choices)
        yield (
            f"The layout has {num_kinds:,} kinds of ranks, so the alternatives of what was assumed for {names} are not "
            "answered. Give these fields"
        )


def _answered(scenario: Scenario, demands: Demands, assumed: Mapping[str, JsonValue]) -> dict[str, list[Answered]]:
    """Both ends of each range and the alternatives of each choice, with their figures."""
    ends = _ends(scenario, assumed)
    with_profile = profile_in_scenario(scenario)
    numbers = tuple(name for name in ends if value_at(with_profile, name) is not None)
    found: dict[str, list[Answered]] = {
        name: list(zip(ends[name], figures_at_ends(with_profile, demands, name, ends[name]), strict=True))
        for name in ends.keys() - set(numbers)
    }
    question = _Question(
        layout_text(scenario), numbers, tuple(name for name in plausible_choices() if name in assumed), scenario
    )
    for group in _groups(question):
        pairs, rows = figures_of_group(with_profile, group, ends)
        for name, pair in pairs.items():
            found[name] = list(zip(ends[name], pair, strict=True))
        for each, row in zip(group.alternatives, rows, strict=True):
            found.setdefault(each.field, []).append((each.value, row))
    return found


@dataclass(frozen=True, slots=True)
class _Question:
    """What to vary in a scenario, found again by the text of what decides its layout."""

    text: str
    numbers: tuple[str, ...]
    choices: tuple[str, ...]
    scenario: Scenario = field(compare=False)


@functools.lru_cache(maxsize=LAYOUTS_KEPT)
def _groups(question: _Question) -> tuple[Group, ...]:
    """The rows to answer; kept for the last layouts, as each alternative is laid out."""
    scenario = question.scenario
    demands = sized(scenario).demands
    return tuple(groups_of(scenario, demands, question.numbers, _alternatives(scenario, question.choices)))


def _alternatives(scenario: Scenario, fields: tuple[str, ...]) -> Iterator[Alternative]:
    for choice in choices_among(set(fields)):
        yield from alternatives_of(scenario, choice.field, choices_to_try(scenario, choice))


def _ends(scenario: Scenario, assumed: Mapping[str, JsonValue]) -> dict[str, tuple[float, float]]:
    """Both ends of each number that was assumed; what was assumed in place of an end that the scenario cannot have."""
    found = {}
    for name, plausible in plausible_ranges().items():
        value = assumed.get(name)
        if isinstance(value, int | float):
            low, high = plausible.ends(value)
            found[name] = (_allowed(scenario, name, low, value), _allowed(scenario, name, high, value))
    return found


def _allowed(scenario: Scenario, name: str, end: float, value: float) -> float:
    """An end, unless the intervals of tiers, the only rule that these numbers can break, forbid it."""
    if not scenario.checkpoint.tiers:
        return end
    try:
        scenario_from(with_field(scenario.model_dump(exclude_unset=True), name, end))
    except InvalidInput:
        return value
    return end


def _guess(
    name: str, assumed: JsonValue, answered: Sequence[Answered], figures: Mapping[str, float], headline: str
) -> Guess | None:
    """The guess of a field, from its values with an answer; the ends of a range keep their order."""
    known = [each for each in answered if headline in each[1]]
    if not known:
        return None
    plausible = plausible_ranges().get(name)
    if plausible is not None:
        low, high = known[0], known[-1]
    else:
        low, high = _extremes([(assumed, dict(figures)), *known], headline)
    return Guess(
        field=name,
        assumed=assumed,
        low=low[0],
        high=high[0],
        headline_low=low[1][headline],
        headline_high=high[1][headline],
        source=(plausible or plausible_choices()[name]).source,
        moves=[path for path, value in figures.items() if _is_wide(path, value, known)],
    )


def _extremes(answered: Sequence[Answered], headline: str) -> tuple[Answered, Answered]:
    """Those with the min and the max headline."""
    by_headline = sorted(answered, key=lambda each: each[1][headline])
    return by_headline[0], by_headline[-1]


def _is_wide(path: str, value: float, answered: Sequence[Answered]) -> bool:
    values = [value, *(row[path] for _, row in answered if path in row)]
    return max(values) - min(values) > WIDE_FRACTION * abs(value)
