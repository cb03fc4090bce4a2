"""Stages of given sizes hold the layers that they are given, wherever their number changes."""

from __future__ import annotations

import pytest

from sizing.report import answer
from sizing.scenario import scenario_from


@pytest.mark.parametrize("split", [(3, 3, 3, 3), (1, 3, 5, 3), (2, 2, 4, 4), (4, 4, 2, 2), (0, 6, 6, 0), (3, 4, 4, 1)])
def test_each_stage_writes_its_own_layers(split: tuple[int, ...]) -> None:
    parallelism = {"pipeline": 4, "layers_per_stage": split}
    report = answer(scenario_from({"model": {"preset": "gpt2"}, "parallelism": parallelism}))
    found: dict[int, int] = {}
    for ranks in report.layout.rank_classes:
        first, _, last = ranks.stages.partition("-")
        found |= dict.fromkeys(range(int(first), int(last or first) + 1), ranks.num_layers)
    assert tuple(found[stage] for stage in range(4)) == split
