"""What can be solved for, by which targets, between which bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator

from sizing.explore.requirements.asked import DRAINED, INTERVAL, Asked, interval_bounds, profile_path
from sizing.explore.requirements.best_interval import best_interval_seconds
from sizing.run.evaluation import evaluate
from sizing.storage.rates import RateField
from sizing.units import MOST_BYTES

_FORMER_SENSES = {"least": "min", "most": "max"}

Sense = Annotated[Literal["min", "max"], BeforeValidator(lambda given: _FORMER_SENSES.get(given, given))]

_STALL_TARGETS = ("max_stall_seconds", "max_overhead_fraction", "min_goodput_fraction")
_RATES: dict[RateField, tuple[str, ...]] = {
    "write_bytes_per_second": (DRAINED, *_STALL_TARGETS),
    "node_write_bytes_per_second": (DRAINED, *_STALL_TARGETS),
    "device_to_host_bytes_per_second": _STALL_TARGETS,
    "read_bytes_per_second": ("recovery_seconds", "min_goodput_fraction"),
    "node_read_bytes_per_second": ("recovery_seconds", "min_goodput_fraction"),
}
_ALWAYS_ASKED: tuple[RateField, ...] = ("write_bytes_per_second", "read_bytes_per_second")


@dataclass(frozen=True, slots=True)
class Question:
    """The min or the max of a field that meets a target: between `low` and `high`, where it turns once."""

    field: str
    sense: Sense
    target: str
    low: float
    high: float

    @property
    def best(self) -> float:
        """The bound at which the target is met if it is anywhere."""
        return self.high if self.sense == "min" else self.low

    @property
    def worst(self) -> float:
        """The other bound."""
        return self.low if self.sense == "min" else self.high


def questions(asked: Asked) -> Iterator[Question]:
    """Every question that the scenario's targets ask and its other fields let answer."""
    for name, by_targets in _RATES.items():
        copies = asked.is_async and name == "device_to_host_bytes_per_second"
        path = profile_path(name)
        if name in _ALWAYS_ASKED or copies or asked.given(path) is not None:
            for target in filter(asked.asks, by_targets):
                yield Question(path, "min", target, 1.0, float(MOST_BYTES))
    yield from _interval_questions(asked)


def _interval_questions(asked: Asked) -> Iterator[Question]:
    """Overhead and draining ask for a min interval. Goodput is highest at the best one and asks for min and max."""
    low, high = interval_bounds(asked)
    for target in filter(asked.asks, (DRAINED, "max_overhead_fraction")):
        yield Question(INTERVAL, "min", target, low, high)
    if asked.inputs.targets.min_goodput_fraction is None:
        return
    figures = evaluate(asked.demands, asked.inputs).report
    if figures.interval.optimal_period_seconds is not None:
        peak = float(best_interval_seconds(asked, figures))
        yield Question(INTERVAL, "min", "min_goodput_fraction", low, peak)
        yield Question(INTERVAL, "max", "min_goodput_fraction", peak, high)
