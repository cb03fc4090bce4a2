"""From demands and the rest of a Scenario to every figure of the run, for one answer or a million rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import WritersOnNodes
from sizing.provenance import Assumption
from sizing.run.capacity_over_time import CapacityAt, capacity_over_time
from sizing.run.checkpoint import Checkpoint
from sizing.run.costs import Cost, Costs, cost_of
from sizing.run.demands.demands import Demands
from sizing.run.export.exported import Exported, export_warnings, exported
from sizing.run.failures import Reliability, failure_warnings
from sizing.run.goodput.course import Course
from sizing.run.goodput.interval import Interval, best_levels, interval_of, interval_warnings
from sizing.run.goodput.levels import Level
from sizing.run.goodput.overhead import Overhead, overhead_of, overhead_warnings
from sizing.run.goodput.shares import Shares
from sizing.run.recovery.recovery import Recovery, recovery_of, recovery_warnings
from sizing.run.required import Required, required_of, required_warnings
from sizing.run.restore.restore import Restore, restore_warnings
from sizing.run.retention import Capacity, Retention, capacity_of
from sizing.run.saving import Saving, course_over, saving_of
from sizing.run.savings import Savings, savings_of, savings_warnings
from sizing.run.stall import staging_warnings, stall_assumptions
from sizing.run.targets import TargetCheck, Targets, check_targets
from sizing.run.tiers.drains import drain_assumptions
from sizing.run.tiers.rows import TierRow, tier_rows, tier_warnings
from sizing.run.write import Write, write_warnings
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The blocks of a Scenario that come after its layout. Their numbers may be arrays that broadcast together."""

    checkpoint: Checkpoint
    profile: StorageProfile | None
    reliability: Reliability | None
    retention: Retention
    targets: Targets
    costs: Costs | None = None


class RunReport(BaseModel):
    """The blocks of the report that come after the layout."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    reduction: Savings | None = Field(
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

    That are the levels of saving and the course over them; none where write times or failures are not known.
    """

    report: RunReport
    levels: tuple[Level, ...]
    course: Course | None = None


@dataclass(frozen=True, slots=True)
class Saved:
    """What saves and restores take, of the mean and of the longest save, and which targets they meet."""

    saving: Saving
    longest: Saving
    targets: list[TargetCheck]

    @property
    def effective_interval_seconds(self) -> Numbers | None:
        """How often the main storage is saved to; None where write times are not known."""
        return next((one.effective_interval_seconds for one in self.saving.saved if one.tier is None), None)


def saved(demands: Demands, inputs: RunInputs) -> Saved:
    """What decides the targets: about half of the work of `evaluate`, for a search that asks for no more."""
    saving = _saving_of(demands, inputs)
    longest = _saving_of(demands.longest, inputs) if demands.longest else saving
    found = saving.of_targets | longest.of_one_save
    return Saved(saving, longest, check_targets(inputs.targets, found, bounded=saving.bounded_targets))


def _saving_of(demands: Demands, inputs: RunInputs) -> Saving:
    return saving_of(demands, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability)


def evaluate(demands: Demands, inputs: RunInputs) -> RunFigures:
    """Times, cost to the run, required rates and capacity.

    `Scenario.run_inputs` gives the inputs of one answer; `figures.with_arrays` sets arrays in a Scenario first.
    Which fields are None, the modes and the tiers must be the same for all rows.
    """
    checkpoint, profile, reliability, targets = inputs.checkpoint, inputs.profile, inputs.reliability, inputs.targets
    found = saved(demands, inputs)
    saving, effective = found.saving, found.effective_interval_seconds
    whole = _saving_of(demands.whole, inputs) if demands.whole else None
    levels, course = saving.levels, saving.course
    best = best_levels(levels, mtbf_seconds=course.rollback_mtbf_seconds) if course else []
    interval = interval_of(
        levels,
        best=best,
        mtbf_seconds=saving.mtbf_seconds,
        course=course,
        best_course=course_over(best, reliability=reliability, demands=demands),
        interval_seconds=checkpoint.interval_seconds,
        effective_interval_seconds=effective,
        leaves_out_restore=saving.leaves_out_restore,
    )
    recovery = recovery_of(course, reliability=reliability, demands=demands, levels=levels)
    overhead = overhead_of(saving.stalled_fraction, interval, targets)
    period = checkpoint.interval_seconds if effective is None else effective
    num_exports = checkpoint.export.keep + 1 if checkpoint.export else 0
    capacity = capacity_of(inputs.retention, demands=demands, interval_seconds=period, num_exports=num_exports)
    tiers = tier_rows(saving.saved, levels, best=best, demands=demands, main_stored_bytes=capacity.capacity_bytes)
    report = RunReport.model_construct(
        write=saving.write,
        restore=saving.restore,
        overhead=overhead,
        interval=interval,
        shares=saving.shares,
        recovery=recovery,
        required=required_of(targets, demands=demands, profile=profile, checkpoint=checkpoint, reliability=reliability),
        tiers=tiers,
        targets=found.targets,
        reduction=savings_of(saving, whole, found.longest, demands=demands, checkpoint=checkpoint, profile=profile),
        export=exported(checkpoint.export, saving.exports, profile, demands=demands, interval_seconds=period),
        capacity=capacity,
        capacity_over_time=capacity_over_time(
            capacity,
            inputs.retention,
            interval_seconds=period,
            run_seconds=_run_seconds(inputs),
        ),
        cost=cost_of(
            inputs.costs,
            profile=profile,
            capacity=capacity,
            tiers=tiers,
            interval=interval,
            recovery=recovery,
            demands=demands,
        ),
    )
    return RunFigures(report, tuple(levels), course)


def _run_seconds(inputs: RunInputs) -> Numbers | None:
    """How long the run is: as retention says it, else as costs do."""
    if inputs.retention.run_seconds is not None:
        return inputs.retention.run_seconds
    return inputs.costs.run_seconds if inputs.costs else None


def run_assumptions(demands: Demands, inputs: RunInputs) -> Iterator[Assumption]:
    """What the figures rest on that neither the scenario nor its defaults state."""
    yield from stall_assumptions(inputs.profile, demands=demands, checkpoint=inputs.checkpoint)
    yield from drain_assumptions(inputs.checkpoint, inputs.reliability, demands=demands)
    yield from demands.assumptions


def run_warnings(run: RunReport, inputs: RunInputs, *, demands: Demands, layout: WritersOnNodes) -> Iterator[str]:
    """What a reader must know before believing the figures of one answer."""
    yield from write_warnings(run.write, layout=layout)
    if run.write is not None:
        waits = run.write.stalled_by_staging_seconds
        yield from staging_warnings(waits, demands=demands, checkpoint=inputs.checkpoint)
    yield from restore_warnings(run.restore, inputs.profile, demands=demands)
    yield from failure_warnings(
        inputs.reliability, num_gpus=demands.num_gpus, max_recovery_seconds=inputs.targets.recovery_seconds
    )
    yield from recovery_warnings(run.recovery)
    yield from interval_warnings(
        run.interval, run.write, wait_seconds=run.recovery.wait_seconds if run.recovery else 0.0
    )
    yield from tier_warnings(run.tiers)
    yield from overhead_warnings(run.overhead, run.interval, reliability=inputs.reliability, restore=run.restore)
    yield from savings_warnings(run.reduction)
    yield from export_warnings(run.export)
    yield from required_warnings(run.required, run.targets, demands=demands, checkpoint=inputs.checkpoint)
