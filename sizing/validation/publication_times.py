"""Comparisons of published times to bring new weights into inference engines with predictions from guesses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sizing.published import published
from sizing.report import answer
from sizing.validation.comparison import Comparison, Source, agrees

_UPDATES = Source("observation", "Moonshot AI checkpoint-engine README: seconds to update the weights of vLLM engines")
_WITHIN = 0.25
"""No rate of the links, the network and PCIe of these nodes is published."""
_GPUS_PER_NODE = 8
"""GPUs per node of the published engines: eight H800 or H20."""


@dataclass(frozen=True, slots=True)
class PredictedUpdate:
    """Seconds of an update, and the range that guesses leave for the whole publication, gathering included."""

    seconds: float
    seconds_low: float
    seconds_high: float


def publication_times() -> Iterator[Comparison]:
    """Compare every published time of an update."""
    for row in published("weight_publications")["rows"]:
        predicted, measured = predicted_update(row), row["update_seconds"]
        reason = (
            "the rates of these nodes are not published and those of DGX H100 are taken, with guesses that leave "
            f"{predicted.seconds_low:.1f} to {predicted.seconds_high:.0f} s"
        )
        fact = f"{row['model']} on {row['num_gpus']} {row['gpus']} by {row['way']}, seconds"
        close = agrees(predicted.seconds, measured, within=_WITHIN)
        yield _UPDATES.compare(fact, predicted.seconds, measured, within=_WITHIN, miss="" if close else reason)


def predicted_update(row: dict[str, Any]) -> PredictedUpdate:
    """Predict the update of one row.

    Published updates begin in the trainers' host memory: without gathering, and with the half of the copies that goes
    from the host to the engines' GPUs.
    """
    num_gpus, engine_gpus = row["num_gpus"], row["engine_gpus"]
    request = {
        "interval_seconds": 600,
        "dtype": row["dtype"],
        "through_host": True,
        "num_replicas": num_gpus // engine_gpus,
        "nodes_per_replica": engine_gpus // _GPUS_PER_NODE,
    }
    publication: Any = answer(
        {
            "model": {"preset": row["preset"]},
            "training": {"framework": "fsdp2", "reinforcement": {"publication": request}},
            "parallelism": {"data": num_gpus, "shard_group": num_gpus},
            "cluster": {"node": "dgx-h100"},
        }
    ).publication
    seconds = publication.copy_seconds / 2 + max(publication.receive_seconds, publication.load_seconds)
    return PredictedUpdate(seconds, publication.seconds_low, publication.seconds_high)
