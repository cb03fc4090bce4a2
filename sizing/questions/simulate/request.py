"""Request for a simulation: a scenario, how many runs to simulate, how long each, and the seed of the failures."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from sizing.run.simulation import SimulationRequest
from sizing.scenario import REFERENCE_SCENARIO, Scenario

REFERENCE_SIMULATION: dict[str, Any] = {"scenario": REFERENCE_SCENARIO, "num_runs": 1000, "run_seconds": "30d"}
"""A thousand months of the published run of 1T."""


class ScenarioSimulation(SimulationRequest):
    """A scenario, how often its run is simulated, how long each lasts at least, and the seed of the failures."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_SIMULATION]})

    scenario: Scenario = Field(description="Run to simulate; needs a write rate and reliability.")
