"""Figures of a report that guesses move: the headline and the figures beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from sizing.field_paths import value_at
from sizing.guesses.guess import Headline
from sizing.run.evaluation import RunInputs, RunReport
from sizing.run.interval import with_best_intervals
from sizing.run.required import required_of
from sizing.run.timing import Timing
from sizing.run.workload import CheckpointWorkload
from sizing.storage.transfer import Numbers

LOST = "interval.lost_at_interval_fraction"
OVERHEAD = "overhead.fraction"
BYTES = "checkpoint.written_bytes"
BEST_INTERVAL = "interval.optimal_period_seconds"

REQUIRED = ("required.write_bytes_per_second", "required.restore_bytes_per_second")
"""Rates that the targets require: infinite where no rate is enough."""

_Value = TypeVar("_Value")

HEADLINES: Mapping[str, str] = {LOST: "lost time", OVERHEAD: "overhead", BYTES: "checkpoint size"}
"""The figures that can be the headline, the first that is known is; each with its words."""


def _find_best_interval(timing: Timing) -> Numbers | None:
    """Find the interval of least loss, in seconds; None with tiers, where it takes a search."""
    if len(timing.levels) != 1 or timing.process is None:
        return None
    return with_best_intervals(timing.levels, mtbf_seconds=timing.process.rollback_mtbf_seconds)[-1].interval_seconds


_OF_TIMING: dict[str, Callable[[Timing], Numbers | None]] = {
    LOST: lambda timing: None if timing.goodput_fraction is None else 1 - timing.goodput_fraction,
    OVERHEAD: lambda timing: timing.stalled_fraction,
    "write.seconds": lambda timing: timing.save.seconds if timing.save else None,
    "write.stall_seconds": lambda timing: timing.save.stall_seconds if timing.save else None,
    "export.seconds": lambda timing: timing.exports.seconds if timing.exports else None,
    "restore.seconds": lambda timing: timing.restore.seconds if timing.restore else None,
    "restore.time_to_first_step_seconds": lambda timing: timing.of_targets["recovery_seconds"],
    BEST_INTERVAL: _find_best_interval,
    "shares.saving_fraction": lambda timing: timing.shares.saving_fraction,
    "shares.redone_fraction": lambda timing: timing.shares.redone_fraction,
    "shares.recovering_fraction": lambda timing: timing.shares.recovering_fraction,
}


def figures_of(timing: Timing, workload: CheckpointWorkload, inputs: RunInputs) -> dict[str, Numbers]:
    """Return every known figure by its dotted path in the report, as arrays where the inputs were arrays."""
    return figures_without_storage(workload, inputs) | figures_of_timing(timing)


def figures_of_timing(timing: Timing) -> dict[str, Numbers]:
    """Return the known figures that follow from the times of saves and restores."""
    return _drop_unknown({path: read(timing) for path, read in _OF_TIMING.items()})


def figures_without_storage(workload: CheckpointWorkload, inputs: RunInputs) -> dict[str, Numbers]:
    """Return the figures that need no storage: bytes, and the rates that the targets require."""
    required = required_of(
        inputs.targets,
        workload=workload,
        profile=inputs.profile,
        checkpoint=inputs.checkpoint,
        reliability=inputs.reliability,
    )
    rates = _drop_unknown({path: value_at(required, path.removeprefix("required.")) for path in REQUIRED})
    enough: dict[str, Numbers] = {path: np.where(np.isnan(rate), np.inf, rate) for path, rate in rates.items()}
    return {BYTES: workload.unreduced_bytes} | enough


def figures_as_reported(run: RunReport, workload: CheckpointWorkload) -> dict[str, float]:
    """Return the figures of a report by dotted path."""
    paths = (*_OF_TIMING, *REQUIRED)
    return _drop_unknown({BYTES: float(workload.unreduced_bytes)} | {path: value_at(run, path) for path in paths})


def headline_of(figures: Mapping[str, float], run: RunReport) -> Headline:
    """Return the first known headline figure of a run."""
    path = next(path for path in HEADLINES if path in figures)
    is_bound = path == LOST and run.interval.leaves_out_restore
    return Headline(figure=path, value=figures[path], leaves_out_restore=is_bound)


def headline_words(headline: Headline) -> str:
    """Name the headline and say whether it leaves out the restore.

    >>> headline_words(Headline(figure=LOST, value=0.1, leaves_out_restore=True))
    'lost time without the restore'
    """
    return HEADLINES[headline.figure] + (" without the restore" if headline.leaves_out_restore else "")


def _drop_unknown(figures: Mapping[str, _Value | None]) -> dict[str, _Value]:
    return {path: value for path, value in figures.items() if value is not None}
