"""What saves and restores take, and what that leaves of the run: all that its headline rests on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.run.checkpoint import Checkpoint
from sizing.run.demands.demands import Demands
from sizing.run.export.exported import ExportTimes, export_times, mean_stall_seconds
from sizing.run.failures import Reliability
from sizing.run.goodput.course import Course
from sizing.run.goodput.levels import Level
from sizing.run.goodput.shares import UNKNOWN_SHARES, Shares
from sizing.run.recovery.recovery import course_of
from sizing.run.restore.restore import Restore, restore_of
from sizing.run.tiers.saved import (
    SavedTier,
    leaves_out_restore,
    levels_of,
    main_times,
    max_save_stall_seconds,
    saved_tiers,
    stalled_fraction,
)
from sizing.run.write import Write, write_of
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


@dataclass(frozen=True)
class Saving:
    """Write, restore, exports, each tier, the levels of the goodput, and the course of the run over them.

    There are no levels, and no course, where times or failures are not known. Where `leaves_out_restore`, the goodput
    is a max. Numbers are arrays where the inputs have arrays.
    """

    write: Write | None
    restore: Restore
    exports: ExportTimes | None
    saved: Sequence[SavedTier]
    levels: Sequence[Level]
    mtbf_seconds: Numbers | None
    leaves_out_restore: bool
    course: Course | None = None

    @functools.cached_property
    def stalled_fraction(self) -> Numbers | None:
        """Share of the time in which training stands still to save."""
        return stalled_fraction(self.saved)

    @functools.cached_property
    def max_stall_seconds(self) -> Numbers | None:
        """The max time for which one save stalls training, the export of one that is exported included."""
        longest = max_save_stall_seconds(self.saved)
        main = next((one for one in self.saved if one.tier is None), None)
        if longest is None or main is None or self.exports is None or self.exports.stall_seconds is None:
            return longest
        with_export = main.times.stall_seconds - main.times.export_seconds + self.exports.stall_seconds
        return np.maximum(longest, with_export)

    @functools.cached_property
    def goodput_fraction(self) -> Numbers | None:
        """Share of the time that is useful work."""
        return None if self.course is None else self.course.goodput_fraction

    @property
    def of_targets(self) -> dict[str, Numbers | None]:
        """The figure that each target is compared with, by the field of the target."""
        return {
            "max_overhead_fraction": self.stalled_fraction,
            **self.of_one_save,
            "min_goodput_fraction": self.goodput_fraction,
        }

    @property
    def bounded_targets(self) -> tuple[str, ...]:
        """The targets whose figure may only get worse: they can be missed, but not known to be met."""
        return ("min_goodput_fraction",) if self.leaves_out_restore else ()

    @property
    def of_one_save(self) -> dict[str, Numbers | None]:
        """Those that every save has to meet, the longest too."""
        return {
            "max_stall_seconds": self.max_stall_seconds,
            "recovery_seconds": self.restore.time_to_first_step_seconds,
        }

    @functools.cached_property
    def shares(self) -> Shares:
        """Where all of the wall time goes."""
        return UNKNOWN_SHARES if self.course is None else self.course.shares


def saving_of(
    demands: Demands, *, checkpoint: Checkpoint, profile: StorageProfile | None, reliability: Reliability | None
) -> Saving:
    """What a layout's saves and restores take on a storage profile, and with failures what they leave of the run.

    Raises InvalidInput where a rate is missing that saving needs, or what the recovery strategy needs.
    """
    write = write_of(profile, demands=demands, checkpoint=checkpoint)
    restore = restore_of(profile, demands=demands, strategy=checkpoint.restore, write=write, reliability=reliability)
    exports = export_times(checkpoint.export, profile, demands)
    stalled_by_export = mean_stall_seconds(checkpoint.export, exports)
    times = main_times(write, restore, export_seconds=0.0 if stalled_by_export is None else stalled_by_export)
    saved = saved_tiers(checkpoint, profile, demands=demands, main=times) if times else []
    levels, mtbf = levels_of(saved, reliability, checkpoint=checkpoint, demands=demands), _mtbf(reliability, demands)
    return Saving(
        write=write,
        restore=restore,
        exports=exports,
        saved=saved,
        levels=levels,
        mtbf_seconds=mtbf,
        leaves_out_restore=leaves_out_restore(saved, reliability),
        course=course_over(levels, reliability=reliability, demands=demands),
    )


def course_over(levels: Sequence[Level], *, reliability: Reliability | None, demands: Demands) -> Course | None:
    """The course of a run that saves to some levels; None without levels or failures.

    Raises InvalidInput where the recovery strategy lacks what it needs.
    """
    mtbf = _mtbf(reliability, demands)
    if reliability is None or mtbf is None or not levels:
        return None
    return course_of(reliability, demands=demands, levels=levels, mtbf_seconds=mtbf)


def _mtbf(reliability: Reliability | None, demands: Demands) -> Numbers | None:
    if reliability is None:
        return None
    return reliability.job_mtbf_seconds(num_nodes=demands.num_nodes, num_gpus=demands.num_gpus)
