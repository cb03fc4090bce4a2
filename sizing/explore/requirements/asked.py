"""A scenario whose storage rates and interval may be set anew, and what it then answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sizing.run.demands.demands import Demands
from sizing.run.evaluation import RunInputs, RunReport, evaluate
from sizing.run.figures import with_arrays
from sizing.run.targets import TargetCheck
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import RateField
from sizing.units import MOST_SECONDS

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
class Asked:
    """A scenario whose fields may be set anew: what its layout demands and all that comes after."""

    demands: Demands
    inputs: RunInputs

    def with_values(self, values: Mapping[str, object]) -> Asked:
        """The same with some fields set to numbers or arrays."""
        blocks: dict[str, dict[str, object]] = {}
        for field, value in values.items():
            block, name = field.rsplit(".", 1)
            blocks.setdefault(block, {})[name] = value
        checkpoint = with_arrays(self.inputs.checkpoint, blocks.get("checkpoint", {}))
        profile = self.inputs.profile
        if rates := blocks.get("storage.profile"):
            profile = with_arrays(profile or StorageProfile.model_validate(dict.fromkeys(rates, 1.0)), rates)
        return Asked(self.demands, dataclasses.replace(self.inputs, checkpoint=checkpoint, profile=profile))

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
            return self.demands.gpu_link_bytes_per_second
        return value

    def check(self, target: str, values: Mapping[str, object]) -> TargetCheck | None:
        """A target with some fields set, where the scenario sets it and something is found."""
        figures = self.at(values)
        checks = [_drained(figures)] if target == DRAINED else figures.targets
        return next((check for check in checks if check.target == target and check.found is not None), None)

    @property
    def is_async(self) -> bool:
        """Whether saves drain in the background."""
        return self.inputs.checkpoint.mode == "async"

    def asks(self, target: str) -> bool:
        """Whether the scenario sets a target."""
        return self.is_async if target == DRAINED else getattr(self.inputs.targets, target) is not None


def _drained(figures: RunReport) -> TargetCheck:
    asked, effective = figures.interval.interval_seconds, figures.interval.effective_interval_seconds
    met = None if effective is None else np.less_equal(effective, asked)
    return TargetCheck.of(target=DRAINED, wanted=asked, found=effective, met=met)


def interval_bounds(asked: Asked) -> tuple[float, float]:
    """The min and the max interval that go with the tiers: the main storage is written between them.

    Source: the rules of `run.tier.check_tiers`.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized import sized
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> interval_bounds(Asked(sized(scenario).demands, scenario.run_inputs)) == (1e-3, MOST_SECONDS)  # no tiers
    True
    """
    checkpoint = asked.inputs.checkpoint
    front, behind = checkpoint.front_tiers, checkpoint.archives
    low = front[-1].interval_seconds * (1 + 1e-9) if front else 1e-3
    return low, behind[0].interval_seconds if behind else MOST_SECONDS
