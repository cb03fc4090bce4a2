"""Every row of what is required holds what it says, whatever the target."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.questions.require.answer import answer_requirements
from sizing.questions.require.report import Requirement
from sizing.scenario import scenario_from

SCENARIO: dict[str, Any] = {
    "model": {"preset": "llama-3.1-70b"},
    "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
    "cluster": {"node": "dgx-h100"},
    "checkpoint": {"format": "torch-dist", "interval_seconds": "30min"},
    "storage": {"profile": {"write_bytes_per_second": "50 GB/s", "read_bytes_per_second": "80 GB/s"}},
    "reliability": {"mtbf_seconds": "8h", "relaunch_seconds": 60, "detection_seconds": 60},
}
TARGETS: tuple[dict[str, Any], ...] = (
    {"max_stall_seconds": "60s"},
    {"recovery_seconds": "10min"},
    {"min_goodput_fraction": 0.9},
    {"max_stall_seconds": "60s", "recovery_seconds": "10min", "min_goodput_fraction": 0.9},
    {"recovery_seconds": "1min", "min_goodput_fraction": 0.999},
)


@pytest.mark.parametrize("targets", TARGETS, ids=", ".join)
def test_every_row_says_what_is_found_at_its_value(targets: dict[str, Any]) -> None:
    rows = answer_requirements(scenario_from(SCENARIO | {"targets": targets})).requirements
    assert {row.status for row in rows} <= {"solved", "any", "none"}
    for row in rows:
        assert row.target == "interval_seconds" or row.found is not None, row
        assert (row.value is not None) == (row.status == "solved"), row
        assert row.status == "none" or meets(row), row


def meets(row: Requirement) -> bool:
    """To the digits to which a solver goes."""
    if row.found is None:
        return True
    if row.target.startswith("min_"):
        return row.found >= row.wanted * (1 - 1e-6)
    return row.found <= row.wanted * (1 + 1e-6)
