"""How long a checkpoint takes to write."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
from pydantic import Field

from sizing.errors import InvalidInput
from sizing.layout import WritersOnNodes
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.figures import Figures
from sizing.run.stall import NO_STALL, async_stall
from sizing.storage.limits import Limit, Resource, Transfer, name_of_max, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.units import rate_text, seconds_text

NOTABLE_IMBALANCE = 1.05
"""Of the last rank's time over that of the mean. A choice: less is within the noise of storage."""
NOTABLE_MISS = 0.1
"""Of a rate that the limits allow, from the one observed. A choice, above the few percent by which runs differ."""


class Write(Figures):
    """The `write` block of the report."""

    seconds: float = Field(description="Seconds from the start of a save until it is complete.")
    stall_seconds: float = Field(
        description="Seconds for which training waits in each save: all of it with mode sync; with async planning, the "
        "copy to host memory, and what waits for room there."
    )
    stalled_by_planning_seconds: float = Field(
        description="Seconds of the stall in which the ranks plan an asynchronous save. 0 with mode sync and where the "
        "format plans in the background."
    )
    stalled_by_copy_seconds: float = Field(
        description="Seconds of the stall in which GPUs copy to host memory. 0 with mode sync."
    )
    stalled_by_staging_seconds: float = Field(
        description="Seconds of the stall in which the rest of a share waits for room in host memory, where the share "
        "is larger than checkpoint.staging_bytes. 0 with mode sync."
    )
    drain_seconds: float = Field(
        description="Seconds for which a save goes on in the background after the stall; 0 with mode sync."
    )
    last_rank_seconds: float = Field(
        description="Seconds until the busiest writer is done, longer than seconds when writers write unequally and a "
        "writer or a node is the limit."
    )
    last_rank_bottleneck: Resource = Field(description="Resource that the busiest writer waits for.")
    bytes_per_second: float = Field(
        description="Rate of the whole save over all nodes, in bytes per second: written_bytes / seconds."
    )
    per_writer_bytes_per_second: float = Field(
        description="Mean share of one writer in that rate, in bytes per second."
    )
    per_node_bytes_per_second: float = Field(
        description="Mean share of one writing node in that rate, in bytes per second."
    )
    bottleneck: Resource = Field(description="Resource with the longest time in a save.")
    limits: list[Limit] = Field(description="Time and slack of each resource in a save.")
    observed_bytes_per_second: float | None = Field(
        description="Measured rate as given, in bytes per second. Null when the scenario has none."
    )
    predicted_over_observed: float | None = Field(
        description="Ratio of the computed rate to the measured one; 1 when the model is right. "
        "Null without a measured rate."
    )


def write_of(profile: StorageProfile | None, *, demands: Demands, checkpoint: Checkpoint) -> Write | None:
    """The time to write a checkpoint, or None where no write rate is known.

    Synchronous saving stalls training for all of it. Asynchronous saving stalls it for planning where the format plans
    before it goes on, for the copy to host memory, and for what must wait for room there; it drains for the rest. Each
    rank waits for its own copy, and all wait for the rank with the largest share in their next collective.
    Source: PyTorch 2.13, torch.distributed.checkpoint.async_save, which copies first and then plans and writes in the
    background; Megatron-LM, dist_checkpointing, save_state_dict_async_plan, which plans first; `staging_wait_seconds`.
    """
    is_async = checkpoint.mode == "async"
    if profile is not None and is_async:
        profile = copied_last(profile, copy_bytes_per_second(profile, demands), demands)
    moved = transfer(profile, [demands.write], direction="write") if profile else None
    if moved is None:
        return None
    waits = async_stall(moved, demands=demands, checkpoint=checkpoint) if is_async else NO_STALL
    stall = waits.seconds if is_async else moved.seconds
    rate, observed = demands.written_bytes / moved.seconds, checkpoint.observed_write_bytes_per_second
    last = _last_rank(moved, demands.write.largest_over_mean)
    return Write.of(
        seconds=moved.seconds,
        stall_seconds=stall,
        stalled_by_planning_seconds=waits.planning_seconds,
        stalled_by_copy_seconds=waits.copy_seconds,
        stalled_by_staging_seconds=waits.staging_seconds,
        drain_seconds=moved.seconds - stall,
        last_rank_seconds=moved.serial_seconds + functools.reduce(np.maximum, last.values()),
        last_rank_bottleneck=name_of_max(last),
        bytes_per_second=rate,
        per_writer_bytes_per_second=rate / demands.write.num_streams,
        per_node_bytes_per_second=rate / demands.num_writing_nodes,
        bottleneck=moved.bottleneck,
        limits=list(moved.limits) if np.ndim(moved.seconds) == 0 else [],
        observed_bytes_per_second=observed,
        predicted_over_observed=rate / observed if observed else None,
    )


def copy_bytes_per_second(profile: StorageProfile | None, demands: Demands) -> Numbers:
    """Rate at which one GPU copies to host memory: that of the profile, else a fraction of the GPU's link.

    Source: `PCIE_BYTES_PER_SECOND` for the link, `ranges.toml` for the fraction of its line rate that copies of
    checkpoints were measured at. Raises InvalidInput where neither is known.

    >>> from sizing.sized import sized
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> copy_bytes_per_second(None, sized(scenario_from(REFERENCE_SCENARIO)).demands)
    14805000000.0
    """
    given = profile.device_to_host_bytes_per_second if profile else None
    rate = demands.copy_bytes_per_second if given is None else given
    if rate is None:
        raise InvalidInput.of(
            "storage.profile.device_to_host_bytes_per_second",
            "is required for the copy to host memory, as the node's GPU-to-host links are not published",
            value=None,
            remedy="give the bandwidth of one GPU to host memory, such as 20 GB/s",
        )
    return rate


def copied_last(profile: StorageProfile | None, rate: Numbers | None, demands: Demands) -> StorageProfile:
    """Rates with which the mean share takes the time that the largest share is copied in at `rate`.

    Source: Megatron-LM, dist_checkpointing/strategies/async_utils.py, schedule_async_call: each rank copies its share
    and goes on, to a collective with the others.

    >>> from dataclasses import replace
    >>> from sizing.sized import sized
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> demands = sized(scenario_from(REFERENCE_SCENARIO)).demands
    >>> unequal = replace(demands, write=replace(demands.write, largest_over_mean=2.0))
    >>> copied_last(None, 20e9, unequal).device_to_host_bytes_per_second
    10000000000.0
    """
    of_mean = None if rate is None else rate / demands.write.largest_linked_over_mean
    known = profile or StorageProfile.model_construct()
    return known.model_copy(update={"device_to_host_bytes_per_second": of_mean})


def write_warnings(write: Write | None, *, layout: WritersOnNodes) -> Iterator[str]:
    """What a reader must know together with the time to write."""
    if write is None:
        yield "No write bandwidth given: write time, overhead and goodput not computed. Pass --write-bandwidth"
        return
    if write.last_rank_seconds > NOTABLE_IMBALANCE * write.seconds:
        yield (
            f"The largest rank writes {layout.largest_over_mean:.2f} x the mean. At the {write.last_rank_bottleneck} "
            f"limit it may finish after {seconds_text(write.last_rank_seconds)}, not {seconds_text(write.seconds)}"
        )
    ratio = write.predicted_over_observed
    if ratio is not None and abs(ratio - 1) > NOTABLE_MISS:
        yield (
            f"The limits allow {rate_text(write.bytes_per_second)}, but "
            f"{rate_text(write.observed_bytes_per_second or 0)} was observed ({ratio:.2f} x). "
            f"The {write.bottleneck} limit does not explain this. Another limit is missing"
        )


def _last_rank(moved: Transfer, largest_over_mean: Numbers) -> dict[Resource, Numbers]:
    """The time of each shared resource, but for the file system's stretched by the largest over the mean."""
    return {
        resource: seconds if resource == "file-system" else seconds * largest_over_mean
        for resource, seconds in moved.steps[0].items()
    }
