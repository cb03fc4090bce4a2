"""Inputs of a scenario that are varied, and over which values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.field_paths import flattened, value_at, with_field
from sizing.guesses.alternatives import choices_among, values_of
from sizing.guesses.fields import field_at
from sizing.questions.sensitivity.request import SensitivityRequest
from sizing.ranges import PlausibleRange, plausible_ranges
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import workload_anew
from sizing.spelling import nearest
from sizing.storage.storage import Storage
from sizing.units import percent_text

_RUN = ("storage.", "reliability.", "checkpoint.interval_seconds", "checkpoint.tiers.", "checkpoint.staging_bytes")
"""Fields that equations take as arrays; other inputs need a layout of their own."""
_WHOLE_QUANTITIES = ("_bytes", "num_parameters")
"""Endings of whole numbers that may be a little more or less. Others count things: one degree more is another job."""


@dataclass(frozen=True, slots=True)
class VariedNumber:
    """A number, both its ends as the scenario has them, and where these come from."""

    field: str
    given: float
    ends: tuple[float, float]
    source: str
    is_asked: bool

    @property
    def is_array(self) -> bool:
        """Whether equations take it as an array."""
        is_whole = isinstance(self.given, int) and not self.field.endswith("_bytes")
        return self.field.startswith(_RUN) and not is_whole


@dataclass(frozen=True, slots=True)
class VariedChoice:
    """A choice, its other values, and where these come from."""

    field: str
    given: JsonValue
    others: tuple[JsonValue, ...]
    source: str


def with_rates_in_profile(scenario: Scenario) -> Scenario:
    """Copy the scenario with the rates of its storage in `storage.profile`, whatever they come from."""
    profile = scenario.run_inputs.profile
    storage = None if profile is None else Storage.model_construct(profile=profile)
    return scenario.model_copy(update={"storage": storage})


def list_varied_numbers(request: SensitivityRequest, scenario: Scenario) -> Iterator[VariedNumber]:
    """List the numbers that the scenario gives, and those with a range in the request.

    Raises InvalidInput where a range of the request is of no number, or breaks a rule of its field.
    """
    document = scenario.model_dump(exclude_unset=True)
    for path in request.ranges:
        yield _read_range(request, scenario, document, path)
    for path, value in flattened(document):
        if path not in request.ranges and _is_quantity(path, value):
            yield _range_by_default(request, document, path, value)


def list_varied_choices(scenario: Scenario) -> Iterator[VariedChoice]:
    """List the choices that the scenario makes."""
    given = dict(flattened(scenario.model_dump(mode="json", exclude_unset=True)))
    for choice in choices_among(given):
        value = given[choice.field]
        others = tuple(other for other in values_of(choice, value) if other != value)
        yield VariedChoice(choice.field, value, others, choice.source)


def _read_range(
    request: SensitivityRequest, scenario: Scenario, document: Mapping[str, Any], path: str
) -> VariedNumber:
    try:
        field_at(path)
    except KeyError:
        known = [name for name, value in flattened(document) if _is_quantity(name, value)]
        close = nearest(path, known, max_names=1)
        remedy = f"did you mean {close[0]}" if close else "name one by its dotted path, as checkpoint.interval_seconds"
        raise InvalidInput.of(f"ranges.{path}", "must be a field of a scenario", value=path, remedy=remedy) from None
    ends = request.ranges[path]
    low, high = (_value_of_end(document, path, end) for end in (ends.low, ends.high))
    given = value_at(scenario, path)
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in (low, high, given)):
        raise InvalidInput.of(
            f"ranges.{path}", "must be a number that the scenario has", value=given, remedy="give the field a value"
        )
    if low > high:
        raise InvalidInput.of(
            f"ranges.{path}",
            "must go from its low to its high end",
            value=f"{ends.low}..{ends.high}",
            remedy="write the smaller value first",
        )
    return VariedNumber(path, given, (low, high), "as given", is_asked=True)


def _value_of_end(document: Mapping[str, Any], path: str, end: float | str) -> Any:
    """Read an end as the field has it. Raises InvalidInput where a scenario with it has no answer."""
    changed = scenario_from(with_field(document, path, end))
    workload_anew(changed)
    return value_at(changed, path)


def _range_by_default(
    request: SensitivityRequest, document: Mapping[str, Any], path: str, value: float
) -> VariedNumber:
    """Take the plausible range of the value, or a fraction down and up; an end that breaks a rule is as given.

    A value at an end of its range is varied beyond it too: nothing else would show on which side the better ones lie.
    """
    known = plausible_ranges().get(path)
    around = (value * (1 - request.fraction), value * (1 + request.fraction))
    plausible = known.ends(value) if known is not None and known.holds(value) else None
    if plausible is None:
        ends = around
    elif value in plausible:
        ends = (min(plausible[0], around[0]), max(plausible[1], around[1]))
    else:
        ends = plausible
    low, high = (_end_or_given(document, path, end, value) for end in ends)
    source = f"{percent_text(request.fraction)} down and up: {_why_no_range(known)}"
    if known is not None and plausible is not None:
        is_wider = low < plausible[0] or high > plausible[1]
        beyond = f", and {percent_text(request.fraction)} beyond what is given" if is_wider else ""
        source = f"plausible range{beyond}: {known.source}"
    return VariedNumber(path, value, (low, high), source, is_asked=False)


def _why_no_range(known: PlausibleRange | None) -> str:
    """Say why an input is not varied over a plausible range."""
    if known is None:
        return "no range of it is published"
    return "it lies outside the plausible range" if known.is_of_values else "the plausible range is of what is assumed"


def _end_or_given(document: Mapping[str, Any], path: str, end: float, value: float) -> float:
    tried = end if isinstance(value, float) else round(end)
    try:
        scenario_from(with_field(document, path, tried))
    except InvalidInput:
        return value
    return tried


def _is_quantity(path: str, value: Any) -> bool:
    """Whether a value may be a little more or less, and is the scenario's own, not of a config that it quotes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if isinstance(value, int) and not path.endswith(_WHOLE_QUANTITIES):
        return False
    try:
        field_at(path)
    except KeyError:
        return False
    return True
