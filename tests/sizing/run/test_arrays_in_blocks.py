"""Arrays are set in a scenario where their path says, and nowhere else."""

from __future__ import annotations

import numpy as np

from sizing.run.figures import with_arrays
from sizing.scenario import scenario_from

TIERS = [{"kind": kind, "interval_seconds": seconds} for kind, seconds in (("host-memory", 60), ("peer-memory", 600))]
SCENARIO = {
    "model": {"preset": "gpt2"},
    "checkpoint": {"tiers": TIERS, "interval_seconds": 3600},
    "storage": {"profile": {"write_bytes_per_second": 1e9}},
}


def test_one_tier_of_several_is_changed_and_the_others_stay() -> None:
    scenario = scenario_from(SCENARIO)
    for place in range(len(TIERS)):
        changed = with_arrays(scenario, {f"checkpoint.tiers.{place}.interval_seconds": [60, 120]}).checkpoint.tiers
        assert len(changed) == len(TIERS)
        assert np.array_equal(changed[place].interval_seconds, [60.0, 120.0])
        others = [number for number in range(len(TIERS)) if number != place]
        assert [changed[number] for number in others] == [scenario.checkpoint.tiers[number] for number in others]
