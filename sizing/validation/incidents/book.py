"""What all pages of the incident book share: the reports, and how one is held against the model."""

from __future__ import annotations

from typing import Any

from sizing.published import published
from sizing.report import SizingReport, answer
from sizing.scenario import scenario_from
from sizing.units import parse_bytes
from sizing.validation.comparison import Comparison, Source, agrees

REPORTED = Source("observation", "Incidents: what saves and loads took, as users and developers reported it")
MEASURED = Source("observation", "Save and load times that projects measured and published")
RECKONED = Source("arithmetic", "Incidents: figures that the reports reckon themselves")

WITHIN = 0.2
"""Reports round, and name one of several runs."""

NO_PLANS = {"planning_seconds_per_rank": 0.0}
"""Of torchsnapshot and of levanter, whose ranks do not wait for a plan of rank 0 as PyTorch's DCP does."""

GIB: int = parse_bytes("1 GiB")


def reported(name: str) -> dict[str, Any]:
    """A report of `published/stall_incidents.json`."""
    found: dict[str, Any] = next(row for row in published("stall_incidents")["rows"] if row["id"] == name)
    return found


def measured(name: str) -> dict[str, Any]:
    """A report of `published/checkpoint_times.json`."""
    found: dict[str, Any] = published("checkpoint_times")[name]
    return found


def held(source: Source, fact: str, predicted: float, published: float, *, lacks: str) -> Comparison:
    """A prediction beside a report. Where it misses, `lacks` says what the model, or the report, leaves out."""
    close = agrees(predicted, published, within=WITHIN)
    return source.compared(fact, predicted, published, within=WITHIN, miss="" if close else lacks)


def sharded(
    total_bytes: float,
    *,
    num_nodes: int,
    gpus_per_node: int,
    profile: dict[str, float],
    shard_group: int | None = None,
    **checkpoint: Any,
) -> SizingReport:
    """The answer for a checkpoint of that many bytes, of which every GPU, or of a group, holds an equal share."""
    return answer(
        scenario_from(
            {
                "model": {"num_parameters": 10**9},
                "training": {"framework": "fsdp2"},
                "parallelism": {"data": num_nodes * gpus_per_node, "shard_group": shard_group},
                "cluster": {"node_spec": {"gpus_per_node": gpus_per_node}},
                "checkpoint": {"observed_bytes": round(total_bytes), **checkpoint},
                "storage": {"profile": profile},
            }
        )
    )


def write_seconds(report: SizingReport) -> float:
    """What the save takes, of a scenario with a write rate."""
    assert report.write is not None  # noqa: S101  the profiles of this book have one
    return report.write.seconds


def stall_seconds(report: SizingReport) -> float:
    """For how long the save stops the training, of a scenario with a write rate."""
    assert report.write is not None  # noqa: S101  likewise
    return report.write.stall_seconds


def planning_seconds(report: SizingReport) -> float:
    """What planning takes of the save, of a format that plans."""
    assert report.write is not None  # noqa: S101  likewise
    return next(limit.seconds for limit in report.write.limits if limit.resource == "planning")
