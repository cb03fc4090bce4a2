"""A Monte Carlo of the run: failures strike, the newest checkpoint that survives them is read, work is done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sizing.run.goodput.levels import Level, overhead_of_levels_fraction
from sizing.run.goodput.shares import Shares
from sizing.run.simulation.outages import Outages

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_ROUNDING = 1 + 1e-12
"""A clock that has added up whole segments lies a rounding below their number."""


@dataclass(frozen=True, slots=True)
class SimulatedRuns:
    """What became of each run: its wall time, and of it useful work, stalls of saves that count, and recovery.

    The rest of the wall time was done again.
    """

    wall_seconds: Floats
    useful_seconds: Floats
    saving_seconds: Floats
    recovering_seconds: Floats
    num_failures: Indices

    @property
    def goodput_fraction(self) -> float:
        """Useful work over wall time, of all runs together."""
        return float(self.useful_seconds.sum() / self.wall_seconds.sum())

    @property
    def shares(self) -> Shares:
        """Where the wall time of all runs together went."""
        wall = self.wall_seconds.sum()
        useful, saving, recovering = (
            float(seconds.sum() / wall)
            for seconds in (self.useful_seconds, self.saving_seconds, self.recovering_seconds)
        )
        return Shares(
            useful_fraction=useful,
            saving_fraction=saving,
            redone_fraction=1 - useful - saving - recovering,
            recovering_fraction=recovering,
        )

    @property
    def standard_error_fraction(self) -> float:
        """Of the goodput: of a ratio of means over independent runs, to first order (the delta method)."""
        residuals = self.useful_seconds - self.goodput_fraction * self.wall_seconds
        return float(np.sqrt(residuals.var(ddof=1) / len(residuals)) / self.wall_seconds.mean())

    @property
    def run_goodput_fractions(self) -> Floats:
        """Of each run by itself."""
        return self.useful_seconds / self.wall_seconds


def simulate(
    levels: Sequence[Level],
    *,
    mtbf_seconds: float,
    run_seconds: float,
    num_runs: int,
    seed: int,
    outages: Outages | None = None,
    progress: Callable[[float], None] | None = None,
) -> SimulatedRuns:
    """Runs of at least `run_seconds`, each until training goes on after the first failure past that.

    A failure ends a cycle; a run that stops at the end of one keeps the ratio of useful work to time free of bias
    (Wald's identity). `levels` hold numbers, the most frequent first, and each interval is a whole multiple of the one
    before. `outages` say how long nodes lack after each failure; nothing strikes then.
    `progress` hears the share of the time that the slowest run has passed.
    """
    random = np.random.default_rng(seed)
    runs = _Runs(levels, mtbf_seconds=mtbf_seconds, num_runs=num_runs, random=random, outages=outages)
    going = np.arange(num_runs)
    while len(going):
        runs.pass_one_failure(going)
        going = going[runs.wall[going] < run_seconds]
        if progress is not None and len(going):
            progress(float(runs.wall[going].min()) / run_seconds)
    useful = runs.schedule.useful_seconds(runs.clock)
    return SimulatedRuns(runs.wall, useful, runs.clock - useful, runs.recovering, runs.num_failures)


class _Schedule:
    """Work and saves of every level in their order, along a clock that only runs while nothing fails."""

    def __init__(self, levels: Sequence[Level]) -> None:
        first, overhead = levels[0], overhead_of_levels_fraction(levels)
        self.compute_seconds = max(0.0, float(first.interval_seconds * (1 - overhead)))
        self.segment_seconds = [self.compute_seconds + float(first.stall_seconds)]
        self.ratios: list[float] = []
        for before, level in pairwise(levels):
            self.ratios.append(round(float(level.interval_seconds / before.interval_seconds)))
            self.segment_seconds.append(self.segment_seconds[-1] * self.ratios[-1] + float(level.stall_seconds))

    def saved_at(self, clock: Floats, level: int) -> Floats:
        """The clock at the end of the last save of a level that had ended."""
        return self._segments(clock, level)[0]

    def useful_seconds(self, clock: Floats) -> Floats:
        """Compute time of the segments of the first level that had ended."""
        return self._segments(clock, 0)[1] * self.compute_seconds

    def _segments(self, clock: Floats, level: int) -> tuple[Floats, Floats]:
        """The clock at the end of the last whole segment of a level, and the first level's segments until then."""
        ended, number = np.zeros_like(clock), np.zeros_like(clock)
        for upper in range(len(self.segment_seconds) - 1, level - 1, -1):
            seconds = self.segment_seconds[upper]
            highest = self.ratios[upper] if upper < len(self.ratios) else np.inf
            count = np.minimum(np.floor((clock - ended) / seconds * _ROUNDING), highest)
            ended, number = ended + count * seconds, number + count * np.prod(self.ratios[:upper])
        return ended, number


class _Runs:
    """The state of all runs: clocks of the schedule, wall time, and what each level keeps and drains."""

    def __init__(
        self,
        levels: Sequence[Level],
        *,
        mtbf_seconds: float,
        num_runs: int,
        random: np.random.Generator,
        outages: Outages | None,
    ) -> None:
        self.schedule = _Schedule(levels)
        self.drain_seconds = [float(level.drain_seconds) for level in levels]
        self.recovery_seconds = np.array([float(level.recovery_seconds) for level in levels])
        self.reading_seconds = self.recovery_seconds - [float(level.waiting_seconds) for level in levels]
        used = np.array([float(level.used_fraction) for level in levels])
        self.shares = np.cumsum(used)
        self.outlived_until = self.shares - used * [1 - float(level.outlived_fraction) for level in levels]
        self.mtbf_seconds, self.random, self.outages = mtbf_seconds, random, outages
        self.clock, self.wall, self.recovering = np.zeros((3, num_runs))
        self.num_failures = np.zeros(num_runs, np.int64)
        self.kept = np.zeros((len(levels), num_runs))
        self.draining = np.zeros((len(levels), num_runs))
        self.drained_at = np.full((len(levels), num_runs), np.inf)

    def pass_one_failure(self, going: Indices) -> None:
        """Train until a failure, recover, and train again."""
        work = self._until_failure(len(going))
        self._save(going, work)
        self.wall[going] += work
        needed = self._recover(going)
        self._count_drained(going, self.wall[going] - self.reading_seconds[needed])
        survives = np.arange(len(self.kept))[:, None] >= needed
        back = np.where(survives, self.kept[:, going], 0.0).max(axis=0)
        self.kept[:, going] = np.where(survives, self.kept[:, going], back)
        goes_on = np.arange(len(self.kept))[:, None] > needed
        self.drained_at[:, going] = np.where(goes_on, self.drained_at[:, going], np.inf)
        self.clock[going] = back

    def _save(self, going: Indices, work: Floats) -> None:
        """What each level has drained by the time of the failure, and what it still drains then."""
        began, wall = self.clock[going], self.wall[going]
        self._count_drained(going, wall + work)
        for level, drain in enumerate(self.drain_seconds):
            drained = self.schedule.saved_at(began + np.maximum(0.0, work - drain), level)
            kept = np.where(drained > began, drained, 0.0)
            self.kept[level, going] = np.maximum(self.kept[level, going], kept)
            last = self.schedule.saved_at(began + work, level)
            is_new = last > began
            self.draining[level, going] = np.where(is_new, last, self.draining[level, going])
            self.drained_at[level, going] = np.where(is_new, wall + last - began + drain, self.drained_at[level, going])

    def _count_drained(self, going: Indices, wall: Floats) -> None:
        """Keep what has drained by then."""
        has_drained = self.drained_at[:, going] <= wall
        kept = np.where(has_drained, self.draining[:, going], 0.0)
        self.kept[:, going] = np.maximum(self.kept[:, going], kept)

    def _recover(self, going: Indices) -> Indices:
        """Pass the time of recovering, again where a failure strikes; the highest level that was needed."""
        needed, waiting = self._fail(going), np.arange(len(going))
        while len(waiting):
            recovery, failure = self.recovery_seconds[needed[waiting]], self._until_failure(len(waiting))
            passed = np.minimum(recovery, failure)
            self.wall[going[waiting]] += passed
            self.recovering[going[waiting]] += passed
            waiting = waiting[failure < recovery]
            needed[waiting] = np.maximum(needed[waiting], self._fail(going[waiting]))
        return needed

    def _fail(self, struck: Indices) -> Indices:
        """The level that each failure needs; drains end that do not outlive it."""
        self.num_failures[struck] += 1
        draws = self.random.random(len(struck)) * self.shares[-1]
        needed: Indices = np.searchsorted(self.shares, draws, side="right").clip(0, len(self.shares) - 1)
        ended = struck[draws >= self.outlived_until[needed]]
        self._count_drained(ended, self.wall[ended])
        self.drained_at[:, ended] = np.inf
        if self.outages is not None:
            waits = self.outages.wait_seconds(struck, needed, self.wall[struck], self.random)
            self.wall[struck] += waits
            self.recovering[struck] += waits
        return needed

    def _until_failure(self, number: int) -> Floats:
        return self.random.exponential(self.mtbf_seconds, number)
