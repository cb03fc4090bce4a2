"""Inputs of a decision that are drawn at random: each makes values of fields of numbers between 0 and 1."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import Field

from sizing.errors import InvalidInput
from sizing.field_paths import with_field
from sizing.guesses.fields import field_at
from sizing.guesses.guesses import ends_of_assumed
from sizing.guesses.rows import number_at
from sizing.printed_numbers import validate_as_printed
from sizing.questions.decide.offers import Offer
from sizing.questions.decide.ranges import Distribution, OddsRange, uniform_quantiles
from sizing.questions.decide.report import DrawnInput
from sizing.questions.decide.request import DecisionRequest
from sizing.questions.decide.settings import OfferAnswer, WorkloadAnswer
from sizing.ranges import plausible_range
from sizing.run.request import INTERVAL
from sizing.scenario import scenario_from
from sizing.spelling import nearest
from sizing.storage.calibration.calibration import Calibration
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.transfer import Floats
from sizing.strict_model import InputModel


class Uncertain(Protocol):
    """An input that is drawn."""

    @property
    def drawn(self) -> DrawnInput:
        """Input as the report has it, without its shares of the variance."""

    def values(self, offer: Offer, workload_answer: WorkloadAnswer | None, probability: Floats) -> Mapping[str, Floats]:
        """Draw values by field: of a workload under an offer, or of the offer and its prices where there is none."""


@dataclass(frozen=True)
class Ranged:
    """A range that the request gives, for one offer or for all alike."""

    ends: InputRange
    shape: Distribution
    offer: str | None

    @property
    def drawn(self) -> DrawnInput:
        """Range with its ends."""
        return _describe(self.ends.field, self.offer, (self.ends.low, self.ends.high), "as given")

    def values(self, offer: Offer, workload_answer: WorkloadAnswer | None, probability: Floats) -> Mapping[str, Floats]:
        """Draw the field of the range; of a rate, the part that the background load leaves."""
        if self.offer not in (None, offer.name) or self.ends.is_money != (workload_answer is None):
            return {}
        draws = self.shape.quantiles(probability, self.ends.low, self.ends.high, self.ends.peak)
        if workload_answer is not None:
            draws = workload_answer.less_background_load(self.ends.field, draws)
        return {self.ends.field: draws}


@dataclass(frozen=True)
class Calibrated:
    """The limits of a direction by the bootstrap draws of an offer's calibration, which keep what goes together."""

    offer: str
    calibration: Calibration
    direction: Direction

    @property
    def drawn(self) -> DrawnInput:
        """Draws of one direction, which have no ends."""
        return _describe(
            f"storage.calibration.{self.direction}", self.offer, (None, None), "bootstrap of the calibration"
        )

    def values(self, offer: Offer, workload_answer: WorkloadAnswer | None, probability: Floats) -> Mapping[str, Floats]:
        """Draw every limit that the answer has; of rates, the part that the background load leaves."""
        fit = self.calibration.fit(self.direction)
        if self.offer != offer.name or workload_answer is None or fit is None:
            return {}
        values: dict[str, Floats] = {}
        for name, draws in fit.draws.items():
            path, places = f"storage.profile.{name}", (probability * len(draws)).astype(np.int64)
            if workload_answer.number(path) is not None:
                values[path] = workload_answer.less_background_load(path, np.array(draws)[places])
        return values


@dataclass(frozen=True)
class Guessed:
    """A number that nobody stated, within the plausible range of each workload under each offer."""

    field: str
    ends: Mapping[tuple[str, str], tuple[float, float]]
    """Both ends by offer and workload."""

    @property
    def drawn(self) -> DrawnInput:
        """Widest range of the number over offers and workloads."""
        low, high = np.array(list(self.ends.values())).T
        source = f"plausible range: {plausible_range(self.field).source}"
        return _describe(self.field, None, (float(low.min()), float(high.max())), source)

    def values(self, offer: Offer, workload_answer: WorkloadAnswer | None, probability: Floats) -> Mapping[str, Floats]:
        """Draw the field, where the answer assumed it."""
        ends = self.ends.get((offer.name, workload_answer.workload.name)) if workload_answer is not None else None
        return {} if ends is None else {self.field: uniform_quantiles(probability, *ends, 0.0)}


def find_uncertain_inputs(request: DecisionRequest, answers: Sequence[OfferAnswer]) -> list[Uncertain]:
    """Find the inputs that are drawn: calibrations of offers, ranges of the request and its offers, and guesses.

    A range takes the place of a calibration or a guess of its field. Raises InvalidInput where a range names
    no input that may be drawn, or breaks a rule of its field.
    """
    inputs: list[Uncertain] = []
    for offer in request.offers:
        calibration = offer.storage.calibration
        if isinstance(calibration, Calibration):
            fits = ((direction, calibration.fit(direction)) for direction in DIRECTIONS)
            inputs += (Calibrated(offer.name, calibration, name) for name, fit in fits if fit is not None and fit.draws)
    ranged = list(_list_ranges(request, answers))
    inputs += ranged
    if request.odds is not None and request.odds.guesses:
        inputs += _list_guesses(answers, {(each.offer, each.ends.field) for each in ranged})
    return inputs


def _list_ranges(request: DecisionRequest, answers: Sequence[OfferAnswer]) -> Iterator[Ranged]:
    shared = request.odds.ranges if request.odds else {}
    for path, given in shared.items():
        ends = read_range(f"odds.ranges.{path}", path, given, request, answers)
        if ends is not None:
            yield Ranged(ends, given.shape, None)
    left_out = {int(each.fields[0].split(".")[1]) for each in request.refused_offers if not each.is_judged}
    places = (place for place in itertools.count() if place not in left_out)
    place_of = dict(zip((offer.name for offer in request.offers), places, strict=False))  # as the request has them
    for answer in answers:
        for path, given in answer.offer.ranges.items():
            ends = read_range(f"offers.{place_of[answer.offer.name]}.ranges.{path}", path, given, request, [answer])
            if ends is not None:
                yield Ranged(ends, given.shape, answer.offer.name)


def _list_guesses(answers: Sequence[OfferAnswer], stated: Container[tuple[str | None, str]]) -> Iterator[Guessed]:
    """List the numbers that are assumed and not `stated` by a range; not the interval, which is chosen."""
    guesses: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for answer in answers:
        for workload_answer in answer.workloads:
            assumed = {assumption.field: assumption.value for assumption in workload_answer.report.assumptions}
            ends = ends_of_assumed(workload_answer.scenario, workload_answer.scenario.run_inputs, assumed)
            for field, (low, high) in ends.items():
                is_stated = (None, field) in stated or (answer.offer.name, field) in stated
                if field != INTERVAL and low < high and not is_stated:
                    guesses.setdefault(field, {})[answer.offer.name, workload_answer.workload.name] = (low, high)
    return (Guessed(field, ends) for field, ends in guesses.items())


def _describe(field: str, offer: str | None, ends: tuple[float | None, float | None], source: str) -> DrawnInput:
    low, high = ends
    return DrawnInput(
        field=field, offer=offer, low=low, high=high, source=source, first_order_fraction=None, total_fraction=None
    )


GPU_HOUR = "per_lost_gpu_hour"
_DRAWABLE = ("reliability.", "storage.profile.")
"""Blocks of inputs that a team does not decide. Settings are chosen, and bytes follow from them."""


@dataclass(frozen=True)
class InputRange:
    """Both ends of a range and its peak, in the unit of the field; `is_money` of a price."""

    field: str
    low: float
    high: float
    peak: float
    is_money: bool


def read_range(
    at: str, path: str, given: OddsRange, request: DecisionRequest, answers: Sequence[OfferAnswer]
) -> InputRange | None:
    """Read the ends of a range that stands `at` a path of the request; None where no offer of it has an answer.

    Raises InvalidInput where it names no input that may be drawn, or one that a scenario does not have, where an end
    breaks a rule of the field, and for low above high.
    """
    workload_answers = [each for answer in answers for each in answer.workloads]
    prices = [GPU_HOUR] if request.per_lost_gpu_hour is not None else []
    if not at.startswith("odds."):
        prices = [f"prices.{place}.amount" for answer in answers for place in range(len(answer.offer.prices))]
    is_money = path in prices
    if not is_money and not workload_answers:
        return None
    ends = {"low": given.low, "high": given.high, "most_likely": given.most_likely}
    if is_money:
        low, high, peak = (_read_amount(f"{at}.{name}", end, request.currency) for name, end in ends.items())
    else:
        _check_input(at, path, workload_answers, prices)
        low, high, peak = (_read_number(f"{at}.{name}", path, end, workload_answers[0]) for name, end in ends.items())
    _check_order(at, given, low, high, peak)
    return InputRange(path, low, high, peak, is_money)


def _check_input(at: str, path: str, workload_answers: Sequence[WorkloadAnswer], prices: Sequence[str]) -> None:
    """Refuse a path that names no input that may be drawn, or a number that a scenario does not have."""
    if path.startswith(_DRAWABLE) and _is_field(path):
        lacking = next((each for each in workload_answers if each.number(path) is None), None)
        if lacking is None:
            return
        raise InvalidInput.of(
            at,
            f"must be of a number that the scenario of {lacking.workload.name} has",
            value=None,
            remedy="give the field a value there, or remove the range",
        )
    known = [*prices, *dict.fromkeys(name for each in workload_answers for name in _list_numbers(each))]
    close = nearest(path, known, max_names=1) or known[:1]
    raise InvalidInput.of(
        at,
        "must name an input that may turn out otherwise: of reliability, storage.profile, or a price",
        value=path,
        remedy=f"did you mean {close[0]}" if close else "remove it",
    )


def _list_numbers(workload_answer: WorkloadAnswer) -> Iterator[str]:
    inputs = workload_answer.scenario.run_inputs
    for prefix, block in zip(_DRAWABLE, (inputs.reliability, inputs.profile), strict=True):
        if block is not None:
            yield from _list_floats(prefix, block.model_dump(exclude_none=True))


def _list_floats(prefix: str, block: Any) -> Iterator[str]:
    for name, value in block.items() if isinstance(block, dict) else enumerate(block):
        if isinstance(value, dict | list | tuple):
            yield from _list_floats(f"{prefix}{name}.", value)
        elif isinstance(value, float):
            yield f"{prefix}{name}"


def _is_field(path: str) -> bool:
    """Return whether a scenario has a field with this path."""
    try:
        return field_at(path) is not None
    except KeyError:
        return False


def _read_number(at: str, path: str, end: float | str | None, workload_answer: WorkloadAnswer) -> float:
    """Read an end of a range as the field of a scenario whose storage is given as a profile."""
    if end is None:
        return 0.0
    document = workload_answer.scenario.model_dump(exclude_unset=True)
    profile = workload_answer.scenario.run_inputs.profile
    if profile:
        document["storage"] = {"profile": profile.model_dump(exclude_none=True)}
    try:
        changed = scenario_from(with_field(document, path, end))
    except InvalidInput as error:
        raise InvalidInput(replace(problem, field=at) for problem in error.problems) from None
    value = number_at(changed.run_inputs, path)
    assert value is not None  # noqa: S101 - it was just set
    return float(value)


class _Money(InputModel):
    """An amount, as prices have it: the currency stands beside it as in a decision."""

    currency: str = Field(description="Currency of the decision, as its code: USD.")
    amount: Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)] = Field(
        description="Price or cost, 0 or more: 2.8."
    )


def _read_amount(at: str, end: float | str | None, currency: str) -> float:
    """Read an end of a range of money as a price is read, as printed and in the currency of the decision."""
    try:
        return 0.0 if end is None else validate_as_printed(_Money, {"currency": currency, "amount": end}).amount
    except InvalidInput as error:
        raise InvalidInput(replace(problem, field=at) for problem in error.problems) from None


def _check_order(at: str, given: OddsRange, low: float, high: float, peak: float) -> None:
    if low > high:
        raise InvalidInput.of(
            at, "must have low at most high", value=f"{given.low} to {given.high}", remedy="swap them"
        )
    if given.shape.has_peak and not low <= peak <= high:
        raise InvalidInput.of(
            f"{at}.most_likely", "must lie between low and high", value=given.most_likely, remedy="move it between them"
        )
    if given.shape.is_of_ratios and low <= 0:
        raise InvalidInput.of(
            f"{at}.low", f"must be above 0 where it is {given.distribution}", value=given.low, remedy="use uniform"
        )
