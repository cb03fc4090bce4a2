"""How long a save takes, and for which part of it training waits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from sizing.errors import InvalidInput
from sizing.layout import WritersOnNodes
from sizing.layout.formats.base import planned_fraction
from sizing.provenance import Assumption
from sizing.ranges import plausible_range
from sizing.run.checkpoint import Checkpoint
from sizing.run.figures import Figures
from sizing.run.workload import ONE_PROCESS, CheckpointWorkload
from sizing.storage.limits import Limit, Resource, Transfer, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from sizing.storage.terms import Terms
from sizing.storage.transfer import Numbers, as_number
from sizing.units import decimal_bytes_text, percent_text, rate_text, seconds_text

NO_WRITE_RATE = (
    "No write bandwidth given: write time, overhead and goodput not computed. Pass "
    "storage.profile.write_bytes_per_second"
)
NOTABLE_IMBALANCE = 1.05
"""Time of a save over that of one whose writers write the same. A choice: less is within the noise of storage."""
NOTABLE_MISS = 0.1
"""Difference of the rate that the limits allow from the one observed. A choice, above the few percent of noise."""
PLANNING = "storage.profile.planning_seconds_per_rank"
CACHED_PLANS = (
    "checkpoint.cached_plans true (--ckpt-assume-constant-structure of Megatron-LM, enable_plan_caching of PyTorch)"
)
"""Saves that reuse their plans, and what that takes of the framework."""
_COPY = "storage.profile.device_to_host_bytes_per_second"
_STAGING = "checkpoint.staging_bytes"


class Write(Figures):
    """The `write` block of the report."""

    seconds: float = Field(description="Seconds from the start of a save until its last writer is done.")
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
    even_seconds: float = Field(
        description="Seconds that a save would take if all writers wrote the same. Less than seconds where some write "
        "more than others and a writer or a node is the limit: all wait for the last one."
    )
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


@dataclass(frozen=True, slots=True)
class SaveTimes:
    """The times of one save to the main storage, without exports and tiers: numbers, or arrays that broadcast.

    `transfer` is what the save moves at the rates of `profile`. Training waits for `stall_seconds`: for all of it with
    mode sync, else for planning, for the copy to host memory, and for room there.
    """

    profile: StorageProfile
    transfer: Transfer
    stall_seconds: Numbers
    planning_seconds: Numbers = 0.0
    copying_seconds: Numbers = 0.0
    staging_seconds: Numbers = 0.0

    @property
    def seconds(self) -> Numbers:
        """Time from the start of the save until its last writer is done."""
        return self.transfer.seconds

    @property
    def drain_seconds(self) -> Numbers:
        """How long the save goes on in the background, after the stall."""
        return self.transfer.seconds - self.stall_seconds


def time_save(
    profile: StorageProfile | None, *, workload: CheckpointWorkload, checkpoint: Checkpoint
) -> SaveTimes | None:
    """The times of a save, or None where no write rate is known.

    Synchronous saving stalls training for all of it. Asynchronous saving stalls it for planning where the format plans
    before it goes on, for the copy to host memory, and for what must wait for room there; it drains for the rest. Each
    rank waits for its own copy, and all wait for the rank with the largest share in their next collective.
    Source: PyTorch 2.13, torch.distributed.checkpoint.async_save, which copies first and then plans and writes in the
    background; Megatron-LM, dist_checkpointing, save_state_dict_async_plan, which plans first; `staging_wait_seconds`.
    """
    if profile is None:
        return None
    is_async = checkpoint.mode == "async"
    if is_async:
        profile = at_copy_rate(profile, copy_bytes_per_second(profile, workload))
    moved = transfer(profile, [workload.write], direction="write")
    if moved is None:
        return None
    if not is_async:
        return SaveTimes(profile, moved, moved.seconds)
    planning, copying = stalling_planning_seconds(moved.serial, workload), moved.serial["device-to-host"]
    draining = moved.shared_seconds + workload.write.compression_seconds
    staging = staging_wait_seconds(draining, staging_bytes=checkpoint.staging_bytes, workload=workload)
    return SaveTimes(profile, moved, planning + copying + staging, planning, copying, staging)


def write_of(save: SaveTimes | None, *, workload: CheckpointWorkload, checkpoint: Checkpoint) -> Write | None:
    """The block of a save, beside which all writers write the same; None where its times are not known."""
    if save is None:
        return None
    even = transfer(save.profile, [workload.write.even], direction="write")
    assert even is not None  # noqa: S101  rates that served the save serve an even one
    rate, observed = workload.written_bytes / save.seconds, checkpoint.observed_write_bytes_per_second
    return Write.of(
        seconds=save.seconds,
        stall_seconds=save.stall_seconds,
        stalled_by_planning_seconds=save.planning_seconds,
        stalled_by_copy_seconds=save.copying_seconds,
        stalled_by_staging_seconds=save.staging_seconds,
        drain_seconds=save.drain_seconds,
        even_seconds=even.seconds,
        bytes_per_second=rate,
        per_writer_bytes_per_second=rate / workload.write.num_streams,
        per_node_bytes_per_second=rate / workload.num_writing_nodes,
        bottleneck=save.transfer.bottleneck,
        limits=list(save.transfer.limits) if np.ndim(save.seconds) == 0 else [],
        observed_bytes_per_second=observed,
        predicted_over_observed=rate / observed if observed else None,
    )


def stalling_planning_seconds(serial: Terms, workload: CheckpointWorkload) -> Numbers:
    """The part of planning for which training waits in an asynchronous save, of the serial steps of the save.

    Source: `layout.formats.planning`.

    >>> from sizing.sized_layout import size_layout
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> stalling_planning_seconds({"planning": 1.5}, size_layout(scenario_from(REFERENCE_SCENARIO)).workload)
    1.5
    """
    return serial.get("planning", 0.0) * workload.write.stalling_planning_fraction


def staging_wait_seconds(
    drained_seconds: Numbers, *, staging_bytes: Numbers | None, workload: CheckpointWorkload
) -> Numbers:
    """How long the rest of a share waits for room in host memory: (S - b) / r, 0 where it fits.

    Args: `drained_seconds` S / r, in which all ranks drain their shares S at rate r each; `staging_bytes` b per rank,
    None where all of S fits. The largest of the shares counts: training goes on when no rank waits any more.
    Source: marin-community/marin pull request 8514: stall = (share - budget) / upload rate, beside the copy.

    >>> from sizing.sized_layout import size_layout
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> workload = size_layout(scenario_from(REFERENCE_SCENARIO)).workload
    >>> share = workload.write.largest_copied_bytes
    >>> float(staging_wait_seconds(50.0, staging_bytes=share / 4, workload=workload))
    37.5
    """
    if staging_bytes is None:
        return 0.0
    share = workload.write.largest_copied_bytes
    return drained_seconds * np.maximum(0.0, 1.0 - np.divide(staging_bytes, share))


def copy_bytes_per_second(profile: StorageProfile | None, workload: CheckpointWorkload) -> Numbers:
    """Rate at which one GPU copies to host memory: that of the profile, else a fraction of the GPU's link.

    Source: `NodeSpec.host_link_bytes_per_second` for the link, `ranges.toml` for the fraction of its line rate that
    copies of checkpoints were measured at. Raises InvalidInput where neither is known.

    >>> from sizing.sized_layout import size_layout
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> copy_bytes_per_second(None, size_layout(scenario_from(REFERENCE_SCENARIO)).workload)
    14805000000.0
    """
    given = profile.write.device_to_host_bytes_per_second if profile else None
    rate = workload.copy_bytes_per_second if given is None else given
    if rate is None:
        raise InvalidInput.of(
            "storage.profile.device_to_host_bytes_per_second",
            "is required for the copy to host memory, as the node's GPU-to-host links are not published",
            value=None,
            remedy="give the bandwidth of one GPU to host memory, such as 20 GB/s",
        )
    return rate


def with_copy_rate(
    profile: StorageProfile | None, *, workload: CheckpointWorkload, checkpoint: Checkpoint
) -> StorageProfile | None:
    """The profile with the rate of copies to host memory that an answer takes: that of all its copies, or none.

    Where one save copies, the rate counts for every save and every export, as one that the profile states does. It is
    left open where nothing copies, or where the node's links are not published, of which `copy_bytes_per_second` tells.

    >>> with_copy_rate(None, workload=None, checkpoint=Checkpoint())
    """
    if profile is None or profile.write.device_to_host_bytes_per_second is not None or not checkpoint.copies_to_host:
        return profile
    return profile.with_rates("write", device_to_host_bytes_per_second=workload.copy_bytes_per_second)


def at_copy_rate(profile: StorageProfile | None, rate: Numbers | None) -> StorageProfile:
    """The profile with this rate of a GPU's copy to host memory."""
    return (profile or StorageProfile.of()).with_rates("write", device_to_host_bytes_per_second=rate)


def process_assumed(
    profile: StorageProfile | None, *, workload: CheckpointWorkload, checkpoint: Checkpoint
) -> float | None:
    """The rate that is assumed of the process that writes a save, or an export, by itself; None where none is.

    Source: `ranges.toml`, storage.profile.process_write_bytes_per_second.

    >>> from sizing.sized_layout import size_layout
    >>> from sizing.scenario import scenario_from
    >>> full = scenario_from({"model": {"preset": "gpt2"}, "training": {"framework": "ddp"}})
    >>> round(process_assumed(None, workload=size_layout(full).workload, checkpoint=full.checkpoint) / 1e6)
    583
    """
    export = checkpoint.export
    is_alone = workload.write.process_bytes_per_second is not None or (export and export.written_by == "rank-0")
    rates = profile.write if profile else Rates()
    is_stated = rates.stream_bytes_per_second is not None or rates.process_bytes_per_second is not None
    return None if is_stated or not is_alone else as_number(workload.process_bytes_per_second)


def stall_assumptions(
    profile: StorageProfile | None, *, workload: CheckpointWorkload, checkpoint: Checkpoint
) -> Iterator[Assumption]:
    """The rates of a copy, of planning and of one process that nobody stated, and the room that a share has."""
    rate = workload.copy_bytes_per_second
    if (
        checkpoint.copies_to_host
        and rate is not None
        and profile is not None
        and profile.write.device_to_host_bytes_per_second is None
    ):
        yield Assumption(field=_COPY, value=rate, reason=workload.defaults.copied_source)
    planning = workload.write.planning_seconds_per_rank
    is_stated = profile is not None and profile.write.planning_seconds_per_rank is not None
    if planning and workload.write.num_planned_ranks and not is_stated:
        share = percent_text(planned_fraction(cached=checkpoint.cached_plans))
        reason = f"{share} of planning without cached plans: {plausible_range(PLANNING).source}"
        yield Assumption(field=PLANNING, value=float(planning), reason=reason)
    if (process := process_assumed(profile, workload=workload, checkpoint=checkpoint)) is not None:
        yield Assumption(field=ONE_PROCESS, value=process, reason=plausible_range(ONE_PROCESS).reason)
    first = next(iter(checkpoint.front_tiers), None)
    mode = (first and first.mode) or checkpoint.mode
    drains_from_staging = mode == "async" and (first is None or first.kind != "host-memory")
    if drains_from_staging and profile is not None and checkpoint.staging_bytes is None:
        staged = math.ceil(workload.write.largest_copied_bytes)
        yield Assumption(field=_STAGING, value=staged, reason=f"the whole share: {plausible_range(_STAGING).source}")


def cached_planning_fraction(checkpoint: Checkpoint) -> float:
    """The planning with cached plans over that as it is; 1 where plans are cached.

    Source: `layout.formats.base.planned_fraction`.

    >>> cached_planning_fraction(Checkpoint(cached_plans=True)), round(1 / cached_planning_fraction(Checkpoint()), 1)
    (1.0, 30.5)
    """
    return planned_fraction(cached=True) / planned_fraction(cached=checkpoint.cached_plans)


def remedy_for_notice(write: Write, *, notice_seconds: float, cached_fraction: float) -> str:
    """What would make a save end within the notice of a preemption.

    `cached_fraction`: planning with cached plans over that as it is, 1 where plans are cached or their time is given.
    """
    planning = sum(limit.seconds for limit in write.limits if limit.resource == "planning")
    fixed = sum(limit.seconds for limit in write.limits if limit.slack_fraction is None)
    cached = fixed - planning * (1.0 - cached_fraction)
    if fixed < notice_seconds:
        return "a higher write bandwidth of the storage"
    if cached < notice_seconds:
        return f"{CACHED_PLANS}: planning alone takes {seconds_text(planning)}"
    return f"a notice of more than {seconds_text(cached)}, as no bandwidth makes a save shorter than that"


def write_warnings(write: Write | None, *, layout: WritersOnNodes) -> Iterator[str]:
    """What a reader must know together with the time to write."""
    if write is None:
        yield NO_WRITE_RATE
        return
    if write.seconds > NOTABLE_IMBALANCE * write.even_seconds:
        yield (
            f"The largest rank writes {layout.largest_over_mean:.2f} x the mean, the fullest node "
            f"{decimal_bytes_text(layout.max_node_bytes)}. A save ends with the last of them: at the "
            f"{write.bottleneck} limit after {seconds_text(write.seconds)}, and after "
            f"{seconds_text(write.even_seconds)} if all wrote the same"
        )
    ratio = write.predicted_over_observed
    if ratio is not None and abs(ratio - 1) > NOTABLE_MISS:
        yield (
            f"The limits allow {rate_text(write.bytes_per_second)}, but "
            f"{rate_text(write.observed_bytes_per_second or 0)} was observed ({ratio:.2f} x). "
            f"The {write.bottleneck} limit does not explain this. Another limit is missing"
        )


def staging_warnings(stall_seconds: float, *, workload: CheckpointWorkload, checkpoint: Checkpoint) -> Iterator[str]:
    """Warn of a budget of host memory that has no use, or that a share does not fit, so that training waits."""
    budget = checkpoint.staging_bytes
    if budget is not None and checkpoint.mode == "sync":
        yield "checkpoint.staging_bytes has no effect with mode sync. Remove it, or give mode async"
    share = float(workload.write.largest_copied_bytes)
    if budget is not None and stall_seconds > 0:
        yield (
            f"The largest rank has {decimal_bytes_text(share)} to save and checkpoint.staging_bytes "
            f"{decimal_bytes_text(budget)} of host memory for it: each save waits {seconds_text(stall_seconds)} longer "
            f"for the drain. Raise checkpoint.staging_bytes or the write bandwidth"
        )
