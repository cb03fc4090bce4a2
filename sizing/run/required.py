"""The min rates that meet the targets."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from sizing.ranges import range_text
from sizing.run.checkpoint import ARCHIVE, Checkpoint, MainStorage
from sizing.run.export import export_times, mean_stall_seconds, stalling_writes
from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.figures import Figures
from sizing.run.levels import overhead_of_levels_fraction
from sizing.run.recovery import wait_after_failure_seconds
from sizing.run.restore import exchange_of
from sizing.run.targets import TargetCheck, Targets
from sizing.run.tiers import TierLevel, levels_of_tiers, max_save_stall_seconds
from sizing.run.workload import ONE_PROCESS, CheckpointWorkload
from sizing.run.write import (
    CACHED_PLANS,
    PLANNING,
    at_copy_rate,
    cached_planning_fraction,
    staging_wait_seconds,
    stalling_planning_seconds,
    with_copy_rate,
)
from sizing.storage.joint_rates import FILE_SYSTEM, NODE, JointRates, joint_rates, kept_terms
from sizing.storage.limits import Demand, name_of_max, serial_steps, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates, document_name
from sizing.storage.terms import Terms
from sizing.storage.transfer import Numbers
from sizing.units import min_rate_text, seconds_text

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
        "A goodput target may need more: needed_together of an answer has that. Null when no rate does."
    )
    write_per_node_bytes_per_second: float | None = Field(
        description="Min write rate of one node that goes with it, in bytes per second: its share of a save, or of an "
        "export for which training waits. Null when no rate does."
    )
    write_target: WriteTarget = Field(
        description="Target that needs the highest write rate; interval_seconds with mode async, as a save must "
        "drain before the next. With checkpoint.staging_bytes a stall target may need more."
    )
    write_seconds: float = Field(description="Max seconds that this target leaves for a write.")
    write_obstacle: str | None = Field(
        None,
        description="Why no write rate meets write_target, and what would, in a sentence. Null where a rate does, and "
        "in sweeps.",
    )
    device_to_host_bytes_per_second: float | None = Field(
        None,
        description="Min rate of one GPU's copy to host memory that meets the stall targets, in bytes per second. "
        "Null with mode sync or when no rate does.",
    )
    restore_bytes_per_second: float | None = Field(
        description="Min read rate over all nodes that meets targets.recovery_seconds, in bytes per second, with the "
        "rates of nodes and readers as given where these are enough. Null without that target or when no rate does."
    )

    @property
    def file_system_rates(self) -> dict[str, float]:
        """The min rates of the file system that are known, by their fields in a StorageProfile."""
        rates = {
            document_name(FILE_SYSTEM, "write"): self.write_bytes_per_second,
            document_name(FILE_SYSTEM, "read"): self.restore_bytes_per_second,
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
    workload: CheckpointWorkload,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
    reliability: Reliability | None,
) -> Required:
    """The min write rate for the overhead and stall targets, and read rate for the recovery target.

    What the tiers stall, the main storage cannot. An asynchronous save must drain within the interval, and where its
    share does not fit the staging budget, soon enough for the stall targets.
    """
    profile = writing = with_copy_rate(profile, workload=workload, checkpoint=checkpoint)
    if checkpoint.mode == "async":  # a save first copies, unless it drains from a tier in front
        given = profile.write.device_to_host_bytes_per_second if profile else None
        copied = workload.copy_bytes_per_second if given is None else given
        writing = at_copy_rate(profile, None if checkpoint.front_tiers else copied)
    others = _levels_beside_saves(checkpoint, profile, writing, workload)
    stalls = _allowed_stalls(targets, others, periods=[checkpoint.interval_seconds])
    writes = _min_writes(
        _budgets(stalls, writing, workload=workload, checkpoint=checkpoint), writing, profile, workload, checkpoint
    )
    copy = None
    if checkpoint.mode == "async":
        copy = _copy_rate(targets, writing, profile, workload, checkpoint, others)
    return Required.of(
        write_bytes_per_second=writes.bytes_per_second,
        write_per_node_bytes_per_second=writes.node_bytes_per_second,
        write_target=writes.target,
        write_seconds=writes.seconds,
        device_to_host_bytes_per_second=copy,
        restore_bytes_per_second=_restore_rate(targets, workload, profile, checkpoint, reliability),
    )


class _Budget(NamedTuple):
    """The seconds that a target leaves for writing.

    A save takes its shared and its serial steps from them as often as their weights say, an export for which training
    waits as often as its own weight says.
    """

    seconds: Numbers
    shared_weight: Numbers = 1.0
    serial_weight: Numbers = 1.0
    export_weight: Numbers = 0.0


class _Writes(NamedTuple):
    """The min rates of writing, NaN where none is enough, the target that needs them and the time that it leaves."""

    bytes_per_second: Numbers
    node_bytes_per_second: Numbers
    target: WriteTarget
    seconds: Numbers


def _min_writes(
    budgets: Mapping[WriteTarget, _Budget],
    writing: StorageProfile | None,
    profile: StorageProfile | None,
    workload: CheckpointWorkload,
    checkpoint: Checkpoint,
) -> _Writes:
    """The min rates of saves, and of the exports for which training waits, that keep to the budgets of all targets.

    Where exports stall, nodes and writers first keep the rates as given, as in `solver`.
    """
    exports = _stalling_exports(profile, workload, checkpoint)
    joint, alone = (joint_rates(writing, [workload.write, *more], direction="write") for more in (exports.steps, ()))
    ways = [(joint, alone)]
    if exports.steps and (beside := joint.beside_given(writing)) is not None:
        ways.insert(0, (beside, alone.beside_given(writing) or alone))
    return functools.reduce(_first_known, (_solve_writes(*way, budgets, exports) for way in ways))


def _solve_writes(
    joint: JointRates, alone: JointRates, budgets: Mapping[WriteTarget, _Budget], exports: _Exports
) -> _Writes:
    left = {
        target: budget.seconds - budget.serial_weight * alone.serial_seconds - budget.export_weight * exports.seconds
        for target, budget in budgets.items()
    }
    shared = {
        target: joint.weighted_seconds(
            left[target],
            [budget.shared_weight, *(budget.export_weight for _ in exports.steps)],
            stream_weight=budget.serial_weight,
        )
        for target, budget in budgets.items()
    }
    least = functools.reduce(np.minimum, shared.values())
    rate = np.minimum(min_bytes_per_second(joint.total_bytes, seconds=least), joint.max_rates[FILE_SYSTEM])
    is_known = np.greater(least, 0)
    safe = np.where(is_known, least, 1.0)
    taken = alone.serial_seconds + joint.step_seconds(safe)[0] + joint.stream_seconds * safe
    target = name_of_max({target: -seconds for target, seconds in shared.items()})
    limit = functools.reduce(np.minimum, (budget.seconds for budget in budgets.values()))
    return _Writes(
        np.where(is_known, rate, np.nan),
        np.where(is_known, joint.unit_rate(NODE, safe), np.nan),
        target,
        np.where(is_known, taken, np.maximum(0.0, limit)),
    )


def _first_known(first: _Writes, second: _Writes) -> _Writes:
    """The first rates where they are known, else the second; row by row."""
    is_known = np.isfinite(first.bytes_per_second)
    if np.ndim(is_known) == 0:
        return first if is_known else second
    pairs: Iterator[Any] = (np.where(is_known, *pair) for pair in zip(first, second, strict=True))
    return _Writes(*pairs)


class _Exports(NamedTuple):
    """The exports for which training waits: what they write, and seconds that no write rate shortens."""

    steps: Sequence[Demand] = ()
    seconds: Numbers = 0.0


def _stalling_exports(profile: StorageProfile | None, workload: CheckpointWorkload, checkpoint: Checkpoint) -> _Exports:
    """The exports that training waits for; none where a rate of what they read is missing."""
    steps = stalling_writes(checkpoint.export, workload)
    times = export_times(checkpoint.export, profile, workload)
    if not steps or times is None or times.read_seconds is None:
        return _Exports()
    serial = joint_rates(profile, steps, direction="write").serial_seconds
    return _Exports(steps, times.gather_seconds + times.read_seconds + serial)


def _levels_beside_saves(
    checkpoint: Checkpoint, profile: StorageProfile | None, writing: StorageProfile | None, workload: CheckpointWorkload
) -> list[TierLevel]:
    """The tiers with their stalls; none without tiers. The main storage among them stalls for its plans alone.

    For the rest of its saves, writes or copies, `required_of` looks for a rate that fits into what these leave.
    """
    if not checkpoint.tiers:
        return []
    main = TierLevel(
        tier=MainStorage(),
        mode=checkpoint.mode,
        given_interval_seconds=checkpoint.interval_seconds,
        interval_seconds=checkpoint.interval_seconds,
        stall_seconds=0.0,
        drain_seconds=0.0,
        read_seconds=None,
        planning_seconds=_stalled_by_planning_seconds(writing, workload),
    )
    levels = levels_of_tiers(checkpoint, profile, workload=workload, main=main)
    return [level for level in levels if not level.is_main or (level.mode == "async" and checkpoint.front_tiers)]


def _stalled_by_planning_seconds(writing: StorageProfile | None, workload: CheckpointWorkload) -> Numbers:
    rates = writing.rates("write") if writing else Rates()
    return stalling_planning_seconds(serial_steps(rates, [workload.write]), workload)


def _budgets(
    stalls: Mapping[WriteTarget, Numbers],
    writing: StorageProfile | None,
    *,
    workload: CheckpointWorkload,
    checkpoint: Checkpoint,
) -> dict[WriteTarget, _Budget]:
    """The time that each target leaves for writing.

    A synchronous save stalls for all of it. An asynchronous one must drain until the next one; of the time in which a
    share drains, training waits for the part of it that does not fit host memory.
    """
    every = 1.0 if checkpoint.export is None else checkpoint.export.every
    exports: dict[WriteTarget, Numbers] = {"max_overhead_fraction": 1.0 / every, "max_stall_seconds": 1.0}
    limits = dict(stalls)
    interval_seconds: Numbers = checkpoint.interval_seconds
    exports_in_interval: Numbers = 1.0 / every
    if workload.longest is not None:
        if "max_stall_seconds" in limits:
            limits["max_stall_seconds"], exports["max_stall_seconds"] = _limit_mean_save(
                stalls["max_stall_seconds"], writing, workload
            )
        interval_seconds, ratio = _limit_mean_save(interval_seconds, writing, workload)
        exports_in_interval = exports_in_interval * ratio
    if checkpoint.mode == "sync":
        return {target: _Budget(limit, export_weight=exports[target]) for target, limit in limits.items()}
    drained: dict[WriteTarget, _Budget] = {
        "interval_seconds": _Budget(interval_seconds, export_weight=exports_in_interval)
    }
    has_front, stages = bool(checkpoint.front_tiers), checkpoint.staging_bytes is not None
    if not stalling_writes(checkpoint.export, workload) and (has_front or not stages):
        return drained
    serial = serial_steps(writing.rates("write") if writing else Rates(), [workload.write])
    plans = stalling_planning_seconds(serial, workload)
    waiting: Numbers = 0.0
    waits: dict[WriteTarget, Numbers] = {"max_overhead_fraction": 0.0, "max_stall_seconds": plans}
    if not has_front:
        waiting = staging_wait_seconds(1.0, staging_bytes=checkpoint.staging_bytes, workload=workload)
        stalled = plans + serial.get("device-to-host", 0.0) + waiting * workload.write.compression_seconds
        waits = dict.fromkeys(waits, stalled)
    return drained | {
        target: _Budget(np.maximum(0.0, np.subtract(limit, waits[target])), waiting, 0.0, exports[target])
        for target, limit in limits.items()
    }


def _allowed_stalls(
    targets: Targets, others: Sequence[TierLevel], *, periods: Sequence[Numbers]
) -> dict[WriteTarget, Numbers]:
    """How long each save may stall of those that come once per period, beside what others stall."""
    left = targets.max_overhead_fraction - overhead_of_levels_fraction(others)
    allowed: dict[WriteTarget, Numbers] = {
        "max_overhead_fraction": np.maximum(0.0, left) / sum(np.divide(1.0, period) for period in periods)
    }
    limit = targets.max_stall_seconds
    if limit is not None:
        allowed["max_stall_seconds"] = np.maximum(0.0, limit - max_save_stall_seconds(others))
    return allowed


def _beside_exports(
    allowed: dict[WriteTarget, Numbers],
    profile: StorageProfile | None,
    workload: CheckpointWorkload,
    checkpoint: Checkpoint,
) -> dict[WriteTarget, Numbers]:
    """The seconds that may be stalled by each target, less those that exports stall at the rates as given."""
    times = export_times(checkpoint.export, profile, workload)
    mean = mean_stall_seconds(checkpoint.export, times)
    if times is None or mean is None or times.stall_seconds is None:
        return allowed
    taken: dict[WriteTarget, Numbers] = {"max_overhead_fraction": mean, "max_stall_seconds": times.stall_seconds}
    return {target: np.maximum(0.0, limit - taken.get(target, 0.0)) for target, limit in allowed.items()}


def _limit_mean_save(
    limit: Numbers, writing: StorageProfile | None, workload: CheckpointWorkload
) -> tuple[Numbers, Numbers]:
    """How long the mean save may take where the largest one has a limit, and how much of that a second beside it takes.

    Shared seconds go with the bytes.
    """
    mean, longest = (
        joint_rates(writing, [each.write], direction="write") for each in (workload, workload.longest or workload)
    )
    ratio = np.divide(mean.total_bytes, longest.total_bytes)
    shared = np.maximum(0.0, limit - longest.serial_seconds) * ratio
    return np.where(np.greater(shared, 0), mean.serial_seconds + shared, 0.0), ratio


def _copy_rate(
    targets: Targets,
    writing: StorageProfile | None,
    profile: StorageProfile | None,
    workload: CheckpointWorkload,
    checkpoint: Checkpoint,
    levels: Sequence[TierLevel],
) -> Numbers | None:
    """The min rate of one GPU to its host, where a save stalls for that copy; NaN where none is enough."""
    copying: list[TierLevel] = []
    others: list[TierLevel] = []
    for level in levels:
        is_first_copy = level is levels[0] and level.mode == "async" and level.kind != ARCHIVE
        (copying if level.kind == "host-memory" or is_first_copy else others).append(level)
    periods = [level.interval_seconds for level in copying]
    if not checkpoint.front_tiers:
        periods.append(checkpoint.interval_seconds)
    if not periods:
        return None
    allowed = _allowed_stalls(targets, others, periods=periods)
    exported: Numbers = 0.0
    waits: Numbers = 0.0
    if not checkpoint.front_tiers:
        uncopied = profile and profile.with_rates("write", device_to_host_bytes_per_second=None)
        allowed = _beside_exports(allowed, uncopied, workload, checkpoint)
        steps = stalling_writes(checkpoint.export, workload)
        exported = sum((step.largest_linked_bytes for step in steps), start=np.float64(0.0))
        waits = _stalled_beside_copy_seconds(writing, workload, checkpoint)
    in_memory = any(level.kind == "host-memory" for level in copying)
    copied = workload.write.largest_copied_bytes if in_memory else workload.write.largest_linked_bytes
    shares: dict[WriteTarget, Numbers] = {
        "max_overhead_fraction": 1.0 / (checkpoint.export.every if checkpoint.export else 1)
    }
    rates = (
        min_bytes_per_second(copied + shares.get(target, 1.0) * exported, seconds=seconds, serial_seconds=waits)
        for target, seconds in allowed.items()
    )
    rate = functools.reduce(np.maximum, rates)
    return np.where(np.isfinite(rate), rate, np.nan)


def _stalled_beside_copy_seconds(
    writing: StorageProfile | None, workload: CheckpointWorkload, checkpoint: Checkpoint
) -> Numbers:
    """Plans, and the wait for room in host memory at the rates as given, where there are any."""
    plans = _stalled_by_planning_seconds(writing, workload)
    moved = transfer(writing, [workload.write], direction="write") if writing else None
    if moved is None:
        return plans
    budget = checkpoint.staging_bytes
    return plans + staging_wait_seconds(moved.shared_seconds, staging_bytes=budget, workload=workload)


def with_obstacle(
    required: Required,
    targets: Targets,
    *,
    workload: CheckpointWorkload,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
) -> Required:
    """The block with a sentence that says why no write rate is enough, where none is, and whether cached plans help."""
    if required.write_bytes_per_second is not None:
        return required
    rates, step = profile.write if profile else Rates(), workload.write
    why = f"The {_WRITE_TARGETS[required.write_target]} {_no_rate([step], required.write_seconds, rates)}"
    planning = float(serial_steps(rates, [step]).get("planning", 0.0))
    if planning and rates.planning_seconds_per_rank is None:
        assumed = float(step.planning_seconds_per_rank)
        shorter = (profile or StorageProfile.of()).with_rates(
            "write", planning_seconds_per_rank=assumed * cached_planning_fraction(checkpoint)
        )
        cached = required_of(targets, workload=workload, profile=shorter, checkpoint=checkpoint, reliability=None)
        if cached.write_bytes_per_second is not None:
            told = "" if checkpoint.cached_plans is False else range_text(PLANNING, assumed, per=" per rank")
            rate = min_rate_text(cached.write_bytes_per_second)
            why += (
                f". Planning{told} takes {seconds_text(planning)} of them: for {rate} to be enough give {CACHED_PLANS}"
            )
    return required.model_copy(update={"write_obstacle": why})


def required_warnings(
    required: Required,
    checks: Sequence[TargetCheck],
    *,
    workload: CheckpointWorkload,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
) -> Iterator[str]:
    """Which targets no rate can meet, but for those that are known to be missed: these have a remedy each."""
    missed = {check.target for check in checks if check.met is False}
    if required.write_obstacle is not None and required.write_target not in missed:
        yield required.write_obstacle
    plans = float(_stalled_by_planning_seconds(profile, workload)) if checkpoint.mode == "async" else 0.0
    limits = {check.target: check.wanted for check in checks if check.met is None}
    for target in filter(limits.__contains__, _WRITE_TARGETS):
        limit = limits[target] * (checkpoint.interval_seconds if target == "max_overhead_fraction" else 1.0)
        if plans >= limit:
            is_open = profile is None or profile.write.planning_seconds_per_rank is None
            cached = plans * (cached_planning_fraction(checkpoint) if is_open else 1.0)
            remedy = f". Give {CACHED_PLANS}" if cached < limit else ""
            yield (
                f"The {_WRITE_TARGETS[target]} is not met at any bandwidth: training waits for planning, which "
                f"takes {seconds_text(plans)}{remedy}"
            )
    recovery = next((check for check in checks if check.target == "recovery_seconds"), None)
    if recovery is not None and required.restore_bytes_per_second is None and recovery.target not in missed:
        plan = workload.restores[checkpoint.restore]
        yield f"The max recovery {_no_rate(plan.steps, recovery.wanted, Rates())}"


def _no_rate(steps: Sequence[Demand], seconds: float, rates: Rates) -> str:
    """Say what takes longer than a target leaves, whatever the bandwidth."""
    through_adapters = float(sum(step.network_seconds for step in steps))
    if through_adapters > seconds:
        taken = seconds_text(through_adapters)
        return f"is not met at any bandwidth: the adapters of cluster.storage_nics alone take {taken}"
    of_process = float(sum(step.process_seconds(rates) for step in steps))
    if of_process > seconds:
        assumed, is_given = steps[0].process_bytes_per_second, rates.process_bytes_per_second is not None
        rate = "" if is_given or assumed is None else range_text(ONE_PROCESS, float(assumed))
        return f"is not met at any bandwidth: the process that writes all{rate} alone takes {seconds_text(of_process)}"
    kept: Terms = {}
    for step in steps:
        for resource, in_step in kept_terms(rates, step).items():
            kept[resource] = kept.get(resource, 0.0) + in_step
    if kept and max(kept.values()) > seconds:
        slowest = name_of_max(kept)
        return f"is not met at any bandwidth: {slowest} alone takes {seconds_text(float(kept[slowest]))}"
    return "is not met at any bandwidth: the steps that do not depend on it already take longer"


def _restore_rate(
    targets: Targets,
    workload: CheckpointWorkload,
    profile: StorageProfile | None,
    checkpoint: Checkpoint,
    reliability: Reliability | None,
) -> Numbers | None:
    """The min read rate for the recovery target; NaN where none is enough.

    Nodes and readers first keep the rates as given, as in `solver`; else theirs are raised as well.
    """
    if targets.recovery_seconds is None:
        return None
    plan = (workload.longest or workload).restores[checkpoint.restore]
    size = {"num_nodes": workload.num_nodes, "num_gpus": workload.num_gpus}
    lost = reliability.node_lost_fraction(**size) if reliability else 1.0
    with_nodes = targets.recovery_seconds - wait_after_failure_seconds(reliability, workload=workload)
    before = seconds_before_reading(reliability, node_lost_fraction=lost)
    reading = with_nodes - before - exchange_of(plan, workload)
    if reliability is not None and reliability.restart_seconds is not None:
        is_in_time = np.less_equal(reliability.recovery_seconds(0.0), with_nodes)
        reading = np.where(is_in_time, reading, 0.0)
    joint = joint_rates(profile, plan.steps, direction="read")
    rate: Numbers = np.inf
    for each in joint.alternatives(profile):
        needed = min_bytes_per_second(each.total_bytes, seconds=each.shared_seconds(reading))
        rate = np.where(np.isfinite(rate), rate, needed)
    return np.where(np.isfinite(rate), np.minimum(rate, joint.max_rates[FILE_SYSTEM]), np.nan)
