"""What saves and restores take, and what that leaves of the run: all that its headline rests on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.failures import Reliability
from sizing.run.goodput.interval import goodput_of_levels_fraction
from sizing.run.goodput.levels import Level
from sizing.run.goodput.shares import UNKNOWN_SHARES, Shares, shares_of
from sizing.run.restore.restore import Restore, restore_of
from sizing.run.tiers.saved import SavedTier, levels_of, main_times, saved_tiers, stalled_fraction
from sizing.run.write import Write, write_of
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


@dataclass(frozen=True)
class Saving:
    """Write, restore, each tier, and the levels of the goodput; these are none where times or failures are not known.

    Numbers are arrays where the inputs have arrays.
    """

    write: Write | None
    restore: Restore
    saved: Sequence[SavedTier]
    levels: Sequence[Level]
    mtbf_seconds: Numbers | None

    @functools.cached_property
    def stalled_fraction(self) -> Numbers | None:
        """Share of the time in which training stands still to save."""
        return stalled_fraction(self.saved)

    @functools.cached_property
    def goodput_fraction(self) -> Numbers | None:
        """Share of the time that is useful work."""
        if not self.levels or self.mtbf_seconds is None:
            return None
        return goodput_of_levels_fraction(self.levels, mtbf_seconds=self.mtbf_seconds)

    @functools.cached_property
    def shares(self) -> Shares:
        """Where all of the wall time goes."""
        goodput = self.goodput_fraction
        if goodput is None or self.mtbf_seconds is None:
            return UNKNOWN_SHARES
        return shares_of(self.levels, goodput=goodput, mtbf_seconds=self.mtbf_seconds)


def saving_of(
    demands: Demands, *, checkpoint: Checkpoint, profile: StorageProfile | None, reliability: Reliability | None
) -> Saving:
    """What a layout's saves and restores take on a storage profile, and with failures what they leave of the run.

    Raises InvalidInput where a rate is missing that saving needs.
    """
    write = write_of(profile, demands=demands, checkpoint=checkpoint)
    restore = restore_of(profile, demands=demands, strategy=checkpoint.restore, write=write, reliability=reliability)
    times = main_times(write, restore)
    saved = saved_tiers(checkpoint, profile, demands=demands, main=times) if times else []
    return Saving(
        write=write,
        restore=restore,
        saved=saved,
        levels=levels_of(saved, reliability, checkpoint=checkpoint, demands=demands),
        mtbf_seconds=_job_mtbf_seconds(reliability, demands),
    )


def _job_mtbf_seconds(reliability: Reliability | None, demands: Demands) -> Numbers | None:
    if reliability is None:
        return None
    return reliability.job_mtbf_seconds(num_nodes=demands.num_nodes, num_gpus=demands.num_gpus)
