"""A Monte Carlo of a run that shrinks: groups fail one by one, are repaired, and come back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sizing.run.goodput.course import Course, Groups
from sizing.run.goodput.levels import overhead_of_levels_fraction
from sizing.run.simulation.monte_carlo import SimulatedRuns

Floats = npt.NDArray[np.float64]


def simulate_groups(
    course: Course,
    groups: Groups,
    *,
    run_seconds: float,
    num_runs: int,
    seed: int,
    progress: Callable[[float], None] | None = None,
) -> SimulatedRuns:
    """Runs of `run_seconds` and up to one failure more, whose wall time is that of all groups together.

    Every failure draws the group that it strikes; one in repair already is not struck. The others stop for the time of
    the front level, and lose the step under way. Repairs are drawn as exponential. A failure of more than a group, or
    of the last one, brings all groups back to the start of the interval of the main storage.
    """
    runs = _ShrinkingRuns(course, groups, num_runs=num_runs, random=np.random.default_rng(seed))
    while (passed := float(runs.wall.min())) < run_seconds:
        runs.pass_one_failure()
        if progress is not None:
            progress(min(1.0, passed / run_seconds))
    saving = runs.kept * runs.overhead
    return SimulatedRuns(runs.wall, runs.kept - saving, saving, runs.recovering, runs.num_failures)


class _ShrinkingRuns:
    """Of every run the wall time, what was trained and counts, and when each group is back."""

    def __init__(self, course: Course, groups: Groups, *, num_runs: int, random: np.random.Generator) -> None:
        front, main = course.levels[0], course.levels[-1]
        self.num, self.min_groups = int(groups.num), int(groups.min_groups)
        self.mtbf_seconds, self.within_fraction = float(groups.mtbf_seconds), float(groups.within_fraction)
        self.repair_seconds, self.step_seconds = float(groups.repair_seconds), float(front.interval_seconds)
        self.pause_seconds, self.recovery_seconds = float(groups.pause_seconds), float(main.recovery_seconds)
        self.interval_seconds, self.stall_seconds = float(main.interval_seconds), float(main.stall_seconds)
        self.overhead = float(overhead_of_levels_fraction(course.levels))
        self.random = random
        self.wall, self.kept, self.recovering, self.resumes_at, self.since_save = np.zeros((5, num_runs))
        self.back_at = np.zeros((self.num, num_runs))
        self.num_failures = np.zeros(num_runs, np.int64)

    def pass_one_failure(self) -> None:
        """Train with the groups that there are until one is struck."""
        runs = np.arange(len(self.wall))
        end = self.wall + self.random.exponential(self.mtbf_seconds, len(runs))
        group = self.random.integers(self.num, size=len(runs))
        is_within = self.random.random(len(runs)) < self.within_fraction
        is_struck = ~is_within | (self.back_at[group, runs] <= end)
        begin = np.minimum(end, np.maximum(np.maximum(self.wall, self.resumes_at), self._enough_at()))
        trained = end - begin
        speed = self._speed(begin, end)
        counted = np.where(is_struck, trained - self._under_way(self.since_save + trained), trained)
        self.recovering += (end - self.wall) - trained * speed
        self.kept += counted * speed
        self.since_save += counted
        self.num_failures += is_struck
        lost = is_struck & (~is_within | self._is_last(group, end))
        self._roll_back(lost, speed)
        struck = np.flatnonzero(is_struck & is_within)
        self.back_at[group[struck], struck] = end[struck] + self.random.exponential(self.repair_seconds, len(struck))
        pause = np.where(lost, self.recovery_seconds, self.pause_seconds)
        self.resumes_at = np.where(is_struck, np.maximum(self.resumes_at, end + pause), self.resumes_at)
        self.wall = end

    def _enough_at(self) -> Floats:
        """When at least so many groups as must are back."""
        enough: Floats = np.sort(self.back_at, axis=0)[self.min_groups - 1]
        return enough

    def _under_way(self, since_save: Floats) -> Floats:
        """Seconds of the step, or of the save, that has not ended."""
        phase = np.fmod(since_save, self.interval_seconds)
        saving = phase - (self.interval_seconds - self.stall_seconds)
        under_way: Floats = np.where(saving > 0.0, saving, np.fmod(phase, self.step_seconds))
        return under_way

    def _speed(self, begin: Floats, end: Floats) -> Floats:
        """Mean share of the groups that train from `begin` to `end`."""
        lacking = np.clip(self.back_at, begin, end).sum(axis=0) - self.num * begin
        some = np.where(end > begin, end - begin, 1.0)
        speed: Floats = 1.0 - lacking / some / self.num
        return speed

    def _is_last(self, group: npt.NDArray[np.int64], now: Floats) -> npt.NDArray[np.bool_]:
        """Whether no other group trains."""
        others = (self.back_at <= now).sum(axis=0) - (self.back_at[group, np.arange(len(now))] <= now)
        last: npt.NDArray[np.bool_] = others == 0
        return last

    def _roll_back(self, lost: npt.NDArray[np.bool_], speed: Floats) -> None:
        """Undo what was trained since the newest save."""
        undone = np.where(lost, np.fmod(self.since_save, self.interval_seconds), 0.0)
        self.kept -= undone * speed
        self.since_save -= undone
