"""A figure is no better known than the weakest of what it follows from."""

from __future__ import annotations

from typing import Any

import pytest

from sizing.report import answer
from sizing.scenario import scenario_from

STORAGE = {"profile": {"write_bytes_per_second": 1e10, "read_bytes_per_second": 1e10}}
TARGETS = {"max_overhead_fraction": 0.1, "min_goodput_fraction": 0.9}


def kinds(**blocks: Any) -> dict[str, str]:
    document = {"model": {"preset": "gpt2"}, "checkpoint": {"interval_seconds": 1800}, "storage": STORAGE}
    report = answer(scenario_from(document | {"targets": TARGETS} | blocks))
    return {figure: found.kind for found in report.provenance for figure in found.figures}


@pytest.mark.parametrize(("model", "kind"), [({"preset": "gpt2"}, "exact"), ({"num_parameters": "70B"}, "given")])
def test_what_is_counted_follows_the_model(model: dict[str, Any], kind: str) -> None:
    found = kinds(model=model)
    assert {found[figure] for figure in ("model", "checkpoint", "layout", "host_memory", "capacity")} == {kind}


@pytest.mark.parametrize(
    ("reliability", "kind"),
    [
        ({}, "unknown"),
        ({"reliability": {"mtbf_seconds": 3600}}, "assumed"),
        ({"reliability": {"mtbf_seconds": 3600, "detection_seconds": 60, "relaunch_seconds": 60}}, "given"),
    ],
)
def test_what_a_run_needs_together_follows_its_failures(reliability: dict[str, Any], kind: str) -> None:
    assert kinds(**reliability)["needed_together"] == kind
