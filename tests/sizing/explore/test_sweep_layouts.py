"""A sweep lays a checkpoint out once for all rows that share its layout, whatever storage they ask of."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.explore.sweeps import sweep as module
from sizing.scenario import Scenario
from sizing.sized import SizedLayout, sized


@pytest.mark.parametrize(
    ("blocks", "number"),
    [
        ({"storage": {"preset": ["dgx-a100-storage-network", "mlperf-v3-hpe-e2000"]}}, 1),
        ({"retention": {"keep_last": [1, 2]}, "targets": {"max_stall_seconds": ["1min", "2min"]}}, 1),
        ({"checkpoint": {"mode": ["sync", "async"]}}, 2),
    ],
)
def test_each_layout_is_computed_once(blocks: dict[str, Any], number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    laid_out = []

    def counted(scenario: Scenario) -> SizedLayout:
        laid_out.append(scenario)
        return sized(scenario)

    monkeypatch.setattr(module, "sized", counted)
    module.sweep({"model": {"preset": "gpt2"}, "parallelism": {"data": 8}} | blocks)
    assert len(laid_out) == number
