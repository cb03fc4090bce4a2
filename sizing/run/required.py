"""The min rates that meet the targets."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.export.exported import export_times, mean_stall_seconds
from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.figures import Figures
from sizing.run.restore.exchange import exchange_of
from sizing.run.stall import staging_wait_seconds, stalling_planning_seconds
from sizing.run.targets import TargetCheck, Targets
from sizing.run.tier import ARCHIVE
from sizing.run.tiers.saved import SavedTier, max_save_stall_seconds, saved_tiers
from sizing.run.tiers.times import TierTimes
from sizing.run.write import copied_last
from sizing.storage.joint_rates import FILE_SYSTEM_RATES, joint_rates
from sizing.storage.limits import Demand, Direction, name_of_max, serial_steps, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from sizing.storage.transfer import Numbers
from sizing.units import seconds_text

WriteTarget = Literal["max_overhead_fraction", "max_stall_seconds", "interval_seconds"]


_WRITE_TARGETS: dict[WriteTarget, str] = {
    "max_overhead_fraction": "max overhead",
    "max_stall_seconds": "max stall",
    "interval_seconds": "interval",
}


class Required(Figures):
    """The `required` block of the report."""

    write_bytes_per_second: float | None = Field(
        description="Min write rate over all nodes that meets write_target, in bytes per second. "
        "Null when no rate does."
    )
    write_per_node_bytes_per_second: float | None = Field(
        description="Share of one writing node in that rate, in bytes per second. Null when no rate does."
    )
    write_target: WriteTarget = Field(
        description="Target that needs the highest write rate; interval_seconds with mode async, as a save must "
        "drain before the next. With checkpoint.staging_bytes a stall target may need more."
    )
    write_seconds: float = Field(description="Max seconds that this target leaves for a write.")
    device_to_host_bytes_per_second: float | None = Field(
        None,
        description="Min rate of one GPU's copy to host memory that meets the stall targets, in bytes per second. "
        "Null with mode sync or when no rate does.",
    )
    restore_bytes_per_second: float | None = Field(
        description="Min read rate over all nodes that meets targets.recovery_seconds, in bytes per second. "
        "Null without that target or when no rate does."
    )

    @property
    def file_system_rates(self) -> dict[str, float]:
        """The min rates of the file system that are known, by their fields in a StorageProfile."""
        rates = {
            "write_bytes_per_second": self.write_bytes_per_second,
            "read_bytes_per_second": self.restore_bytes_per_second,
        }
        return {field: rate for field, rate in rates.items() if rate is not None}


def min_bytes_per_second(total_bytes: Numbers, *, seconds: Numbers, serial_seconds: Numbers = 0.0) -> Numbers:
    """Rate at which B bytes pass in t seconds of which s are serial: B / (t - s); inf where t <= s.

    Source: `storage.transfer.transfer_seconds`, solved for the rate.

    >>> round(float(min_bytes_per_second(13.8e12, seconds=0.05 * 14400)) / 1e9, 2)
    19.17
    """
    left = np.subtract(seconds, serial_seconds)
    return np.where(left > 0, np.divide(total_bytes, np.where(left > 0, left, 1.0)), np.inf)


def required_of(
    targets: Targets,
    *,
    demands: Demands,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
    reliability: Reliability | None,
) -> Required:
    """The min write rate for the overhead and stall targets, and read rate for the recovery target.

    What the tiers stall, the main storage cannot. An asynchronous save must drain within the interval, and where its
    share does not fit the staging budget, soon enough for the stall targets.
    """
    is_async = checkpoint.mode == "async"
    writing = _writing(profile, demands, checkpoint)
    others = _others(checkpoint, profile, writing, demands)
    stalls = _beside_exports(
        _allowed_stalls(targets, others, periods=[checkpoint.interval_seconds]), profile, demands, checkpoint
    )
    if demands.longest is not None and "max_stall_seconds" in stalls:
        stalls["max_stall_seconds"] = _for_mean_save(stalls["max_stall_seconds"], writing, demands)
    allowed = _allowed_drains(stalls, writing, demands=demands, checkpoint=checkpoint) if is_async else stalls
    seconds = _min_of(allowed)
    write = _rate(writing, [demands.write], seconds, direction="write")
    return Required.of(
        write_bytes_per_second=write,
        write_per_node_bytes_per_second=write / demands.num_writing_nodes,
        write_target=name_of_max({name: -limit for name, limit in allowed.items()}),
        write_seconds=seconds,
        device_to_host_bytes_per_second=_copy_rate(targets, writing, demands, checkpoint, others) if is_async else None,
        restore_bytes_per_second=_restore_rate(targets, demands, profile, checkpoint, reliability),
    )


def _others(
    checkpoint: Checkpoint, profile: StorageProfile | None, writing: StorageProfile | None, demands: Demands
) -> list[SavedTier]:
    """What stalls training beside the copy or the write that is asked for: tiers, and plans for the main storage."""
    if not checkpoint.tiers:
        return []
    plans = _stalled_by_planning_seconds(writing, demands)
    saved = saved_tiers(checkpoint, profile, demands=demands, main=TierTimes(0.0, 0.0, None, planning_seconds=plans))
    return [one for one in saved if one.tier is not None or (one.mode == "async" and checkpoint.front_tiers)]


def _stalled_by_planning_seconds(writing: StorageProfile | None, demands: Demands) -> Numbers:
    return stalling_planning_seconds(serial_steps(_write_rates(writing), [demands.write]), demands)


def _write_rates(writing: StorageProfile | None) -> Rates:
    return writing.rates("write") if writing else Rates()


def _allowed_drains(
    stalls: Mapping[WriteTarget, Numbers],
    writing: StorageProfile | None,
    *,
    demands: Demands,
    checkpoint: Checkpoint,
) -> dict[WriteTarget, Numbers]:
    """How long each asynchronous save may take: until the next one, and until what waits for room has waited enough.

    Of the time in which a share drains, training waits for the part of it that does not fit host memory.
    """
    allowed: dict[WriteTarget, Numbers] = {"interval_seconds": checkpoint.interval_seconds}
    if checkpoint.staging_bytes is None or checkpoint.front_tiers:
        return allowed
    joint = joint_rates(writing, [demands.write], direction="write")
    serial = serial_steps(_write_rates(writing), [demands.write])
    waits = stalling_planning_seconds(serial, demands) + serial.get("device-to-host", 0.0)
    waiting = staging_wait_seconds(1.0, staging_bytes=checkpoint.staging_bytes, demands=demands)
    for target, limit in stalls.items():
        some = np.greater(waiting, 0)
        drained = np.where(some, np.maximum(0.0, np.subtract(limit, waits)) / np.where(some, waiting, 1.0), np.inf)
        allowed[target] = joint.serial_seconds + drained * (
            sum(joint.steps, start=np.float64(0.0)) + joint.stream_seconds
        )
    return allowed


def _allowed_stalls(
    targets: Targets, others: Sequence[SavedTier], *, periods: Sequence[Numbers]
) -> dict[WriteTarget, Numbers]:
    """How long each save may stall of those that come once per period, beside what others stall."""
    left = targets.max_overhead_fraction - sum((one.stalled_fraction for one in others), start=0.0)
    allowed: dict[WriteTarget, Numbers] = {
        "max_overhead_fraction": np.maximum(0.0, left) / sum(np.divide(1.0, period) for period in periods)
    }
    limit = targets.max_stall_seconds
    if limit is not None:
        max_other_seconds = max_save_stall_seconds(others)
        is_kept = True if max_other_seconds is None else np.less_equal(max_other_seconds, limit)
        allowed["max_stall_seconds"] = np.where(is_kept, limit, 0.0)
    return allowed


def _beside_exports(
    allowed: dict[WriteTarget, Numbers], profile: StorageProfile | None, demands: Demands, checkpoint: Checkpoint
) -> dict[WriteTarget, Numbers]:
    """What is left of each limit beside exports, at the rates as given."""
    times = export_times(checkpoint.export, profile, demands)
    mean = mean_stall_seconds(checkpoint.export, times)
    if times is None or mean is None or times.stall_seconds is None:
        return allowed
    taken: dict[WriteTarget, Numbers] = {"max_overhead_fraction": mean, "max_stall_seconds": times.stall_seconds}
    return {target: np.maximum(0.0, limit - taken.get(target, 0.0)) for target, limit in allowed.items()}


def _for_mean_save(limit: Numbers, writing: StorageProfile | None, demands: Demands) -> Numbers:
    """How long the mean save may take where the largest one has a limit: shared seconds go with the bytes."""
    mean, longest = (
        joint_rates(writing, [each.write], direction="write") for each in (demands, demands.longest or demands)
    )
    shared = np.maximum(0.0, limit - longest.serial_seconds) * np.divide(mean.total_bytes, longest.total_bytes)
    return np.where(np.greater(shared, 0), mean.serial_seconds + shared, 0.0)


def _copy_rate(
    targets: Targets,
    writing: StorageProfile | None,
    demands: Demands,
    checkpoint: Checkpoint,
    tiers: Sequence[SavedTier],
) -> Numbers | None:
    """The min rate of one GPU to its host, where a save stalls for that copy; NaN where none is enough."""
    copies = [_stalls_for_copy(one, is_first=index == 0) for index, one in enumerate(tiers)]
    periods = [one.effective_interval_seconds for one in compress(tiers, copies)]
    if not checkpoint.front_tiers:
        periods.append(checkpoint.interval_seconds)
    if not periods:
        return None
    others = list(compress(tiers, map(operator.not_, copies)))
    seconds = _min_of(_allowed_stalls(targets, others, periods=periods))
    waits = 0.0 if checkpoint.front_tiers else _stalled_beside_copy_seconds(writing, demands, checkpoint)
    in_memory = any(one.tier is not None and one.tier.kind == "host-memory" for one in compress(tiers, copies))
    copied = demands.write.largest_copied_bytes if in_memory else demands.write.largest_linked_bytes
    rate = min_bytes_per_second(copied, seconds=seconds, serial_seconds=waits)
    return np.where(np.isfinite(rate), rate, np.nan)


def _stalled_beside_copy_seconds(writing: StorageProfile | None, demands: Demands, checkpoint: Checkpoint) -> Numbers:
    """Plans, and the wait for room in host memory at the rates as given, where there are any."""
    plans = _stalled_by_planning_seconds(writing, demands)
    moved = transfer(writing, [demands.write], direction="write") if writing else None
    if moved is None:
        return plans
    budget = checkpoint.staging_bytes
    return plans + staging_wait_seconds(moved.shared_seconds, staging_bytes=budget, demands=demands)


def _stalls_for_copy(one: SavedTier, *, is_first: bool) -> bool:
    kind = one.tier.kind if one.tier else None
    return kind == "host-memory" or (is_first and one.mode == "async" and kind != ARCHIVE)


def _writing(profile: StorageProfile | None, demands: Demands, checkpoint: Checkpoint) -> StorageProfile | None:
    """The rates that writing passes: an asynchronous save first copies, unless it drains from a tier in front."""
    if checkpoint.mode == "sync":
        return profile
    given = profile.device_to_host_bytes_per_second if profile else None
    copied = demands.copy_bytes_per_second if given is None else given
    return copied_last(profile, None if checkpoint.front_tiers else copied, demands)


def required_warnings(
    required: Required, checks: Sequence[TargetCheck], *, demands: Demands, checkpoint: Checkpoint
) -> Iterator[str]:
    """Which targets no rate can meet, but for those that are known to be missed: these have a remedy each."""
    missed = {check.target for check in checks if check.met is False}
    if required.write_bytes_per_second is None and required.write_target not in missed:
        yield f"The {_WRITE_TARGETS[required.write_target]} {_no_rate([demands.write], required.write_seconds)}"
    recovery = next((check for check in checks if check.target == "recovery_seconds"), None)
    if recovery is not None and required.restore_bytes_per_second is None and recovery.target not in missed:
        plan = demands.restores[checkpoint.restore]
        yield f"The max recovery {_no_rate(plan.demands, recovery.wanted)}"


def _no_rate(steps: Sequence[Demand], seconds: float) -> str:
    """What takes longer than a target leaves, whatever the bandwidth."""
    through_adapters = float(sum(step.network_seconds for step in steps))
    if through_adapters > seconds:
        taken = seconds_text(through_adapters)
        return f"is not met at any bandwidth: the adapters of cluster.storage_nics alone take {taken}"
    return "is not met at any bandwidth: the steps that do not depend on it already take longer"


def _restore_rate(
    targets: Targets,
    demands: Demands,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
    reliability: Reliability | None,
) -> Numbers | None:
    """The min read rate for the recovery target, if there is one."""
    if targets.recovery_seconds is None:
        return None
    plan = (demands.longest or demands).restores[checkpoint.restore]
    reading = targets.recovery_seconds - seconds_before_reading(reliability) - exchange_of(plan, demands)
    if reliability is not None and reliability.restart_seconds is not None:
        is_in_time = np.less_equal(reliability.recovery_seconds(0.0), targets.recovery_seconds)
        reading = np.where(is_in_time, reading, 0.0)
    return _rate(profile, plan.demands, reading, direction="read")


def _min_of(limits: Mapping[WriteTarget, Numbers]) -> Numbers:
    return functools.reduce(np.minimum, limits.values())


def _rate(
    profile: StorageProfile | None, demands: Sequence[Demand], seconds: Numbers, *, direction: Direction
) -> Numbers:
    """The min rate of the file system beside the other limits at theirs, NaN where none is enough."""
    joint = joint_rates(profile, demands, direction=direction)
    rate = min_bytes_per_second(joint.total_bytes, seconds=joint.shared_seconds(seconds))
    return np.where(np.isfinite(rate), np.minimum(rate, joint.max_rates[FILE_SYSTEM_RATES[direction]]), np.nan)
