"""What can be solved for, by which targets, between which bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sizing.explore.requirements.asked import DRAINED, INTERVAL, Asked, interval_bounds, profile_path
from sizing.explore.requirements.best_interval import best_interval_seconds
from sizing.run.evaluation import evaluate
from sizing.storage.rates import RateField
from sizing.units import MOST_BYTES

Sense = Literal["least", "most"]

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
    """The least or the most of a field that meets a target: between `low` and `high`, where it turns once."""

    field: str
    sense: Sense
    target: str
    low: float
    high: float

    @property
    def best(self) -> float:
        """The bound at which the target is met if it is anywhere."""
        return self.high if self.sense == "least" else self.low

    @property
    def worst(self) -> float:
        """The other bound."""
        return self.low if self.sense == "least" else self.high


def questions(asked: Asked) -> Iterator[Question]:
    """Every question that the scenario's targets ask and its other fields let answer."""
    for name, by_targets in _RATES.items():
        copies = asked.is_async and name == "device_to_host_bytes_per_second"
        path = profile_path(name)
        if name in _ALWAYS_ASKED or copies or asked.given(path) is not None:
            for target in filter(asked.asks, by_targets):
                yield Question(path, "least", target, 1.0, float(MOST_BYTES))
    yield from _interval_questions(asked)


def _interval_questions(asked: Asked) -> Iterator[Question]:
    """Overhead and draining ask for a least interval; goodput, greatest at the best one, for one on either side."""
    shortest, longest = interval_bounds(asked)
    for target in filter(asked.asks, (DRAINED, "max_overhead_fraction")):
        yield Question(INTERVAL, "least", target, shortest, longest)
    if asked.inputs.targets.min_goodput_fraction is None:
        return
    figures = evaluate(asked.demands, asked.inputs).report
    if figures.interval.optimal_period_seconds is not None:
        peak = float(best_interval_seconds(asked, figures))
        yield Question(INTERVAL, "least", "min_goodput_fraction", shortest, peak)
        yield Question(INTERVAL, "most", "min_goodput_fraction", peak, longest)
