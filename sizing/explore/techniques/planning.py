"""Techniques that plan which layers are computed again: what their plan needs and adds, instead of a field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sizing.explore.rematerializations.rematerialization import rematerialization_of
from sizing.explore.rematerializations.rematerialization_report import RematerializationPlan, StageRematerialization
from sizing.explore.rematerializations.rematerialization_request import RematerializationRequest
from sizing.scenario import Scenario

_EVERY_LAYER = "every layer"


class Planned(NamedTuple):
    """What the fullest GPU needs under a plan, and the compute that it and the scenario as it is add."""

    total_bytes: int
    extra_compute_fraction: float
    extra_before: float


@dataclass(frozen=True, slots=True)
class PlannedTechnique:
    """A technique of the catalog, by its name there, and what `rematerialize` calls it."""

    name: str
    plan: str

    def planned(self, scenario: Scenario) -> Planned | str:
        """The plan of every stage, or a sentence that says why there is none.

        Raises InvalidInput as `rematerialization` does.
        """
        if scenario.training.micro_batch_size is None:
            return "It needs training.micro_batch_size and sequence_length, without which activations are not counted"
        stages = rematerialization_of(RematerializationRequest(scenario=scenario)).stages
        plans = [_of(stage, self.plan) for stage in stages if stage.plans]
        again = [_of(stage, _EVERY_LAYER).extra_compute_fraction for stage in stages if stage.plans]
        is_full = scenario.training.recomputation == "full"
        return Planned(
            total_bytes=max(plan.gpu_bytes for plan in plans),
            extra_compute_fraction=max(plan.extra_compute_fraction for plan in plans),
            extra_before=max(again) if is_full else 0.0,
        )


def _of(stage: StageRematerialization, technique: str) -> RematerializationPlan:
    return next(plan for plan in stage.plans if plan.technique == technique)
