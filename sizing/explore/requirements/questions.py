"""What can be solved for, by which targets, between which bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator

from sizing.run.requirements.asked import COPY_RATE, DRAINED, INTERVAL, Asked, interval_bounds
from sizing.run.requirements.best_interval import best_interval_seconds
from sizing.run.requirements.joint import GOODPUT, TARGETS_OF
from sizing.storage.limits import Direction
from sizing.units import MAX_BYTES

_FORMER_SENSES = {"least": "min", "most": "max"}

Sense = Annotated[Literal["min", "max"], BeforeValidator(lambda given: _FORMER_SENSES.get(given, given))]


@dataclass(frozen=True, slots=True)
class JointQuestion:
    """The min rates of all limits of a direction that together meet a target."""

    direction: Direction
    target: str


@dataclass(frozen=True, slots=True)
class Question:
    """The min or the max of a field that meets a target: between `low` and `high`, where it turns once.

    `beside` holds fields that are set with it.
    """

    field: str
    sense: Sense
    target: str
    low: float
    high: float
    beside: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def best(self) -> float:
        """The bound at which the target is met if it is anywhere."""
        return self.high if self.sense == "min" else self.low

    @property
    def worst(self) -> float:
        """The other bound."""
        return self.low if self.sense == "min" else self.high


def joint_questions(asked: Asked) -> Iterator[JointQuestion]:
    """The targets that rates of a direction can meet."""
    for direction, targets in TARGETS_OF.items():
        for target in filter(asked.asks, (*targets, GOODPUT)):
            yield JointQuestion(direction, target)


def questions(asked: Asked, needed: Mapping[str, float]) -> Iterator[Question]:
    """What varies alone: a GPU's copy to its host, and the interval, all of it at the rates of `needed` or as given."""
    if asked.is_async:
        for target in filter(asked.asks, ("max_stall_seconds", "max_overhead_fraction")):
            yield Question(COPY_RATE, "min", target, 1.0, float(MAX_BYTES))
    low, high = interval_bounds(asked)
    rates = {field: value for field, value in needed.items() if field != INTERVAL}
    for target in filter(asked.asks, (DRAINED, "max_overhead_fraction")):
        yield Question(INTERVAL, "min", target, low, high, rates)
    if asked.asks(GOODPUT):
        yield from _goodput_questions(asked, needed, rates)


def _goodput_questions(asked: Asked, needed: Mapping[str, float], rates: Mapping[str, float]) -> Iterator[Question]:
    """Goodput is highest at the best interval and asks for a min and a max around it."""
    figures = asked.at(rates)
    if figures.interval.optimal_period_seconds is None:
        return
    low, high = interval_bounds(asked)
    peak = needed[INTERVAL] if INTERVAL in needed else float(best_interval_seconds(asked, figures, rates))
    yield Question(INTERVAL, "min", GOODPUT, low, peak, rates)
    yield Question(INTERVAL, "max", GOODPUT, peak, high, rates)
