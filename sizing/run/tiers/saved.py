"""When each tier is saved to and how long that takes, and the levels of the run's goodput that follow."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sizing.errors import InvalidInput
from sizing.layout.formats import Mode
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.failures import LossDomain, Reliability
from sizing.run.goodput.levels import Level
from sizing.run.goodput.overhead import overhead_fraction
from sizing.run.goodput.single_level import effective_interval_seconds
from sizing.run.restore.restore import Restore
from sizing.run.tier import ARCHIVE, ROUNDING, Tier, TierKind
from sizing.run.tiers.drains import outlived_fraction, share_of_outlived
from sizing.run.tiers.times import TierTimes, tier_times
from sizing.run.write import Write
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class SavedTier:
    """A tier and its times; the main storage where `tier` is None."""

    tier: Tier | None
    mode: Mode
    interval_seconds: Numbers
    effective_interval_seconds: Numbers
    times: TierTimes

    @property
    def kind(self) -> TierKind | Literal["storage"]:
        """Of the tier."""
        return self.tier.kind if self.tier else "storage"

    @property
    def num_copies(self) -> int:
        """All copies of a checkpoint that it keeps."""
        return self.tier.num_copies if self.tier else 1

    @property
    def domain(self) -> LossDomain:
        """What takes its copies with it."""
        return self.tier.domain if self.tier else "site"

    @property
    def stalled_fraction(self) -> Numbers:
        """Share of the time in which training stands still to save to it."""
        return overhead_fraction(self.times.stall_seconds, interval_seconds=self.effective_interval_seconds)


def main_times(write: Write | None, restore: Restore, *, export_seconds: Numbers = 0.0) -> TierTimes | None:
    """The times of the main storage, None where its write rate is not known; exports stall as much per save.

    Source: `write.write_of` and `restore.restore_of`.
    """
    if write is None:
        return None
    return TierTimes(
        write.stall_seconds + export_seconds,
        write.drain_seconds,
        restore.seconds,
        write.stalled_by_planning_seconds,
        write.stalled_by_staging_seconds,
        export_seconds,
    )


def saved_tiers(
    checkpoint: Checkpoint, profile: StorageProfile | None, *, demands: Demands, main: TierTimes
) -> list[SavedTier]:
    """The tiers in front of the main storage, itself with its times, and those behind it.

    An interval is no number in rows of arrays where it is not longer than that of the tier before.
    """
    saved: list[SavedTier] = []
    for tier in (*checkpoint.front_tiers, None, *checkpoint.archives):
        mode = _mode(tier, checkpoint)
        asked = tier.interval_seconds if tier else checkpoint.interval_seconds
        if tier is None:
            times = main if mode == "sync" or not saved else main.behind_a_tier
        else:
            times = tier_times(
                tier,
                mode,
                profile,
                demands=demands if tier.kind == ARCHIVE else demands.unreduced,
                strategy=checkpoint.restore,
                staging_bytes=checkpoint.staging_bytes,
                is_first=not saved,
            )
        period = effective_interval_seconds(asked, stall_seconds=times.stall_seconds, drain_seconds=times.drain_seconds)
        if saved:
            before = saved[-1]
            in_order = np.greater_equal(asked, before.interval_seconds)
            period = np.where(in_order, _period_behind(before, asked=asked, period=period), np.nan)
        saved.append(SavedTier(tier, mode, asked, period, times))
    return saved


def _period_behind(before: SavedTier, *, asked: Numbers, period: Numbers) -> Numbers:
    """The interval in effect behind another tier: where its own drain has lengthened it, a whole multiple again.

    Behind a tier that is held up itself it is at least as long as that tier's.
    """
    step = before.effective_interval_seconds
    whole = np.ceil(np.divide(period, step) * (1 - ROUNDING)) * step
    is_lengthened = np.greater(period, asked) & np.less_equal(step, before.interval_seconds)
    return np.where(is_lengthened, whole, np.maximum(period, step))


def _mode(tier: Tier | None, checkpoint: Checkpoint) -> Mode:
    """How training goes on during a save; what stands behind the main storage is copied to from there."""
    if tier is not None and tier.kind == ARCHIVE:
        return "async"
    return (tier.mode if tier else None) or checkpoint.mode


def levels_of(
    saved: Sequence[SavedTier], reliability: Reliability | None, *, checkpoint: Checkpoint, demands: Demands
) -> list[Level]:
    """What the goodput is computed from: the tiers up to the main storage; none where failures are not known."""
    if reliability is None:
        return []
    levels: list[Level] = []
    recovered: Numbers = 0.0
    outlived = outlived_fraction(checkpoint, reliability, demands=demands)
    for one in saved:
        if one.tier is not None and one.tier.kind == ARCHIVE:
            break
        fraction = recovered_fraction(one.tier, reliability, index=len(levels), demands=demands)
        used, reading = np.maximum(0.0, fraction - recovered), _known(one.times.read_seconds)
        recovery = reliability.recovery_seconds(reading)
        levels.append(
            Level(
                interval_seconds=one.effective_interval_seconds,
                stall_seconds=one.times.stall_seconds,
                drain_seconds=one.times.drain_seconds,
                recovery_seconds=recovery,
                used_fraction=used,
                outlived_fraction=share_of_outlived(outlived, begins=recovered, used=used),
                waiting_seconds=np.maximum(0.0, recovery - reading - reliability.skipping_seconds),
            )
        )
        recovered = np.maximum(recovered, fraction)
    if checkpoint.drain_survives is None and not demands.defaults.loses_drains:
        return [*(replace(level, outlived_fraction=1.0, waiting_seconds=0.0) for level in levels[:-1]), *levels[-1:]]
    return levels


def leaves_out_restore(saved: Sequence[SavedTier], reliability: Reliability | None) -> bool:
    """Whether the levels recover without the time of a restore, which neither a read rate nor a measured restart gives.

    >>> leaves_out_restore([], Reliability(mtbf_seconds=3600))
    False
    """
    if reliability is None or reliability.restart_seconds is not None:
        return False
    return any(one.times.read_seconds is None for one in saved if one.kind != ARCHIVE)


def recovered_fraction(tier: Tier | None, reliability: Reliability, *, index: int, demands: Demands) -> Numbers:
    """Share of all failures whose work the tier's copies survive; all of them for the main storage, None.

    Source: `recovered_fraction` of the tier, else the failures of components that take down less than its loss
    domain; failures that the main storage does not survive are not counted as failures of the job.
    Raises InvalidInput where neither says.

    >>> from sizing.run.tier import Tier
    >>> from sizing.units import SECONDS_PER_HOUR
    >>> tier = Tier(kind="host-memory", interval_seconds=60, recovered_fraction=0.7)
    >>> recovered_fraction(tier, Reliability(mtbf_seconds=SECONDS_PER_HOUR), index=0, demands=None)
    0.7
    """
    if tier is None:
        return 1.0
    if tier.recovered_fraction is not None:
        return tier.recovered_fraction
    fraction = reliability.smaller_than_fraction(tier.domain, num_nodes=demands.num_nodes, num_gpus=demands.num_gpus)
    if fraction is None:
        raise InvalidInput.of(
            f"checkpoint.tiers.{index}.recovered_fraction",
            "is required, as reliability does not say which parts fail",
            value=None,
            remedy="give the fraction of failures that it survives, or reliability.components with their loss_domain",
        )
    return fraction


def stalled_fraction(saved: Sequence[SavedTier]) -> Numbers | None:
    """Share of the time in which training stands still to save, to all tiers; None where not known.

    Source: `overhead.overhead_fraction` of each, added up.

    >>> stalled_fraction([])
    """
    return sum((one.stalled_fraction for one in saved), 0.0) if saved else None


def max_save_stall_seconds(saved: Sequence[SavedTier]) -> Numbers | None:
    """The max time for which one save stalls training; None where not known.

    Source: definition.

    >>> max_save_stall_seconds([])
    """
    return functools.reduce(np.maximum, (one.times.stall_seconds for one in saved)) if saved else None


def _known(seconds: Numbers | None) -> Numbers:
    return 0.0 if seconds is None else seconds
