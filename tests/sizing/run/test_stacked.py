"""CheckpointWorkload of several layouts as arrays answer as each of them does alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sizing.run.read_plan import RESTORE_STRATEGIES
from sizing.run.timing import Timing, timing_of
from sizing.run.workload import stack_workloads
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import size_layout
from sizing.storage.transfer import Numbers
from tests.sizing.run.scenarios import ASYNC, NVME, PEERS, document, tiered

LAYOUTS: list[dict[str, Any]] = [
    {"checkpoint": {"format": "torch-dist"}},
    {"checkpoint": {"format": "torch-dist", "files_per_rank": 2}, "cluster": {"node": "dgx-a100"}},
    {"parallelism": {"data": 16}},
]
"""Of other bytes, files, nodes, ranks and links."""

LATENCY = {"file_read_seconds": 0.1, "file_write_seconds": 0.2, "planning_seconds_per_rank": 0.001}


def timing(scenario: Scenario, workload: Any) -> Timing:
    inputs = scenario.run_inputs
    return timing_of(workload, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability)


def figures(found: Timing) -> list[Numbers]:
    assert found.save is not None
    assert found.restore is not None
    assert found.goodput_fraction is not None
    return [found.save.seconds, found.save.stall_seconds, found.restore.seconds, found.goodput_fraction]


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
    rows = [(size_layout(scenario).workload, strategy) for scenario in scenarios for strategy in RESTORE_STRATEGIES]
    together = figures(timing(scenarios[0], stack_workloads(rows)))
    for place, (workload, strategy) in enumerate(rows):
        alone = figures(timing(scenario_from(document(base, checkpoint={"restore": strategy})), workload))
        assert [np.asarray(figure)[place] for figure in together] == pytest.approx(alone, rel=1e-12)
