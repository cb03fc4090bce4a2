"""What can be solved for, by which targets, between which bounds; and what the scenario then answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sizing.run.demands import Demands
from sizing.run.evaluation import RunFigures, RunInputs, evaluate
from sizing.run.figures import with_arrays
from sizing.run.targets import TargetCheck
from sizing.storage.profile import StorageProfile
from sizing.units import MOST_BYTES, MOST_SECONDS

Sense = Literal["least", "most"]

_STALL_TARGETS = ("max_stall_seconds", "max_overhead_fraction", "min_goodput_fraction")
DRAINED = "interval_seconds"
"""Not a target of the scenario: an asynchronous save must have drained before the next one starts."""

_RATES = {
    "write_bytes_per_second": (DRAINED, *_STALL_TARGETS),
    "node_write_bytes_per_second": (DRAINED, *_STALL_TARGETS),
    "device_to_host_bytes_per_second": _STALL_TARGETS,
    "read_bytes_per_second": ("recovery_seconds", "min_goodput_fraction"),
    "node_read_bytes_per_second": ("recovery_seconds", "min_goodput_fraction"),
}
_ALWAYS_ASKED = ("write_bytes_per_second", "read_bytes_per_second")
_PROFILE = "storage.profile."
WRITE_RATE = _PROFILE + "write_bytes_per_second"
READ_RATE = _PROFILE + "read_bytes_per_second"
INTERVAL = "checkpoint.interval_seconds"


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


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario whose fields may be set anew: what its layout demands and all that comes after."""

    demands: Demands
    inputs: RunInputs

    def at(self, values: Mapping[str, object]) -> RunFigures:
        """The figures with some fields set to numbers or arrays, everything else as asked."""
        blocks: dict[str, dict[str, object]] = {}
        for field, value in values.items():
            block, name = field.rsplit(".", 1)
            blocks.setdefault(block, {})[name] = value
        checkpoint = with_arrays(self.inputs.checkpoint, blocks.get("checkpoint", {}))
        profile = self.inputs.profile
        if rates := blocks.get("storage.profile"):
            profile = with_arrays(profile or StorageProfile.model_validate(dict.fromkeys(rates, 1.0)), rates)
        return evaluate(self.demands, dataclasses.replace(self.inputs, checkpoint=checkpoint, profile=profile))

    def given(self, field: str) -> float | None:
        """What the scenario says of a field."""
        block, name = field.rsplit(".", 1)
        value: float | None = getattr(
            self.inputs.checkpoint if block == "checkpoint" else self.inputs.profile, name, None
        )
        return value

    def check(self, question: Question, value: object) -> TargetCheck | None:
        """The question's target, where the scenario sets it and something is found."""
        figures = self.at({question.field: value})
        checks = [_drained(figures)] if question.target == DRAINED else figures.targets
        return next((check for check in checks if check.target == question.target and check.found is not None), None)

    @property
    def is_async(self) -> bool:
        """Whether saves drain in the background."""
        return self.inputs.checkpoint.mode == "async"

    def asks(self, target: str) -> bool:
        """Whether the scenario sets a target."""
        return self.is_async if target == DRAINED else getattr(self.inputs.targets, target) is not None


def _drained(figures: RunFigures) -> TargetCheck:
    asked, effective = figures.interval.interval_seconds, figures.interval.effective_interval_seconds
    met = None if effective is None else np.less_equal(effective, asked)
    return TargetCheck.of(target=DRAINED, wanted=asked, found=effective, met=met)


def questions(asked: Asked) -> Iterator[Question]:
    """Every question that the scenario's targets ask and its other fields let answer."""
    for name, by_targets in _RATES.items():
        copies = asked.is_async and name == "device_to_host_bytes_per_second"
        if name in _ALWAYS_ASKED or copies or asked.given(_PROFILE + name) is not None:
            for target in filter(asked.asks, by_targets):
                yield Question(_PROFILE + name, "least", target, 1.0, float(MOST_BYTES))
    yield from _interval_questions(asked)


def interval_bounds(asked: Asked) -> tuple[float, float]:
    """The shortest and the longest interval that go with the tiers: the main storage is written between them."""
    checkpoint = asked.inputs.checkpoint
    front, behind = checkpoint.front_tiers, checkpoint.archives
    shortest = front[-1].interval_seconds * (1 + 1e-9) if front else 1e-3
    return shortest, behind[0].interval_seconds if behind else MOST_SECONDS


def _interval_questions(asked: Asked) -> Iterator[Question]:
    """Overhead and draining ask for a least interval; goodput, greatest at the best one, for one on either side."""
    shortest, longest = interval_bounds(asked)
    for target in filter(asked.asks, (DRAINED, "max_overhead_fraction")):
        yield Question(INTERVAL, "least", target, shortest, longest)
    if asked.inputs.targets.min_goodput_fraction is None:
        return
    best = evaluate(asked.demands, asked.inputs).interval.optimal_period_seconds
    if best is not None:
        peak = min(max(best, shortest), longest)
        yield Question(INTERVAL, "least", "min_goodput_fraction", shortest, peak)
        yield Question(INTERVAL, "most", "min_goodput_fraction", peak, longest)
