"""A sweep lays a checkpoint out once for all rows that share its layout, whatever storage they ask of."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.questions.registry import SWEEP
from sizing.questions.sweep import answer as module
from sizing.report import ScenarioWithLayout, answer, find_layout
from sizing.scenario import Scenario
from sizing.sized_layout import SizedLayout, size_layout


@pytest.mark.parametrize(
    ("blocks", "number"),
    [
        ({"storage": {"preset": ["dgx-a100-storage-network", "mlperf-v3-hpe-e2000"]}}, 1),
        ({"retention": {"keep_last": [1, 2]}, "targets": {"max_stall_seconds": ["1min", "2min"]}}, 1),
        ({"checkpoint": {"mode": ["sync", "async"]}}, 2),
    ],
)
def test_each_layout_is_computed_once(blocks: dict[str, Any], number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_layout = []

    def counted(scenario: Scenario) -> SizedLayout:
        checkpoint_layout.append(scenario)
        return size_layout(scenario)

    monkeypatch.setattr(module, "size_layout", counted)
    SWEEP.answer({"model": {"preset": "gpt2"}, "parallelism": {"data": 8}} | blocks)
    assert len(checkpoint_layout) == number


OPEN = {
    "model": {"preset": "llama-3.1-8b"},
    "cluster": {"num_gpus": [8, 16], "node": "dgx-h100"},
    "storage": {"profile": {"write_bytes_per_second": ["10 GB/s", "20 GB/s"]}},
}


def test_degrees_left_open_are_those_of_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def counted(document: dict[str, Any]) -> ScenarioWithLayout:
        searched.append(document)
        return find_layout(document)

    monkeypatch.setattr(module, "find_layout", counted)
    report = SWEEP.answer(OPEN)
    chosen, seconds = (report.columns.index(name) for name in ("parallelism", "write.seconds"))
    assert len(report.rows) == 4
    assert len(searched) == 2, "once for each number of GPUs"
    for row in report.rows:
        one = answer(OPEN | {"cluster": {"num_gpus": row[0], "node": "dgx-h100"}, "storage": _writing_at(row[1])})
        assert one.write is not None
        assert row[seconds] == one.write.seconds
        assert row[chosen] == next(each.value for each in one.assumptions if each.field == "parallelism")


def test_what_layouts_were_judged_by_is_said_once() -> None:
    warnings = SWEEP.answer(OPEN).warnings
    assert len(set(warnings)) == len(warnings)
    assert any("training.sequence_length = 8,192" in warning for warning in warnings)


def test_a_sweep_whose_degrees_are_given_chooses_none() -> None:
    report = SWEEP.answer({"model": {"preset": "gpt2"}, "parallelism": {"data": [1, 2]}})
    assert "parallelism" not in report.columns
    assert report.warnings == []


def _writing_at(bytes_per_second: float) -> dict[str, Any]:
    return {"profile": {"write_bytes_per_second": bytes_per_second}}
