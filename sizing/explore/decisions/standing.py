"""What a decision settled on, around which its inputs are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.explore.decisions.decision_request import Offer, Workload
from sizing.explore.decisions.distributions import Array
from sizing.explore.decisions.shared import SHARED
from sizing.guesses.rows import number_at
from sizing.provenance import Assumption
from sizing.scenario import Scenario

_MIN_RATE = 1.0
"""Bytes per second that are left where others take more than a draw offers: the min of any rate."""


@dataclass(frozen=True)
class Settled:
    """A workload under an offer with the settings proposed, and what its answer assumes."""

    workload: Workload
    scenario: Scenario
    assumptions: Sequence[Assumption]

    def number(self, path: str) -> float | None:
        """A number of the scenario, its storage's rates as a profile; None where it has none."""
        return number_at(self.scenario.run_inputs, path)

    def left(self, path: str, values: Array) -> Array:
        """What others leave of values of a field, which is less of rates alone."""
        name = path.rsplit(".", 1)[1]
        taken = self.workload.shared.busiest(name) if SHARED.get(name) == path else None
        return values if taken is None else np.maximum(values - taken.bytes_per_second, _MIN_RATE)


@dataclass(frozen=True)
class Standing:
    """An offer with its workloads as they were decided; without workloads where one of them has no answer."""

    offer: Offer
    workloads: Sequence[Settled]
