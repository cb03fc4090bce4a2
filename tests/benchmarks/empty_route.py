"""What the service is compared with: a route that takes and sends the same documents and computes nothing."""

from __future__ import annotations

from fastapi import FastAPI

from sizing.report import SizingReport, answer
from sizing.scenario import REFERENCE_SCENARIO, Scenario, scenario_from

app = FastAPI()
_REPORT = answer(scenario_from(REFERENCE_SCENARIO))


@app.post("/async")
async def empty(scenario: Scenario) -> SizingReport:  # noqa: ARG001 - read, and not used
    """The same report for every scenario."""
    return _REPORT
