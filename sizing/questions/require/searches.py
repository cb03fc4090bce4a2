"""Searches for requirements: the fields to solve for, the target that each must meet, and the bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator

from sizing.run.request import COPY_RATE, DRAINED, INTERVAL, RunRequest, best_interval_seconds, interval_bounds
from sizing.run.solver import GOODPUT, TARGETS_OF
from sizing.storage.limits import Direction
from sizing.units import MAX_BYTES

_FORMER_SENSES = {"least": "min", "most": "max"}

Sense = Annotated[Literal["min", "max"], BeforeValidator(lambda given: _FORMER_SENSES.get(given, given))]


@dataclass(frozen=True, slots=True)
class JointSearch:
    """Search for the min rates of all limits of a direction that together meet a target."""

    direction: Direction
    target: str


@dataclass(frozen=True, slots=True)
class FieldSearch:
    """Search for the min or the max of a field that meets a target.

    Between `low` and `high` the target changes once from missed to met, or back. `beside` holds fields that are set
    with it.
    """

    field: str
    sense: Sense
    target: str
    low: float
    high: float
    beside: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def best(self) -> float:
        """Bound at which the target is met if any value meets it."""
        return self.high if self.sense == "min" else self.low

    @property
    def worst(self) -> float:
        """Bound at which the target is missed if any value misses it."""
        return self.low if self.sense == "min" else self.high


def list_joint_searches(run: RunRequest) -> Iterator[JointSearch]:
    """List the targets that are asked for and that rates of a direction can meet."""
    for direction, targets in TARGETS_OF.items():
        for target in filter(run.asks, (*targets, GOODPUT)):
            yield JointSearch(direction, target)


def list_field_searches(run: RunRequest, needed: Mapping[str, float]) -> Iterator[FieldSearch]:
    """List the fields that vary alone: the copy rate of a GPU to its host, and the interval at the rates `needed`."""
    if run.is_async:
        for target in filter(run.asks, ("max_stall_seconds", "max_overhead_fraction")):
            yield FieldSearch(COPY_RATE, "min", target, 1.0, float(MAX_BYTES))
    low, high = interval_bounds(run)
    rates = {field: value for field, value in needed.items() if field != INTERVAL}
    for target in filter(run.asks, (DRAINED, "max_overhead_fraction")):
        yield FieldSearch(INTERVAL, "min", target, low, high, rates)
    if run.asks(GOODPUT):
        yield from _list_goodput_searches(run, needed, rates)


def _list_goodput_searches(
    run: RunRequest, needed: Mapping[str, float], rates: Mapping[str, float]
) -> Iterator[FieldSearch]:
    """Search for a min and a max interval around the best one, at which goodput is highest."""
    timing = run.timing_at(rates)
    if timing.process is None:
        return
    low, high = interval_bounds(run)
    peak = needed[INTERVAL] if INTERVAL in needed else float(best_interval_seconds(run, timing, rates))
    yield FieldSearch(INTERVAL, "min", GOODPUT, low, peak, rates)
    yield FieldSearch(INTERVAL, "max", GOODPUT, peak, high, rates)
