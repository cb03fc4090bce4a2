"""From workload and the rest of a Scenario to every figure of the run, for one answer or a million rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import Field

from sizing.frameworks.framework import Deletion
from sizing.layout import WritersOnNodes
from sizing.provenance import Assumption
from sizing.run.checkpoint import ARCHIVE, MAIN, Checkpoint
from sizing.run.costs import Cost, Costs, cost_of
from sizing.run.export import Exported, export_of, export_warnings
from sizing.run.failure_process import FailureProcess, Shares
from sizing.run.failures import Reliability, failure_warnings
from sizing.run.interval import (
    Interval,
    Overhead,
    interval_of,
    interval_warnings,
    overhead_of,
    overhead_warnings,
    with_best_intervals,
)
from sizing.run.levels import Level
from sizing.run.recovery import Recovery, failure_process_of, recovery_of, recovery_warnings
from sizing.run.reduction_effect import ReductionEffect, reduction_effect_of, reduction_warnings
from sizing.run.required import Required, required_of, required_warnings
from sizing.run.restore import Restore, restore_of, restore_warnings
from sizing.run.retention import Capacity, CapacityAt, Retention, capacity_of, capacity_over_time, retention_warnings
from sizing.run.targets import TargetCheck, Targets, check_targets
from sizing.run.tier_rows import TierRow, archive_warnings, tier_rows, tier_warnings
from sizing.run.tiers import TierLevel, drain_assumptions
from sizing.run.timing import Timing, timing_of
from sizing.run.workload import CheckpointWorkload
from sizing.run.write import (
    Write,
    cached_planning_fraction,
    remedy_for_notice,
    staging_warnings,
    stall_assumptions,
    write_of,
    write_warnings,
)
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.strict_model import StrictModel
from sizing.units import percent_text


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The blocks of a Scenario that come after its layout. Their numbers may be arrays that broadcast together."""

    checkpoint: Checkpoint
    profile: StorageProfile | None
    reliability: Reliability | None
    retention: Retention
    targets: Targets
    costs: Costs | None = None
    deletion: Deletion = "after-save"


class RunReport(StrictModel):
    """The blocks of the report that come after the layout."""

    write: Write | None = Field(description="Time and rate of one save. Null without a write rate of the storage.")
    restore: Restore = Field(description="What a restart reads, and how long that takes.")
    overhead: Overhead = Field(
        description="Fraction of the time that saving stalls training, with the fraction that failures cost."
    )
    interval: Interval = Field(
        description="Goodput (ETTR) at the interval asked for, and the interval that maximizes it."
    )
    shares: Shares = Field(
        description="Where all of the wall time goes: useful work, saving, work done again, recovery."
    )
    recovery: Recovery | None = Field(
        description="What follows a failure or a preemption. Null without reliability or a write rate."
    )
    required: Required = Field(description="Min rates that meet the targets.")
    tiers: list[TierRow] = Field(
        description="Figures of each tier and of the main storage. Empty when checkpoint.tiers is."
    )
    reduction: ReductionEffect | None = Field(
        description="Saves of less than everything beside saves of everything. Null without checkpoint.reduction."
    )
    export: Exported | None = Field(description="What checkpoint.export writes beside the checkpoint. Null without it.")
    targets: list[TargetCheck] = Field(
        description="Each target that was set, with the figure that it is compared with."
    )
    capacity: Capacity = Field(description="Storage that the kept checkpoints take.")
    capacity_over_time: list[CapacityAt] = Field(
        description="Storage that they take from day to day of the run. Empty without retention.run_seconds or "
        "costs.run_seconds."
    )
    cost: Cost | None = Field(description="What storage and lost GPU time cost. Null without prices.")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The blocks, with arrays for numbers where the inputs have arrays, and what the goodput rests on.

    That are the tiers that failures are recovered from, and the failure process over them: none where write times are
    not known, and no process where failures are not.
    """

    report: RunReport
    levels: tuple[TierLevel, ...]
    process: FailureProcess | None = None


@dataclass(frozen=True, slots=True)
class JudgedTiming:
    """The times of saves and restores, of the mean and of the longest save, and which targets they meet."""

    timing: Timing
    longest: Timing
    targets: list[TargetCheck]

    @property
    def effective_interval_seconds(self) -> Numbers | None:
        """How often the main storage is saved to; None where write times are not known."""
        return self.timing.main.interval_seconds if self.timing.main else None


def judge_targets(workload: CheckpointWorkload, inputs: RunInputs) -> JudgedTiming:
    """What decides the targets: about half of the work of `evaluate`, for a search that asks for no more."""
    timing = time_run(workload, inputs)
    longest = time_run(workload.longest, inputs) if workload.longest else timing
    figures = timing.of_targets | longest.of_one_save
    return JudgedTiming(timing, longest, check_targets(inputs.targets, figures, bounded=timing.bounded_targets))


def time_run(workload: CheckpointWorkload, inputs: RunInputs) -> Timing:
    """The times of saves and restores alone: a quarter of the work of `evaluate`."""
    return timing_of(workload, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability)


def evaluate(workload: CheckpointWorkload, inputs: RunInputs) -> RunFigures:
    """Times, cost to the run, required rates and capacity.

    `Scenario.run_inputs` gives the inputs of one answer; `figures.with_arrays` sets arrays in a Scenario first.
    Which fields are None, the modes and the tiers must be the same for all rows.
    """
    checkpoint, profile, reliability, targets = inputs.checkpoint, inputs.profile, inputs.reliability, inputs.targets
    judged = judge_targets(workload, inputs)
    timing, effective = judged.timing, judged.effective_interval_seconds
    whole = time_run(workload.whole, inputs) if workload.whole else None
    levels, process = timing.levels, timing.process
    best = levels_at_best_intervals(timing, reliability=reliability, workload=workload)
    interval = interval_of(
        levels,
        best=best,
        mtbf_seconds=timing.mtbf_seconds,
        process=process,
        best_process=failure_process_of(best, reliability=reliability, workload=workload),
        interval_seconds=checkpoint.interval_seconds,
        effective_interval_seconds=effective,
        leaves_out_restore=timing.leaves_out_restore,
    )
    if process is not None and reliability is not None:
        interval = interval.model_copy(update={"leaves_out_restart": reliability.leaves_out_restart})
    recovery = recovery_of(process, reliability=reliability, workload=workload, levels=levels)
    interval_seconds = checkpoint.interval_seconds if effective is None else effective
    exported = export_of(
        checkpoint.export, timing.exports, profile, workload=workload, interval_seconds=interval_seconds
    )
    run_seconds = inputs.retention.run_seconds
    if run_seconds is None and inputs.costs:
        run_seconds = inputs.costs.run_seconds
    capacity = capacity_of(
        inputs.retention,
        workload=workload,
        interval_seconds=interval_seconds,
        run_seconds=run_seconds,
        saves_per_day=recovery.saves_per_day if recovery else None,
        export=checkpoint.export,
        exported_bytes_per_save=np.divide(exported.written_bytes, exported.every) if exported else 0.0,
        deletion=inputs.deletion,
    )
    tiers = tier_rows(
        timing.tiers, best=best, process=process, workload=workload, main_stored_bytes=capacity.capacity_bytes
    )
    report = RunReport.model_construct(
        write=write_of(timing.save, workload=workload, checkpoint=checkpoint),
        restore=restore_of(
            timing.restore,
            workload=workload,
            strategy=checkpoint.restore,
            profile=profile,
            write_seconds=timing.save.seconds if timing.save else None,
        ),
        overhead=overhead_of(timing.stalled_fraction, interval, targets),
        interval=interval,
        shares=timing.shares,
        recovery=recovery,
        required=required_of(
            targets, workload=workload, profile=profile, checkpoint=checkpoint, reliability=reliability
        ),
        tiers=tiers,
        targets=judged.targets,
        reduction=reduction_effect_of(
            timing, whole, judged.longest, workload=workload, checkpoint=checkpoint, profile=profile
        ),
        export=exported,
        capacity=capacity,
        capacity_over_time=capacity_over_time(
            capacity, inputs.retention, interval_seconds=interval_seconds, run_seconds=run_seconds
        ),
        cost=cost_of(
            inputs.costs,
            profile=profile,
            capacity=capacity,
            tiers=tiers,
            interval=interval,
            recovery=recovery,
            workload=workload,
        ),
    )
    return RunFigures(report, tuple(levels), process)


def levels_at_best_intervals(
    timing: Timing, *, reliability: Reliability | None, workload: CheckpointWorkload
) -> Sequence[Level]:
    """The tiers that failures are recovered from at their best intervals; none where failures are not known."""
    process = timing.process
    if process is None:
        return []

    def goodput(of_levels: Sequence[Level]) -> Numbers:
        other = failure_process_of(of_levels, reliability=reliability, workload=workload)
        return np.nan if other is None else other.goodput_fraction

    return with_best_intervals(
        timing.levels,
        mtbf_seconds=process.rollback_mtbf_seconds,
        others_per_second=process.others_per_second,
        goodput=goodput,
    )


def run_assumptions(workload: CheckpointWorkload, inputs: RunInputs) -> Iterator[Assumption]:
    """What the figures rest on that neither the scenario nor its defaults state."""
    yield from stall_assumptions(inputs.profile, workload=workload, checkpoint=inputs.checkpoint)
    yield from drain_assumptions(inputs.checkpoint, inputs.reliability, workload=workload)
    yield from workload.assumptions


def run_warnings(
    run: RunReport, inputs: RunInputs, *, workload: CheckpointWorkload, layout: WritersOnNodes
) -> Iterator[str]:
    """What a reader must know before believing the figures of one answer."""
    yield from write_warnings(run.write, layout=layout)
    if run.write is not None:
        waits = run.write.stalled_by_staging_seconds
        yield from staging_warnings(waits, workload=workload, checkpoint=inputs.checkpoint)
    yield from restore_warnings(run.restore, inputs.profile, workload=workload)
    yield from failure_warnings(
        inputs.reliability, num_gpus=workload.num_gpus, max_recovery_seconds=inputs.targets.recovery_seconds
    )
    yield from recovery_warnings(run.recovery, inputs.reliability, workload=workload)
    yield from notice_warnings(run, inputs)
    yield from interval_warnings(
        run.interval,
        run.write,
        wait_seconds=run.recovery.wait_seconds if run.recovery else 0.0,
        preemptions_per_day=(run.recovery.preemptions_per_day or 0.0) if run.recovery else 0.0,
        max_write_seconds=run.reduction.max_write_seconds if run.reduction else None,
    )
    yield from tier_warnings(run.tiers, leaves_out_restore=run.interval.leaves_out_restore)
    yield from archive_warnings(run.tiers, keep_last=inputs.retention.keep_last, deletion=inputs.deletion)
    yield from costly_tier_warnings(run, inputs, workload=workload)
    yield from overhead_warnings(run.overhead, run.interval, reliability=inputs.reliability, restore=run.restore)
    yield from reduction_warnings(run.reduction, workload.chain)
    yield from export_warnings(run.export)
    yield from retention_warnings(inputs.retention, inputs.deletion, run.capacity, weights_bytes=workload.weights_bytes)
    yield from required_warnings(
        run.required, run.targets, workload=workload, profile=inputs.profile, checkpoint=inputs.checkpoint
    )


def notice_warnings(run: RunReport, inputs: RunInputs) -> Iterator[str]:
    """Warn of preemptions that undo work, as no save ends within their notice."""
    preemption = inputs.reliability.preemption if inputs.reliability else None
    if preemption is None or run.recovery is None or run.write is None or run.recovery.saved_in_notice_fraction != 0.0:
        return
    if not preemption.notice_seconds:
        yield (
            "A preemption without notice undoes the work since the newest save. Save more often, or give "
            "reliability.preemption.notice_seconds where there is a notice"
        )
        return
    is_given = inputs.profile is not None and inputs.profile.write.planning_seconds_per_rank is not None
    cached = 1.0 if is_given else cached_planning_fraction(inputs.checkpoint)
    remedy = remedy_for_notice(run.write, notice_seconds=preemption.notice_seconds, cached_fraction=cached)
    yield (
        "A save takes longer than the notice of a preemption, which undoes the work since the newest one. It takes "
        f"{remedy}. To lose less, save more often"
    )


def costly_tier_warnings(run: RunReport, inputs: RunInputs, *, workload: CheckpointWorkload) -> Iterator[str]:
    """Warn of tiers in front of the main storage without which, all else unchanged, the run would lose less."""
    goodput = run.interval.goodput_at_interval_fraction
    for index, row in enumerate(run.tiers):
        if row.kind in (MAIN, ARCHIVE) or not row.used_fraction or goodput is None:
            continue
        tiers = (*inputs.checkpoint.tiers[:index], *inputs.checkpoint.tiers[index + 1 :])
        checkpoint = inputs.checkpoint.model_copy(update={"tiers": tiers})
        without = time_run(workload, replace(inputs, checkpoint=checkpoint))
        if without.goodput_fraction is None or without.leaves_out_restore or without.goodput_fraction <= goodput:
            continue
        with_it, without_it = percent_text(1 - goodput), percent_text(float(1 - without.goodput_fraction))
        if with_it != without_it:
            yield (
                f"The {row.kind} tier costs more than it saves: the run loses {with_it} of its time with it and "
                f"{without_it} without it. Remove it (checkpoint.tiers.{index}), or make its saves or restores faster"
            )
