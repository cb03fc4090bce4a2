"""A scenario whose storage rates and interval may be set anew, and what it then answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizing.run.demands.demands import Demands
from sizing.run.evaluation import RunInputs, RunReport, evaluate, saved
from sizing.run.figures import with_arrays
from sizing.run.targets import TargetCheck
from sizing.run.tier import ROUNDING
from sizing.storage.joint_rates import JointRates, joint_rates
from sizing.storage.limits import Direction
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, RateField
from sizing.storage.transfer import Numbers
from sizing.units import MAX_BYTES, MAX_SECONDS

DRAINED = "interval_seconds"
"""Not a target of the scenario: an asynchronous save must have drained before the next one starts."""

INTERVAL = "checkpoint.interval_seconds"


def profile_path(field: RateField) -> str:
    """Where a scenario has a field of its storage profile."""
    return f"storage.profile.{field}"


WRITE_RATE = profile_path("write_bytes_per_second")
COPY_RATE = profile_path("device_to_host_bytes_per_second")
READ_RATE = profile_path("read_bytes_per_second")


@dataclass(frozen=True, slots=True)
class Solution:
    """Values that together meet targets; where they are met at every rate, `is_any`, `values` holds no rate."""

    values: dict[str, float]
    is_any: bool = False


Bases = dict[tuple[tuple[str, ...], Direction], Solution | None]
"""The min rates for targets that one direction alone decides; None where none is enough."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A scenario whose fields may be set anew: what its layout demands and all that comes after."""

    demands: Demands
    inputs: RunInputs
    bases: Bases = dataclasses.field(default_factory=dict, compare=False, repr=False)
    """What is known already, as every further target asks for it again."""

    def with_values(self, values: Mapping[str, Any]) -> Asked:
        """The same with some fields set to numbers or arrays, the interval to one that goes with the tiers."""
        blocks: dict[str, dict[str, object]] = {}
        for field, given in values.items():
            value = self.whole_interval_seconds(given) if field == INTERVAL else given
            block, name = field.rsplit(".", 1)
            blocks.setdefault(block, {})[name] = value
        checkpoint = with_arrays(self.inputs.checkpoint, blocks.get("checkpoint", {}))
        profile = self.inputs.profile
        if rates := blocks.get("storage.profile"):
            profile = with_arrays(profile or StorageProfile.model_validate(dict.fromkeys(rates, 1.0)), rates)
        return Asked(self.demands, dataclasses.replace(self.inputs, checkpoint=checkpoint, profile=profile))

    def whole_interval_seconds(self, seconds: Numbers) -> Numbers:
        """The interval, or the next longer one that is a whole multiple of that of the tier in front."""
        front = self.inputs.checkpoint.front_tiers
        if not front:
            return seconds
        step = front[-1].interval_seconds
        whole: Numbers = np.ceil(np.divide(seconds, step) * (1 - ROUNDING)) * step
        return whole

    def at(self, values: Mapping[str, object]) -> RunReport:
        """The figures with some fields set to numbers or arrays, everything else as asked."""
        asked = self.with_values(values)
        return evaluate(asked.demands, asked.inputs).report

    def given(self, field: str) -> float | None:
        """What the scenario says of a field; of an asynchronous save's copy to the host also what it assumes."""
        block, name = field.rsplit(".", 1)
        value: float | None = getattr(
            self.inputs.checkpoint if block == "checkpoint" else self.inputs.profile, name, None
        )
        if value is None and self.is_async and field == COPY_RATE:
            return self.demands.copy_bytes_per_second
        return value

    def check(self, target: str, values: Mapping[str, object]) -> TargetCheck | None:
        """A target with some fields set, where the scenario sets it and something is found."""
        return check_of(target, self.checks_at(values))

    def checks_at(self, values: Mapping[str, object]) -> list[TargetCheck]:
        """The targets that the scenario sets, with some fields set, and whether a save drains in its interval."""
        asked = self.with_values(values)
        found = saved(asked.demands, asked.inputs)
        return [*found.targets, _drained(asked.inputs.checkpoint.interval_seconds, found.effective_interval_seconds)]

    def joint(self, direction: Direction) -> JointRates:
        """The limits of a direction that the scenario gives, to raise together."""
        steps = self.demands.steps(self.inputs.checkpoint.restore)
        return joint_rates(self.inputs.profile, steps[direction], direction=direction)

    @property
    def unlimited(self) -> dict[str, float]:
        """No limit of rates in either direction, but for the adapters of the nodes, which no storage raises."""
        fields = (field for direction in DIRECTIONS for field in self.joint(direction).unit_bytes)
        return dict.fromkeys(map(profile_path, fields), float(MAX_BYTES))

    @property
    def without_adapters(self) -> Asked | None:
        """The same where the adapters of the nodes carry any rate; None where they do already."""
        if self.demands.write.node_network_bytes_per_second is None:
            return None
        return Asked(self.demands.through(None), self.inputs)

    @property
    def is_async(self) -> bool:
        """Whether saves drain in the background."""
        return self.inputs.checkpoint.mode == "async"

    @property
    def waits_for_room(self) -> bool:
        """Whether an asynchronous save may stall for the drain, as its share need not fit host memory."""
        checkpoint = self.inputs.checkpoint
        return self.is_async and checkpoint.staging_bytes is not None and not checkpoint.front_tiers

    def asks(self, target: str) -> bool:
        """Whether the scenario sets a target."""
        return self.is_async if target == DRAINED else getattr(self.inputs.targets, target) is not None


def checks_of(figures: RunReport) -> list[TargetCheck]:
    """The targets in figures of a scenario, and whether a save drains in its interval."""
    interval = figures.interval
    return [*figures.targets, _drained(interval.interval_seconds, interval.effective_interval_seconds)]


def check_of(target: str, checks: Sequence[TargetCheck]) -> TargetCheck | None:
    """A target among checks, where the scenario sets it and something is found."""
    return next((check for check in checks if check.target == target and check.found is not None), None)


def _drained(asked: Numbers, effective: Numbers | None) -> TargetCheck:
    met = None if effective is None else np.less_equal(effective, asked)
    return TargetCheck.of(target=DRAINED, wanted=asked, found=effective, met=met)


def interval_bounds(asked: Asked) -> tuple[float, float]:
    """The min and the max interval that go with the tiers: the main storage is written between them.

    Source: the rules of `run.tier.check_tiers`.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized import sized
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> interval_bounds(Asked(sized(scenario).demands, scenario.run_inputs)) == (1e-3, MAX_SECONDS)  # no tiers
    True
    """
    checkpoint = asked.inputs.checkpoint
    front, behind = checkpoint.front_tiers, checkpoint.archives
    step = front[-1].interval_seconds if front else 1e-3
    high = behind[0].interval_seconds if behind else MAX_SECONDS
    return (2 * step, np.floor(high / step * (1 + ROUNDING)) * step) if front else (step, high)
