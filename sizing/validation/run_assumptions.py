"""Assumptions that predict a run's goodput where the run does not publish a figure, in one table."""

from __future__ import annotations

import functools
import statistics

from pydantic import Field

from sizing.published import published
from sizing.strict_model import StrictModel
from sizing.units import SECONDS_PER_DAY


class RunAssumption(StrictModel):
    """One figure that runs leave out, the same for all of them, and why it is this one."""

    quantity: str = Field(description="What is assumed, with its unit.")
    value: float = Field(description="The figure that every run takes that publishes none.")
    reason: str = Field(description="Why this figure and no other was chosen, before any run was compared.")
    source: str = Field(description="Where the figures were read that it comes from.")


FAILURES_PER_NODE_DAY = "failures of a node per day"
GPUS_PER_NODE = "GPUs of a node"
INTERVAL_OVER_MTBF = "interval between checkpoints over the time between failures"
STALL_SECONDS = "stall of a checkpoint, seconds"
RESTART_SECONDS = "from a failure until training goes on, reading included, seconds"


@functools.cache
def run_assumptions() -> tuple[RunAssumption, ...]:
    """Return the table, computed from the published figures that its reasons name."""
    rates = [row["failures_per_node_day"] for row in published("reliability")["rows"] if "failures_per_node_day" in row]
    per_node_day = [rate for each in rates for rate in (each if isinstance(each, list) else [each])]
    stalls = [row["seconds"] for row in published("published_checkpoints")["measured_save_times"]]
    runs = {row["run"]: row for row in published("run_goodput")["rows"]}
    restart_minutes = runs["Meta RSC-1, runs of 2048 to 4096 GPUs"]["restart_minutes"]
    return (
        RunAssumption(
            quantity=FAILURES_PER_NODE_DAY,
            value=statistics.median(per_node_day),
            reason="median of the three rates published for whole clusters: RSC-2, Llama 3, RSC-1",
            source="arXiv 2410.21680; arXiv 2407.21783, table 5",
        ),
        RunAssumption(
            quantity=GPUS_PER_NODE, value=8, reason="DGX and HGX nodes", source="published/vast_checkpoint_example.json"
        ),
        RunAssumption(
            quantity=INTERVAL_OVER_MTBF,
            value=0.1,
            reason="observed over 40 runs and 85,000 checkpoints: about a tenth",
            source="VAST telemetry, PDSW 2025",
        ),
        RunAssumption(
            quantity=STALL_SECONDS,
            value=statistics.median(stalls),
            reason="median of the save times measured in BLOOM's and Megatron-DeepSpeed's runs",
            source="published/published_checkpoints.json",
        ),
        RunAssumption(
            quantity=RESTART_SECONDS,
            value=60 * statistics.mean(restart_minutes),
            reason="middle of the 5 to 20 minutes that its authors assume",
            source="arXiv 2410.21680, quoted in public notes",
        ),
    )


def assumed_value(quantity: str) -> float:
    """Return the figure that the table assumes for a quantity."""
    return next(row.value for row in run_assumptions() if row.quantity == quantity)


def assumed_mtbf_seconds(num_gpus: float) -> float:
    """Return the mean time between failures that is assumed for a run on this many GPUs."""
    return SECONDS_PER_DAY / (assumed_value(FAILURES_PER_NODE_DAY) * num_gpus / assumed_value(GPUS_PER_NODE))
