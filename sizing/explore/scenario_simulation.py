"""A scenario's run, simulated: the question, and the way to its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ConfigDict, Field

from sizing.report import laid_out
from sizing.run.evaluation import evaluate
from sizing.run.simulation.simulation_report import SimulationReport, SimulationRequest, simulation_report
from sizing.scenario import REFERENCE_SCENARIO, Scenario
from sizing.sized import sized

REFERENCE_SIMULATION: dict[str, Any] = {"scenario": REFERENCE_SCENARIO, "num_runs": 1000, "run_seconds": "30d"}
"""A thousand months of the published run of 1T."""


class ScenarioSimulation(SimulationRequest):
    """A scenario, how often its run is simulated, how long each lasts at least, and the seed of the failures."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_SIMULATION]})

    scenario: Scenario = Field(description="Run to simulate; needs a write rate and reliability.")


def simulated(question: ScenarioSimulation, *, progress: Callable[[float], None] | None = None) -> SimulationReport:
    """What random failures make of a scenario's run, beside the formula.

    Raises InvalidInput where the scenario has no answer, no write rate or no reliability, or the failures are too many.
    """
    scenario = laid_out(question.scenario).scenario
    figures = evaluate(sized(scenario).demands, scenario.run_inputs)
    return simulation_report(figures, question, progress=progress)
