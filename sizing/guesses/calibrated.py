"""What an answer may be within the intervals of a calibration: its times and rates, and the figures that follow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sizing.guesses.figures import LOST, figures_as_reported, figures_of_timing
from sizing.run.evaluation import RunInputs, RunReport, judge_targets
from sizing.run.targets import TargetCheck
from sizing.run.workload import CheckpointWorkload
from sizing.storage import calibration as calibrations  # of which `predict` is loaded when it is first called
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, Direction
from sizing.storage.storage import ResolvedStorage
from sizing.storage.terms import Demand
from sizing.storage.transfer import Numbers

Intervals = dict[str, tuple[float, float]]

_AT_WORST = {LOST: 1.0, "min_goodput_fraction": 0.0}
"""Figures of a run that never advances, for which the formulas have no number."""


@dataclass(frozen=True, slots=True)
class CalibratedIntervals:
    """Intervals of the figures of a report, by path, and of the figures of its targets, by the field of the target."""

    figures: Intervals = field(default_factory=dict)
    of_targets: Intervals = field(default_factory=dict)

    def add_to(self, checks: Iterable[TargetCheck]) -> list[TargetCheck]:
        """Add to each target the interval of its figure."""
        return [
            check.model_copy(update={"found_interval": self.of_targets[check.target]})
            if check.target in self.of_targets
            else check
            for check in checks
        ]


def calibrated_intervals(
    storage: ResolvedStorage | None, workload: CheckpointWorkload, inputs: RunInputs, run: RunReport
) -> CalibratedIntervals:
    """Return the 90 % intervals of calibrated times and rates, and of what follows; empty without a calibration.

    A rate is bytes over time, so the ends of its interval change places. The calibration has not seen copies from
    device to host and exchanges between nodes: their times have no interval and are added to both ends. Other figures
    have the least and the largest value over four answers: writes at either end of their interval with restores as
    predicted, then restores at either end.
    """
    calibration = storage.calibration if storage else None
    if calibration is None or inputs.profile is None:
        return CalibratedIntervals()
    steps = workload.steps(inputs.checkpoint.restore)
    found = {name: calibrations.predict(calibration, steps[name], direction=name) for name in DIRECTIONS}
    predictions = {direction: prediction for direction, prediction in found.items() if prediction is not None}
    profile = profile_at_ends(inputs.profile, predictions, steps)
    with np.errstate(divide="ignore", invalid="ignore"):  # a rank may have nothing to read
        judged = judge_targets(workload, replace(inputs, profile=profile))
        figures = figures_of_timing(judged.timing)
    own_targets = {check.target: check.found for check in run.targets if check.found is not None}
    return CalibratedIntervals(
        _hulls(figures_as_reported(run, workload), figures) | intervals_of_times(predictions, workload, run),
        _hulls(own_targets, {check.target: check.found for check in judged.targets}),
    )


def profile_at_ends(
    profile: StorageProfile,
    predictions: Mapping[Direction, calibrations.Prediction],
    steps: Mapping[Direction, Iterable[Demand]],
) -> StorageProfile:
    """Return the profile in rows: each direction so much slower or faster that it ends where its interval does.

    Planning and the work of one process that the rates leave open are part of the predicted time, so they scale too.
    Adapters that the cluster states do not.
    """
    for place, (direction, prediction) in enumerate(predictions.items()):
        first, rates = next(iter(steps[direction])), profile.rates(direction)
        if rates.planning_seconds_per_rank is None and np.any(first.planning_seconds_per_rank):
            rates = rates._replace(planning_seconds_per_rank=first.planning_seconds_per_rank)
        rates = rates._replace(process_bytes_per_second=first.process_bytes_per_second_at(rates))
        factors = np.ones(2 * len(predictions))
        factors[2 * place : 2 * place + 2] = np.divide(prediction.ends_seconds(), float(prediction.seconds))
        profile = profile.model_copy(update=rates.slowed(factors).document(direction))
    return profile


def _hulls(own: Mapping[str, float], rows: Mapping[str, Numbers | None]) -> Intervals:
    """Return the least and the largest value of each figure, its own among them, where they differ."""
    hulls: Intervals = {}
    for path, value in own.items():
        found = rows.get(path)
        if found is None:
            continue
        numbers = np.append(np.where(np.isnan(found), _AT_WORST.get(path, value), found), value)
        finite = numbers[np.isfinite(numbers)]
        if finite.min() < finite.max():
            hulls[path] = (float(finite.min()), float(finite.max()))
    return hulls


def intervals_of_times(
    predictions: Mapping[Direction, calibrations.Prediction], workload: CheckpointWorkload, run: RunReport
) -> Intervals:
    """Return the intervals of the predicted times, and of the rates that go with them."""
    intervals: Intervals = {}
    write, restore = run.write, run.restore
    writing, reading = predictions.get("write"), predictions.get("read")
    if writing is not None and write is not None:
        low, high = writing.ends_seconds(also=write.seconds - float(writing.seconds))
        intervals["write.seconds"] = (low, high)
        intervals["write.bytes_per_second"] = (workload.written_bytes / high, workload.written_bytes / low)
    if reading is not None and restore.seconds is not None:
        intervals["restore.seconds"] = reading.ends_seconds(also=restore.exchange_seconds or 0.0)
        low, high = reading.ends_seconds()
        intervals["restore.bytes_per_second"] = (restore.read_bytes / high, restore.read_bytes / low)
    return intervals
