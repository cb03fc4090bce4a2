"""The values that nobody stated, by how far their ranges move the answer."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.guesses.alternatives import MAX_KINDS_OF_RANKS, alternatives_of, choices_among, values_of
from sizing.guesses.fields import with_field
from sizing.guesses.figures import figures_as_reported, headline_of
from sizing.guesses.guess import Guess, Headline
from sizing.guesses.rows import Answered, Group, answered, extremes, groups_of, has_block, number_at
from sizing.provenance import Assumption
from sizing.ranges import plausible_choices, plausible_ranges
from sizing.run.evaluation import RunInputs, RunReport
from sizing.run.targets import TargetCheck
from sizing.scenario import Scenario, scenario_from
from sizing.sized import LAYOUTS_KEPT, SizedLayout


@dataclass(frozen=True, slots=True)
class Weighed:
    """The headline of an answer, and every assumption that moves it within its plausible range, the largest first.

    `missed_with`: for each target the values with which it is missed, by the field of the guess.
    """

    headline: Headline
    guesses: list[Guess]
    missed_with: Mapping[str, Mapping[str, list[JsonValue]]]

    def held(self, checks: Iterable[TargetCheck]) -> list[TargetCheck]:
        """Targets, those that are met with what would miss them."""
        return [
            check.model_copy(update={"met_at_range_ends": not missed, "missed_with": missed}) if check.met else check
            for check, missed in ((check, dict(self.missed_with.get(check.target, {}))) for check in checks)
        ]


def guesses_of(
    scenario: Scenario, asked: SizedLayout, inputs: RunInputs, run: RunReport, assumptions: Sequence[Assumption]
) -> Weighed:
    """What the assumptions of an answer do to it within their plausible ranges."""
    figures = figures_as_reported(run, asked.demands)
    headline = headline_of(figures, run)
    assumed = {assumption.field: assumption.value for assumption in assumptions}
    rows: dict[str, list[Answered]] = {}
    for row in _answered(scenario, asked, inputs, assumed, figures=figures, headline=headline):
        rows.setdefault(row.field, []).append(row)
    moving = (each for each in rows.values() if any(row.moves_from(headline.value) for row in each))
    guesses = [_guess(assumed[each[0].field], each, headline, figures) for each in moving]
    guesses.sort(key=lambda guess: -guess.span(headline.value))
    return Weighed(headline, guesses, _missed_with(row for each in rows.values() for row in each))


def _missed_with(rows: Iterable[Answered]) -> dict[str, dict[str, list[JsonValue]]]:
    found: dict[str, dict[str, list[JsonValue]]] = {}
    for row in rows:
        for target in row.missed:
            found.setdefault(target, {}).setdefault(row.field, []).append(row.value)
    return found


def guess_warnings(asked: SizedLayout, assumptions: Sequence[Assumption]) -> Iterator[str]:
    """Choices whose alternatives are not answered."""
    num_kinds = len(asked.laid_out.cells)
    if num_kinds > MAX_KINDS_OF_RANKS:
        names = ", ".join(choice.field for choice in choices_among({each.field for each in assumptions}))
        yield (f"The layout has {num_kinds:,} kinds of ranks: too many to answer alternatives of {names}")


@dataclass(frozen=True, slots=True)
class _Question:
    """What to vary in a scenario, found again by the text of what decides its layout."""

    text: str
    numbers: tuple[str, ...]
    choices: tuple[str, ...]
    scenario: Scenario = field(compare=False)
    asked: SizedLayout = field(compare=False)
    assumed: Mapping[str, JsonValue] = field(compare=False)


def _answered(
    scenario: Scenario,
    asked: SizedLayout,
    inputs: RunInputs,
    assumed: Mapping[str, JsonValue],
    *,
    figures: Mapping[str, float],
    headline: Headline,
) -> Iterator[Answered]:
    """Both ends of each range and the alternatives of each choice that have an answer."""
    ends = ends_of_assumed(scenario, inputs, assumed)
    numbers = tuple(name for name in ends if number_at(inputs, name) is not None)
    choices = tuple(choice.field for choice in choices_among(assumed))
    groups = [
        *_groups(_Question(asked.text, numbers, choices, scenario, asked, assumed)),
        # What follows from the layout where it is not given varies by itself: elsewhere each layout has its own.
        *(Group(scenario.checkpoint.mode, (name,), (), asked.demands) for name in ends if name not in numbers),
    ]
    for group in groups:
        yield from answered(inputs, group, ends, figures=figures, headline=headline.figure)


@functools.lru_cache(maxsize=LAYOUTS_KEPT)
def _groups(question: _Question) -> tuple[Group, ...]:
    """The rows to answer; kept for the last layouts, as each alternative is laid out."""
    scenario, asked = question.scenario, question.asked
    choices = choices_among(question.choices) if len(asked.laid_out.cells) <= MAX_KINDS_OF_RANKS else []
    others = (
        (choice.field, value)
        for choice in choices
        for value in values_of(choice)
        if value != question.assumed[choice.field]
    )
    found = alternatives_of(scenario, asked, others)
    return tuple(groups_of(scenario.checkpoint, asked.demands, question.numbers, found))


def ends_of_assumed(
    scenario: Scenario, inputs: RunInputs, assumed: Mapping[str, JsonValue]
) -> dict[str, tuple[float, float]]:
    """Both ends of each number that was assumed; what was assumed in place of an end that the scenario cannot have."""
    found = {}
    for name, plausible in plausible_ranges().items():
        value = assumed.get(name)
        if isinstance(value, int | float) and has_block(inputs, name):
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


def _guess(assumed: JsonValue, rows: Sequence[Answered], headline: Headline, figures: Iterable[str]) -> Guess:
    """The guess of a field: the ends of a range in their order; of a choice those with the min and the max headline."""
    name = rows[0].field
    plausible = plausible_ranges().get(name)
    if plausible is not None:
        low, high = rows[0], rows[-1]
    else:
        low, high = extremes(Answered(name, assumed, headline.value), rows)
    return Guess(
        field=name,
        assumed=assumed,
        low=low.value,
        high=high.value,
        headline_low=low.headline,
        headline_high=high.headline,
        source=(plausible or plausible_choices()[name]).source,
        moves=[path for path, *wide in zip(figures, *(row.is_wide for row in rows), strict=True) if any(wide)],
    )
