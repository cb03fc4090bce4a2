"""Demands of several layouts as arrays answer as each of them does alone."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.run.demands.readings import STRATEGIES
from sizing.run.demands.stacked import stacked
from sizing.run.saving import Saving, saving_of
from sizing.scenario import Scenario, scenario_from
from sizing.sized import sized
from tests.sizing.run.scenarios import ASYNC, NVME, PEERS, document, tiered

LAYOUTS: list[dict[str, Any]] = [
    {"checkpoint": {"format": "torch-dist"}},
    {"checkpoint": {"format": "torch-dist", "files_per_rank": 2}, "cluster": {"node": "dgx-a100"}},
    {"parallelism": {"data": 16}},
]
"""Of other bytes, files, nodes, ranks and links."""

LATENCY = {"file_read_seconds": 0.1, "file_write_seconds": 0.2, "planning_seconds_per_rank": 0.001}


def saving(scenario: Scenario, demands: Any) -> Saving:
    inputs = scenario.run_inputs
    return saving_of(demands, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability)


@pytest.mark.parametrize(
    "base",
    [
        ASYNC,
        document(ASYNC, checkpoint={"mode": "sync"}),
        document(ASYNC, storage={"profile": ASYNC["storage"]["profile"] | LATENCY}),
        tiered(PEERS, NVME),
    ],
    ids=["async", "sync", "latency", "tiers"],
)
def test_a_row_is_the_answer_of_its_layout(base: dict[str, Any]) -> None:
    scenarios = [scenario_from(document(base, **blocks)) for blocks in LAYOUTS]
    rows = [(sized(scenario).demands, strategy) for scenario in scenarios for strategy in STRATEGIES]
    together = saving(scenarios[0], stacked(rows))
    assert together.write is not None
    for place, (demands, strategy) in enumerate(rows):
        checkpoint = {"restore": strategy}
        alone = saving(scenario_from(document(base, checkpoint=checkpoint)), demands)
        assert alone.write is not None
        assert together.write.seconds[place] == pytest.approx(alone.write.seconds)  # type: ignore[index]  # arrays
        assert together.write.stall_seconds[place] == pytest.approx(alone.write.stall_seconds)  # type: ignore[index]  # arrays
        assert together.restore.seconds[place] == pytest.approx(alone.restore.seconds)  # type: ignore[index]  # arrays
        assert together.goodput_fraction[place] == pytest.approx(alone.goodput_fraction, rel=1e-12)  # type: ignore[index]  # arrays
