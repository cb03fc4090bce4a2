"""The inputs of a decision that are not certain, each of which turns a draw of 0 to 1 into values of fields."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sizing.explore.decisions.decision_request import DecisionRequest, Offer
from sizing.explore.decisions.distributions import Array, Distribution, uniform_quantiles
from sizing.explore.decisions.odds_report import DrawnInput
from sizing.explore.decisions.range_ends import Ends, ends_of
from sizing.explore.decisions.standing import Settled, Standing
from sizing.guesses.guesses import ends_of_assumed
from sizing.ranges import plausible_range
from sizing.run.requirements.asked import INTERVAL
from sizing.storage.calibration.calibration import Calibration
from sizing.storage.rates import DIRECTIONS, Direction


class Uncertain(Protocol):
    """An input that is drawn."""

    @property
    def drawn(self) -> DrawnInput:
        """What the report says of it, without its shares."""

    def values(self, offer: Offer, settled: Settled | None, probability: Array) -> Mapping[str, Array]:
        """Fields that a draw sets: of a workload under an offer, or of the offer and its prices where there is none."""


@dataclass(frozen=True)
class Ranged:
    """A range that the request gives, for one offer or for all alike."""

    ends: Ends
    shape: Distribution
    offer: str | None

    @property
    def drawn(self) -> DrawnInput:
        """As asked."""
        return _drawn(self.ends.field, self.offer, (self.ends.low, self.ends.high), "as asked")

    def values(self, offer: Offer, settled: Settled | None, probability: Array) -> Mapping[str, Array]:
        """The field; of a rate what others leave of it."""
        if self.offer not in (None, offer.name) or self.ends.is_money != (settled is None):
            return {}
        found = self.shape.quantiles(probability, self.ends.low, self.ends.high, self.ends.peak)
        return {self.ends.field: found if settled is None else settled.left(self.ends.field, found)}


@dataclass(frozen=True)
class Calibrated:
    """The limits of a direction by the bootstrap draws of an offer's calibration, which keep what goes together."""

    offer: str
    calibration: Calibration
    direction: Direction

    @property
    def drawn(self) -> DrawnInput:
        """Its draws."""
        return _drawn(f"storage.calibration.{self.direction}", self.offer, (None, None), "bootstrap of the calibration")

    def values(self, offer: Offer, settled: Settled | None, probability: Array) -> Mapping[str, Array]:
        """Every limit that the answer has; of the rates what others leave of them."""
        fit = self.calibration.fit(self.direction)
        if self.offer != offer.name or settled is None or fit is None:
            return {}
        of = {f"storage.profile.{name}": np.array(draws) for name, draws in fit.draws.items()}
        return {
            path: settled.left(path, draws[(probability * len(draws)).astype(np.int64)])
            for path, draws in of.items()
            if settled.number(path) is not None
        }


@dataclass(frozen=True)
class Guessed:
    """A number that nobody stated, within the plausible range of each workload under each offer."""

    field: str
    ends: Mapping[tuple[str, str], tuple[float, float]]
    """By offer and workload."""

    @property
    def drawn(self) -> DrawnInput:
        """The widest of its ranges."""
        low, high = np.array(list(self.ends.values())).T
        source = f"plausible range: {plausible_range(self.field).source}"
        return _drawn(self.field, None, (float(low.min()), float(high.max())), source)

    def values(self, offer: Offer, settled: Settled | None, probability: Array) -> Mapping[str, Array]:
        """The field, where it was assumed."""
        ends = self.ends.get((offer.name, settled.workload.name)) if settled is not None else None
        return {} if ends is None else {self.field: uniform_quantiles(probability, *ends, 0.0)}


def uncertain_inputs(request: DecisionRequest, standings: Sequence[Standing]) -> list[Uncertain]:
    """What is drawn: calibrations of offers, ranges of the request and its offers, and guesses where asked for.

    A range takes the place of what a calibration or a guess says of its field. Raises InvalidInput where a range names
    no input that may be drawn, or breaks a rule of its field.
    """
    ranged = list(_ranged(request, standings))
    inputs: list[Uncertain] = [*_calibrated(request), *ranged]
    if request.odds is not None and request.odds.guesses:
        inputs += _guessed(standings, {(each.offer, each.ends.field) for each in ranged})
    return inputs


def _ranged(request: DecisionRequest, standings: Sequence[Standing]) -> Iterator[Ranged]:
    shared = request.odds.ranges if request.odds else {}
    for path, given in shared.items():
        ends = ends_of(f"odds.ranges.{path}", path, given, request, standings)
        if ends is not None:
            yield Ranged(ends, given.shape, None)
    for place, standing in enumerate(standings):
        for path, given in standing.offer.ranges.items():
            ends = ends_of(f"offers.{place}.ranges.{path}", path, given, request, [standing])
            if ends is not None:
                yield Ranged(ends, given.shape, standing.offer.name)


def _calibrated(request: DecisionRequest) -> Iterator[Calibrated]:
    for offer in request.offers:
        found = offer.storage.calibration
        if isinstance(found, Calibration):
            fits = ((direction, found.fit(direction)) for direction in DIRECTIONS)
            yield from (Calibrated(offer.name, found, name) for name, fit in fits if fit is not None and fit.draws)


def _guessed(standings: Sequence[Standing], stated: Container[tuple[str | None, str]]) -> Iterator[Guessed]:
    """What is assumed and not `stated` by a range of all offers, or of the one; the interval is chosen."""
    found: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for standing in standings:
        for settled in standing.workloads:
            assumed = {assumption.field: assumption.value for assumption in settled.assumptions}
            ends = ends_of_assumed(settled.scenario, settled.scenario.run_inputs, assumed)
            for field, (low, high) in ends.items():
                is_stated = (None, field) in stated or (standing.offer.name, field) in stated
                if field != INTERVAL and low < high and not is_stated:
                    found.setdefault(field, {})[standing.offer.name, settled.workload.name] = (low, high)
    return (Guessed(field, ends) for field, ends in found.items())


def _drawn(field: str, offer: str | None, ends: tuple[float | None, float | None], source: str) -> DrawnInput:
    low, high = ends
    return DrawnInput(
        field=field, offer=offer, low=low, high=high, source=source, first_order_fraction=None, total_fraction=None
    )
