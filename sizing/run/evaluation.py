"""From demands and the rest of a Scenario to every figure of the run, for one answer or a million rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import Layout
from sizing.provenance import Assumption
from sizing.run.checkpoint import Checkpoint
from sizing.run.costs import Cost, Costs, cost_of
from sizing.run.demands.demands import Demands
from sizing.run.failures import Reliability, failure_warnings
from sizing.run.goodput.interval import Interval, best_levels, interval_of, interval_warnings
from sizing.run.goodput.levels import Level
from sizing.run.goodput.overhead import Overhead, overhead_of, overhead_warnings
from sizing.run.goodput.shares import Shares
from sizing.run.required import Required, required_of, required_warnings
from sizing.run.restore.restore import Restore, restore_warnings
from sizing.run.retention import Capacity, Retention, capacity_of
from sizing.run.saving import saving_of
from sizing.run.stall import staging_warnings, stall_assumptions
from sizing.run.targets import TargetCheck, Targets, check_targets
from sizing.run.tiers.drains import drain_assumptions
from sizing.run.tiers.rows import TierRow, tier_rows, tier_warnings
from sizing.run.tiers.saved import max_save_stall_seconds
from sizing.run.write import Write, write_warnings
from sizing.storage.profile import StorageProfile


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
    required: Required = Field(description="Min rates that meet the targets.")
    tiers: list[TierRow] = Field(
        description="Figures of each tier and of the main storage. Empty when checkpoint.tiers is."
    )
    targets: list[TargetCheck] = Field(
        description="Each target that was set, with the figure that it is compared with."
    )
    capacity: Capacity = Field(description="Storage that the kept checkpoints take.")
    cost: Cost | None = Field(description="What storage and lost GPU time cost. Null without prices.")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The blocks, with arrays for numbers where the inputs have arrays, and the levels that the goodput rests on.

    `levels` are none where write times or failures are not known.
    """

    report: RunReport
    levels: tuple[Level, ...]


def evaluate(demands: Demands, inputs: RunInputs) -> RunFigures:
    """Times, cost to the run, required rates and capacity.

    `Scenario.run_inputs` gives the inputs of one answer; `figures.with_arrays` sets arrays in a Scenario first.
    Which fields are None, the modes and the tiers must be the same for all rows.
    """
    checkpoint, profile, reliability, targets = inputs.checkpoint, inputs.profile, inputs.reliability, inputs.targets
    saving = saving_of(demands, checkpoint=checkpoint, profile=profile, reliability=reliability)
    write, restore, saved, levels, mtbf = saving.write, saving.restore, saving.saved, saving.levels, saving.mtbf_seconds
    main = next((one for one in saved if one.tier is None), None)
    best = best_levels(levels, mtbf_seconds=mtbf) if levels and mtbf is not None else []
    interval = interval_of(
        levels,
        best=best,
        mtbf_seconds=mtbf,
        interval_seconds=checkpoint.interval_seconds,
        effective_interval_seconds=main.effective_interval_seconds if main else None,
    )
    overhead = overhead_of(saving.stalled_fraction, interval, targets)
    capacity = capacity_of(
        inputs.retention,
        demands=demands,
        interval_seconds=main.effective_interval_seconds if main else checkpoint.interval_seconds,
    )
    report = RunReport.model_construct(
        write=write,
        restore=restore,
        overhead=overhead,
        interval=interval,
        shares=saving.shares,
        required=required_of(targets, demands=demands, profile=profile, checkpoint=checkpoint, reliability=reliability),
        tiers=tier_rows(saved, levels, best=best, demands=demands, main_stored_bytes=capacity.capacity_bytes),
        targets=check_targets(
            targets,
            overhead_fraction=overhead.fraction,
            stall_seconds=max_save_stall_seconds(saved),
            goodput_fraction=interval.goodput_at_interval_fraction,
            recovery_seconds=restore.time_to_first_step_seconds,
        ),
        capacity=capacity,
        cost=cost_of(inputs.costs, profile=profile, capacity=capacity, interval=interval, demands=demands),
    )
    return RunFigures(report, tuple(levels))


def run_assumptions(demands: Demands, inputs: RunInputs) -> Iterator[Assumption]:
    """What the figures rest on that neither the scenario nor its defaults state."""
    yield from stall_assumptions(inputs.profile, demands=demands, checkpoint=inputs.checkpoint)
    yield from drain_assumptions(inputs.checkpoint, inputs.reliability, demands=demands)


def run_warnings(run: RunReport, inputs: RunInputs, *, demands: Demands, layout: Layout) -> Iterator[str]:
    """What a reader must know before believing the figures of one answer."""
    yield from write_warnings(run.write, layout=layout)
    if run.write is not None:
        waits = run.write.stalled_by_staging_seconds
        yield from staging_warnings(waits, demands=demands, checkpoint=inputs.checkpoint)
    yield from restore_warnings(run.restore, inputs.profile, demands=demands)
    yield from failure_warnings(
        inputs.reliability, num_gpus=demands.num_gpus, max_recovery_seconds=inputs.targets.recovery_seconds
    )
    yield from interval_warnings(run.interval, run.write)
    yield from tier_warnings(run.tiers)
    yield from overhead_warnings(run.overhead, run.interval, reliability=inputs.reliability, restore=run.restore)
    yield from required_warnings(run.required, inputs.targets, demands=demands, checkpoint=inputs.checkpoint)
