"""Guesses of an answer, sorted by how far their ranges move it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.frameworks.registry import shipped_defaults
from sizing.guesses.alternatives import MAX_KINDS_OF_RANKS, alternatives_of, choices_among, values_of
from sizing.guesses.figures import BEST_INTERVAL, REQUIRED, figures_as_reported, headline_of
from sizing.guesses.guess import Guess, Headline
from sizing.guesses.rows import Group, VariedRow, answer_group, extremes, groups_of, has_block, number_at
from sizing.provenance import Assumption
from sizing.ranges import plausible_choices, plausible_ranges
from sizing.run.evaluation import RunInputs, RunReport
from sizing.run.targets import TargetCheck
from sizing.run.write import PLANNING
from sizing.scenario import INTERVAL, Scenario, scenario_from
from sizing.sized_layout import LAYOUTS_KEPT, SizedLayout, waits_for_largest


@dataclass(frozen=True, slots=True)
class WeighedGuesses:
    """Headline of an answer and every guess that moves it, or moves another figure widely, the largest swing first.

    `ranges`: what each figure that a guess moves widely becomes at least and at most, by its dotted path in the report;
    at most None for a rate that is required, where a guess has a value with which no rate is enough.
    `judged_with`: for each target, met or not, the values with which it is so, by the field of the guess.
    """

    headline: Headline
    guesses: list[Guess]
    ranges: dict[str, tuple[float, float | None]]
    judged_with: Mapping[tuple[str, bool], Mapping[str, list[JsonValue]]]

    def add_to(self, checks: Iterable[TargetCheck]) -> list[TargetCheck]:
        """Add to each target the guesses with which it would be missed where it is met, and met where it is missed."""
        complete = []
        for check in checks:
            others = {} if check.met is None else dict(self.judged_with.get((check.target, not check.met), {}))
            update = {"met_at_range_ends": not others, "missed_with": others} if check.met else {"met_with": others}
            complete.append(check.model_copy(update=update))
        return complete


def weigh_guesses(
    scenario: Scenario,
    layout: SizedLayout,
    inputs: RunInputs,
    run: RunReport,
    assumptions: Sequence[Assumption],
    *,
    progress: Callable[[float], None] | None = None,
) -> WeighedGuesses:
    """Weigh the assumptions of an answer: what each does to it within its plausible range.

    `progress` is told which fraction of the answer is done, as `alternatives_of` counts it.
    """
    figures = figures_as_reported(run, layout.workload)
    if scenario.checkpoint.front_tiers:  # whose best interval takes a search, which no other value is worth
        figures.pop(BEST_INTERVAL, None)
    headline = headline_of(figures, run)
    assumed = {assumption.field: assumption.value for assumption in assumptions}
    if scenario.times_interval:
        assumed.pop(INTERVAL, None)  # so many steps, of a time that is given or computed
    training = scenario.training
    for default in shipped_defaults(training.framework, trainer=training.trainer):
        if default.is_fixed:
            assumed.pop(default.field, None)
    rows: dict[str, list[VariedRow]] = {}
    judged_with: dict[tuple[str, bool], dict[str, list[JsonValue]]] = {}
    for row in _answer_rows(scenario, layout, inputs, assumed, figures=figures, headline=headline, progress=progress):
        rows.setdefault(row.field, []).append(row)
        for judged in row.met.items():
            judged_with.setdefault(judged, {}).setdefault(row.field, []).append(row.value)
    moving = [each for each in rows.values() if any(row.moves_from(headline.value) or any(row.is_wide) for row in each)]
    guesses = [_make_guess(assumed[each[0].field], each, headline, figures) for each in moving]
    guesses.sort(key=lambda guess: -guess.span(headline.value))
    wide = {path for guess in guesses for path in guess.moves}
    ranges = _find_ranges(figures, [row for each in moving for row in each], wide)
    return WeighedGuesses(headline, guesses, ranges, judged_with)


def _find_ranges(
    figures: Mapping[str, float], rows: Sequence[VariedRow], wide: Container[str]
) -> dict[str, tuple[float, float | None]]:
    """Find the least and the largest value of each wide figure over all guesses."""
    ranges: dict[str, tuple[float, float | None]] = {}
    for place, (path, own) in enumerate(figures.items()):
        others = [row.figures[place] for row in rows]
        values = [own, *filter(math.isfinite, others)]
        if path in wide:
            ranges[path] = (min(values), None if path in REQUIRED and math.inf in others else max(values))
    return ranges


def guess_warnings(layout: SizedLayout, assumptions: Sequence[Assumption]) -> Iterator[str]:
    """Warn about choices whose alternatives are not answered."""
    num_kinds = len(layout.checkpoint_layout.holders)
    if num_kinds > MAX_KINDS_OF_RANKS:
        names = ", ".join(choice.field for choice in choices_among({each.field for each in assumptions}))
        yield (f"The layout has {num_kinds:,} kinds of ranks: too many to answer alternatives of {names}")


@dataclass(frozen=True, slots=True)
class _VariationKey:
    """Cache key of the variations of a scenario: the text of its layout, and how shares are assigned."""

    text: str
    waits_for_largest: bool
    numbers: tuple[str, ...]
    choices: tuple[str, ...]
    scenario: Scenario = field(compare=False)
    layout: SizedLayout = field(compare=False)
    assumed: Mapping[str, JsonValue] = field(compare=False)
    progress: Callable[[float], None] | None = field(compare=False)


def _answer_rows(
    scenario: Scenario,
    layout: SizedLayout,
    inputs: RunInputs,
    assumed: Mapping[str, JsonValue],
    *,
    figures: Mapping[str, float],
    headline: Headline,
    progress: Callable[[float], None] | None,
) -> Iterator[VariedRow]:
    """Yield both ends of each range and the alternatives of each choice, where they have an answer."""
    ends = ends_of_assumed(scenario, inputs, assumed)
    numbers = tuple(name for name in ends if number_at(inputs, name) is not None)
    choices = tuple(choice.field for choice in choices_among(assumed))
    is_whole = waits_for_largest(scenario)
    key = _VariationKey(layout.text, is_whole, numbers, choices, scenario, layout, assumed, progress)
    groups = [
        *_group_rows(key),
        # What follows from the layout where it is not given varies by itself: elsewhere each layout has its own.
        *(Group(scenario.checkpoint.mode, (name,), (), layout.workload) for name in ends if name not in numbers),
    ]
    for group in groups:
        yield from answer_group(inputs, group, ends, own=layout.workload, figures=figures, headline=headline.figure)


@functools.lru_cache(maxsize=LAYOUTS_KEPT)
def _group_rows(key: _VariationKey) -> tuple[Group, ...]:
    """Group the rows to answer. Kept for the last layouts, as each alternative needs a layout of its own."""
    scenario, layout = key.scenario, key.layout
    choices = choices_among(key.choices) if len(layout.checkpoint_layout.holders) <= MAX_KINDS_OF_RANKS else []
    others = (
        (choice.field, value)
        for choice in choices
        for value in values_of(choice, key.assumed[choice.field])
        if value != key.assumed[choice.field]
    )
    alternatives = alternatives_of(scenario, layout, others, progress=key.progress)
    return tuple(groups_of(scenario.checkpoint, layout.workload, key.numbers, alternatives))


def ends_of_assumed(
    scenario: Scenario, inputs: RunInputs, assumed: Mapping[str, JsonValue]
) -> dict[str, tuple[float, float]]:
    """Return both ends of each assumed number. An end that the scenario forbids is replaced by the assumed value."""
    ends = {}
    for name, plausible in plausible_ranges().items():
        value = assumed.get(name)
        is_settled = name == PLANNING and inputs.checkpoint.cached_plans is not None
        if isinstance(value, int | float) and has_block(inputs, name) and not is_settled:
            low, high = plausible.ends(value)
            ends[name] = (_allowed_end(scenario, name, low, value), _allowed_end(scenario, name, high, value))
    return ends


def _allowed_end(scenario: Scenario, name: str, end: float, value: float) -> float:
    """Return the end, or the assumed value where the intervals of tiers forbid it. No other rule can."""
    if not scenario.checkpoint.tiers:
        return end
    try:
        scenario_from(with_field(scenario.model_dump(exclude_unset=True), name, end))
    except InvalidInput:
        return value
    return end


def _make_guess(assumed: JsonValue, rows: Sequence[VariedRow], headline: Headline, figures: Iterable[str]) -> Guess:
    """Make the guess of a field: ends of a range in order, or the choices of least and largest headline."""
    name = rows[0].field
    plausible = plausible_ranges().get(name)
    if plausible is not None:
        low, high = rows[0], rows[-1]
    else:
        low, high = extremes(VariedRow(name, assumed, headline.value), rows)
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
