"""Questions with what their examples leave out, by the name of the question: each has an answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from sizing.documents import parse_yaml
from sizing.field_paths import with_fields
from sizing.questions.decide.offers import Per
from sizing.questions.decide.ranges import DISTRIBUTIONS
from tests.sizing.laws.rare_settings import RUNS, on_top_of

_PURCHASES = Path(__file__).parents[3] / "docs" / "purchases"
_OF_JOBS: tuple[dict[str, Any], ...] = (
    {},
    {"reliability.strategy": "spares", "reliability.spares": {"num": 4}, "reliability.repair_seconds": 86_400},
    {"reliability.strategy": "peers", "reliability.step_seconds": 8},
    {"reliability.preemption": {"per_hour": 0.5, "capacity_wait_seconds": 1800, "notice_seconds": 120}},
    {
        "reliability.preemption": {"per_hour": 0.5, "capacity_wait_seconds": 0, "notice_seconds": 20},
        "checkpoint.mode": "async",
    },
    {
        "checkpoint.tiers": [
            {
                "kind": "local-nvme",
                "interval_seconds": 600,
                "storage": {"profile": {"node_write_bytes_per_second": 8e9, "node_read_bytes_per_second": 9e9}},
            }
        ],
        "reliability.failures_per_node_day": None,
        "reliability.components": [
            {"name": "software", "per": "node", "mtbf_seconds": 2e6, "loss_domain": "process"},
            {"name": "rack", "per": "node", "mtbf_seconds": 9e6, "loss_domain": "rack"},
        ],
    },
    {"checkpoint.export": {"every": 2, "keep": 3, "written_by": "afterwards"}},
    {"checkpoint.export": {"every": 3, "written_by": "every-rank"}},
    {"training.reinforcement": {"publication": {"interval_seconds": 300, "over": "storage", "content": "delta"}}},
)
"""What jobs may do beside saving: fail, be preempted, fill tiers, export and publish."""


def rare_requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of a question and its request."""
    yield from (("decide", decision) for decision in _decisions())
    for settings in _OF_JOBS:
        yield "cluster", _cluster(settings)
    yield "cluster", _cluster({}) | {"targets": {"p99_stall_seconds": 60, "recovery_seconds": 900}}
    for run in RUNS:
        few: dict[str, Any] = {"parallelism": {}, "parallelism.layers_per_stage": None, "cluster.num_gpus": 16}
        yield "layouts", {"scenario": on_top_of(run, few)}


def _cluster(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Two kinds of jobs on one storage, which fail now and then; the first has the settings."""
    often = {"reliability.failures_per_node_day": 0.3}
    large, small = on_top_of(RUNS[1], {**often, **settings}), on_top_of(RUNS[3], often)
    for scenario in (large, small):
        del scenario["storage"], scenario["targets"]
    return {
        "jobs": [{"name": "large", "scenario": large}, {"name": "small", "count": 2, "scenario": small}],
        "storage": {"profile": {"write_bytes_per_second": "80 GB/s", "read_bytes_per_second": "120 GB/s"}},
        "horizon_seconds": "2d",
    }


def _decisions() -> Iterator[dict[str, Any]]:
    """Yield the purchases of the documentation, and one of them that grows, is shared by the hour, and is uncertain."""
    documents = {path.stem: parse_yaml(path.read_text()) for path in sorted(_PURCHASES.glob("*.yaml"))}
    yield from documents.values()
    team = documents["team-on-nfs"]
    for growth in ({"times": [2, 3]}, {"of": "model", "times": [2]}, {"per_year": 1.5}):
        yield team | {"growth": growth, "horizon_seconds": "2y"}
    hours = [{"from_hour": 20, "to_hour": 4, "write_bytes_per_second": "2 GB/s"}, {"from_hour": 8, "to_hour": 10}]
    yield with_fields(team, {"workloads.0.shared.over_the_day": hours})
    offer, *others = team["offers"]
    prices = [
        {"amount": 3, "per": per, "name": per} | ({"per_node": 2} if per in ("nic", "nvme-drive") else {})
        for per in get_args(Per)
    ]
    yield team | {"offers": [offer | {"power_kilowatts": 40, "prices": prices}, *others]}
    for name in DISTRIBUTIONS:
        bounds = {"low": 0.002, "high": 0.02, "distribution": name}
        peak = {"most_likely": 0.005} if DISTRIBUTIONS[name].has_peak else {}
        ranges = {"reliability.failures_per_node_day": bounds | peak}
        yield documents["uncertain"] | {"odds": {"ranges": ranges, "num_draws": 2000}}
