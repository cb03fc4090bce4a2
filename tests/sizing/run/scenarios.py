"""Scenarios that the tests of the run ask."""

import copy
from typing import Any

from sizing.report import SizingReport, answer
from sizing.run.write import Write
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

ASYNC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
    "checkpoint": {"format": "torch-dist", "mode": "async", "interval_seconds": "10min"},
    "cluster": {"node": "dgx-h100"},
    "storage": {
        "profile": {
            "write_bytes_per_second": "100 GB/s",
            "read_bytes_per_second": "400 GB/s",
            "device_to_host_bytes_per_second": "20 GB/s",
        }
    },
    "reliability": {"failures_per_node_day": 0.0038, "detection_seconds": "1min", "relaunch_seconds": "5min"},
}


def document(base: dict[str, Any], **blocks: dict[str, Any] | None) -> dict[str, Any]:
    """A scenario with fields set over its blocks; None takes a block out."""
    changed = copy.deepcopy(base)
    for name, fields in blocks.items():
        if fields is None:
            changed.pop(name)
        else:
            changed[name] = changed.get(name, {}) | fields
    return changed


def report(base: dict[str, Any] = REFERENCE_SCENARIO, **blocks: dict[str, Any] | None) -> SizingReport:
    return answer(scenario_from(document(base, **blocks)))


def write_of(report: SizingReport) -> Write:
    assert report.write is not None
    return report.write
