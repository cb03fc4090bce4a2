"""Scenarios that the tests of the run ask."""

import copy
from typing import Any

from sizing.report import SizingReport, answer
from sizing.run.write import Write
from sizing.scenario import REFERENCE_SCENARIO, scenario_from

ASYNC: dict[str, Any] = {
    "model": {"preset": "llama-3.1-405b"},
    "training": {"distributed_optimizer": True},
    "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
    "checkpoint": {
        "format": "torch-dist",
        "optimizer_sharding": "fully-reshardable",
        "mode": "async",
        "interval_seconds": "10min",
    },
    "cluster": {"node": "dgx-h100"},
    "storage": {
        "profile": {
            "write_bytes_per_second": "100 GB/s",
            "read_bytes_per_second": "400 GB/s",
            "device_to_host_bytes_per_second": "20 GB/s",
            "planning_seconds_per_rank": 0,
        }
    },
    "reliability": {"failures_per_node_day": 0.0038, "detection_seconds": "1min", "relaunch_seconds": "5min"},
}

LLAMA_8B: dict[str, Any] = {
    "model": {"preset": "llama-3.1-8b"},
    "training": {"framework": "megatron", "distributed_optimizer": True},
    "parallelism": {"data": 8},
    "checkpoint": {"interval_seconds": "30min"},
    "storage": {"profile": {"write_bytes_per_second": "5 GB/s", "read_bytes_per_second": "5 GB/s"}},
    "cluster": {"node": "dgx-h100"},
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


def tiered(
    *tiers: dict[str, Any], mode: str = "async", interval: str = "1h", **blocks: dict[str, Any]
) -> dict[str, Any]:
    """The asynchronous scenario with tiers."""
    checkpoint = {"mode": mode, "interval_seconds": interval, "tiers": list(tiers)}
    return document(ASYNC, checkpoint=checkpoint, **blocks)


PEERS = {"kind": "peer-memory", "interval_seconds": "1min", "recovered_fraction": 0.8}
NVME = {
    "kind": "local-nvme",
    "interval_seconds": "10min",
    "recovered_fraction": 0.9,
    "storage": {"preset": "local-nvme-raid0-8x-gen5"},
}
ARCHIVE = {
    "kind": "object-store",
    "interval_seconds": "1d",
    "keep": 30,
    "storage": {"profile": {"write_bytes_per_second": "10 GB/s"}},
    "cost_per_terabyte": 20.0,
}
