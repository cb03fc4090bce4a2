"""What saves and restores take, and what that leaves of the run: all that its headline rests on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sizing.run.checkpoint import Checkpoint
from sizing.run.export import ExportTimes, export_times, mean_stall_seconds
from sizing.run.failure_process import UNKNOWN_SHARES, FailureProcess, Shares
from sizing.run.failures import Reliability
from sizing.run.levels import overhead_of_levels_fraction
from sizing.run.recovery import failure_process_of
from sizing.run.restore import RestoreTimes, time_restore
from sizing.run.tiers import (
    TierLevel,
    leaves_out_restore,
    level_of_main_storage,
    levels_of_tiers,
    max_save_stall_seconds,
    up_to_main_storage,
    with_recoveries,
)
from sizing.run.workload import CheckpointWorkload
from sizing.run.write import SaveTimes, time_save, with_copy_rate
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


@dataclass(frozen=True)
class Timing:
    """Times of saves and restores, and what they leave of the run. Numbers are arrays where the inputs have arrays.

    There are no `tiers`, the main storage among them, where its write rate is not known, and no failure `process` where
    that or failures are not known. Where `leaves_out_restore`, the goodput is a max.
    """

    save: SaveTimes | None
    restore: RestoreTimes | None
    exports: ExportTimes | None
    tiers: Sequence[TierLevel]
    mtbf_seconds: Numbers | None
    leaves_out_restore: bool
    process: FailureProcess | None = None

    @property
    def levels(self) -> Sequence[TierLevel]:
        """The tiers that failures are recovered from, the main storage last."""
        return up_to_main_storage(self.tiers)

    @property
    def main(self) -> TierLevel | None:
        """The main storage; None where its write rate is not known."""
        return next((level for level in self.tiers if level.is_main), None)

    @functools.cached_property
    def stalled_fraction(self) -> Numbers | None:
        """Share of the time in which training stands still to save, to all tiers; None where not known."""
        return overhead_of_levels_fraction(self.tiers) if self.tiers else None

    @functools.cached_property
    def max_stall_seconds(self) -> Numbers | None:
        """Max time for which saves stall training at one moment, the export of one that is exported included."""
        if not self.tiers:
            return None
        longest, main = max_save_stall_seconds(self.tiers), self.main
        if main is None or self.exports is None or self.exports.stall_seconds is None:
            return longest
        return longest + np.maximum(0.0, self.exports.stall_seconds - main.export_seconds)

    @functools.cached_property
    def goodput_fraction(self) -> Numbers | None:
        """Share of the time that is useful work."""
        return None if self.process is None else self.process.goodput_fraction

    @functools.cached_property
    def shares(self) -> Shares:
        """Where all of the wall time goes."""
        return UNKNOWN_SHARES if self.process is None else self.process.shares

    @property
    def of_targets(self) -> dict[str, Numbers | None]:
        """The figure that each target is compared with, by the field of the target."""
        return {
            "max_overhead_fraction": self.stalled_fraction,
            **self.of_one_save,
            "min_goodput_fraction": self.goodput_fraction,
        }

    @property
    def of_one_save(self) -> dict[str, Numbers | None]:
        """The figures of the targets that every save has to meet, the longest too."""
        return {
            "max_stall_seconds": self.max_stall_seconds,
            "recovery_seconds": self.restore.time_to_first_step_seconds if self.restore else None,
        }

    @property
    def bounded_targets(self) -> tuple[str, ...]:
        """The targets whose figure may only get worse: they can be missed, but not known to be met."""
        return ("min_goodput_fraction",) if self.leaves_out_restore else ()


def timing_of(
    workload: CheckpointWorkload,
    *,
    checkpoint: Checkpoint,
    profile: StorageProfile | None,
    reliability: Reliability | None,
) -> Timing:
    """What a layout's saves and restores take on a storage profile, and with failures what they leave of the run.

    Raises InvalidInput where a rate is missing that saving needs, or what the recovery strategy needs.
    """
    profile = with_copy_rate(profile, workload=workload, checkpoint=checkpoint)
    save = time_save(profile, workload=workload, checkpoint=checkpoint)
    restore = time_restore(profile, workload=workload, strategy=checkpoint.restore, reliability=reliability)
    exports = export_times(checkpoint.export, profile, workload)
    tiers: Sequence[TierLevel] = ()
    if save is not None:
        stall = mean_stall_seconds(checkpoint.export, exports)
        longest = None
        if workload.longest is not None:
            longest = time_save(profile, workload=workload.longest, checkpoint=checkpoint)
        main = level_of_main_storage(
            save, restore, checkpoint, export_seconds=0.0 if stall is None else stall, longest=longest
        )
        tiers = levels_of_tiers(checkpoint, profile, workload=workload, main=main)
        tiers = with_recoveries(tiers, reliability, checkpoint=checkpoint, workload=workload)
    size = {"num_nodes": workload.num_nodes, "num_gpus": workload.num_gpus}
    return Timing(
        save=save,
        restore=restore,
        exports=exports,
        tiers=tiers,
        mtbf_seconds=None if reliability is None else reliability.job_mtbf_seconds(**size),
        leaves_out_restore=leaves_out_restore(tiers, reliability),
        process=failure_process_of(up_to_main_storage(tiers), reliability=reliability, workload=workload),
    )
