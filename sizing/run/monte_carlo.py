"""A Monte Carlo of the run: failures strike, the newest checkpoint that survives them is read, work is done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sizing.run.availability import group_up_fraction
from sizing.run.failure_process import FailureProcess, Groups, Shares
from sizing.run.levels import MIN_PROBABILITY, Level, overhead_of_levels_fraction
from sizing.storage.transfer import Floats

Indices = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Outages:
    """When each node in repair is back, in every run. Repairs and waits for capacity are drawn as exponential.

    A run begins with as many nodes in repair as failures find on average, not with all of its spares.
    """

    def __init__(self, process: FailureProcess, *, num_runs: int, random: np.random.Generator) -> None:
        pool = process.pool
        self.preempted_levels, self.capacity_wait_seconds = (
            process.preempted_levels,
            float(process.capacity_wait_seconds),
        )
        self.repair_seconds = float(pool.repair_seconds) if pool else 0.0
        self.lost_fraction = float(pool.lost_fraction) if pool else 0.0
        self.back_at = np.zeros((int(pool.num_spares) + 1 if pool else 1, num_runs))
        self._draw_repairs(float(pool.offered_repairs) if pool else 0.0, random)

    def _draw_repairs(self, offered_repairs: float, random: np.random.Generator) -> None:
        """Draw the repairs under way: k of them with a probability that goes with a^k / k!, as in Erlang's formula."""
        num_spares, num_runs = len(self.back_at) - 1, self.back_at.shape[1]
        terms = np.cumprod([1.0, *(offered_repairs / np.arange(1.0, num_spares + 1))])
        in_repair = random.choice(num_spares + 1, size=num_runs, p=terms / terms.sum())
        repairs = random.exponential(self.repair_seconds, self.back_at.shape)
        self.back_at = np.where(np.arange(num_spares + 1)[:, None] < in_repair, repairs, 0.0)

    def wait_seconds(self, failed: Indices, needed: Indices, now: Floats, random: np.random.Generator) -> Floats:
        """How long each run that was struck `now`, and needs that level, has too few nodes."""
        is_preempted = np.isin(needed, self.preempted_levels)
        waits = np.where(is_preempted, random.exponential(self.capacity_wait_seconds, len(failed)), 0.0)
        lost = np.flatnonzero(~is_preempted & (random.random(len(failed)) < self.lost_fraction))
        failed, now = failed[lost], now[lost]
        # The lost node goes into repair; one that was back, or else the first that comes back, takes its place.
        longest_back = self.back_at[:, failed].argmin(axis=0)
        self.back_at[longest_back, failed] = now + random.exponential(self.repair_seconds, len(failed))
        waits[lost] = np.maximum(0.0, self.back_at[:, failed].min(axis=0) - now)
        return waits


_ROUNDING = 1 + 1e-12
"""A clock that has added up whole segments lies a rounding below their number."""

_LEAST_SECONDS = 1e-9
"""A segment of a run that does nothing but save, where the first level takes no time: a clock is divided by it."""


@dataclass(frozen=True, slots=True)
class SimulatedRuns:
    """What became of each run: its wall time, and of it useful work, stalls of saves that count, and recovery.

    The rest of the wall time was done again.
    """

    wall_seconds: Floats
    useful_seconds: Floats
    saving_seconds: Floats
    recovering_seconds: Floats
    num_by_level: Indices
    """Failures of each run by the level that each of them needs."""
    num_reads: Indices
    """Reads of each run that are begun of each level."""
    run_goodput_fractions: Floats
    """Goodput of each run up to the end of the time asked for, which the wall time may go beyond."""

    def since(self, before: SimulatedRuns) -> SimulatedRuns:
        """What became of each run since an earlier record of it."""
        return SimulatedRuns(
            self.wall_seconds - before.wall_seconds,
            self.useful_seconds - before.useful_seconds,
            self.saving_seconds - before.saving_seconds,
            self.recovering_seconds - before.recovering_seconds,
            self.num_by_level - before.num_by_level,
            self.num_reads - before.num_reads,
            self.run_goodput_fractions,
        )

    def of_those(self, runs: Bools, *, others: SimulatedRuns) -> SimulatedRuns:
        """What became of some runs, and of the others what is recorded of them elsewhere."""
        return SimulatedRuns(
            np.where(runs, self.wall_seconds, others.wall_seconds),
            np.where(runs, self.useful_seconds, others.useful_seconds),
            np.where(runs, self.saving_seconds, others.saving_seconds),
            np.where(runs, self.recovering_seconds, others.recovering_seconds),
            np.where(runs, self.num_by_level, others.num_by_level),
            np.where(runs, self.num_reads, others.num_reads),
            self.run_goodput_fractions,
        )

    @classmethod
    def join(cls, parts: Sequence[SimulatedRuns]) -> SimulatedRuns:
        """What became of all runs, given what became of some and of those after them."""
        return cls(
            np.concatenate([each.wall_seconds for each in parts]),
            np.concatenate([each.useful_seconds for each in parts]),
            np.concatenate([each.saving_seconds for each in parts]),
            np.concatenate([each.recovering_seconds for each in parts]),
            np.concatenate([each.num_by_level for each in parts], axis=1),
            np.concatenate([each.num_reads for each in parts], axis=1),
            np.concatenate([each.run_goodput_fractions for each in parts]),
        )

    @property
    def num_failures(self) -> Indices:
        """Number of failures of each run."""
        total: Indices = self.num_by_level.sum(axis=0)
        return total

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
        """Standard error of the goodput, a ratio of means over independent runs, to first order (the delta method)."""
        residuals = self.useful_seconds - self.goodput_fraction * self.wall_seconds
        return float(np.sqrt(residuals.var(ddof=1) / len(residuals)) / self.wall_seconds.mean())


def simulate(
    levels: Sequence[Level],
    *,
    mtbf_seconds: float,
    run_seconds: float,
    num_runs: int,
    seed: int | np.random.SeedSequence,
    outages_of: FailureProcess | None = None,
    progress: Callable[[float], None] | None = None,
) -> SimulatedRuns:
    """Runs of at least `run_seconds`, each until training goes on after the first failure past that.

    A failure ends a cycle; a run that stops at the end of one keeps the ratio of useful work to time free of bias
    (Wald's identity). `levels` hold numbers, the most frequent first, and each interval is a whole multiple of the one
    before. Where nodes lack after a failure, `outages_of` says of which process; nothing strikes then. Cycles that lack
    nodes or have several levels depend on each other, so a run is counted from the end of one to the end of another.
    What a single run has done is counted up to its time: one without a failure lasts no longer than that.
    `progress` hears the share of the time that the slowest run has passed.
    """
    random = np.random.default_rng(seed)
    outages = None if outages_of is None else Outages(outages_of, num_runs=num_runs, random=random)
    runs = _Runs(levels, mtbf_seconds=mtbf_seconds, num_runs=num_runs, random=random, outages=outages)
    going = np.arange(num_runs)
    if outages is not None or len(levels) > 1:
        runs.pass_one_failure(going)
    before = runs.record()
    runs.count_until(run_seconds)
    while len(going):
        runs.pass_one_failure(going)
        passed = (runs.wall - before.wall_seconds)[going]
        going = going[passed < run_seconds]
        if progress is not None and len(going):
            progress(float(passed.min()) / run_seconds)
    return runs.record().since(before)


class Schedule:
    """Work and saves of every level in their order, along a clock that only runs while nothing fails."""

    def __init__(self, levels: Sequence[Level]) -> None:
        first, overhead = levels[0], overhead_of_levels_fraction(levels)
        self.compute_seconds = max(0.0, float(first.interval_seconds * (1 - overhead)))
        self.segment_seconds = [max(_LEAST_SECONDS, self.compute_seconds + float(first.stall_seconds))]
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
        trains = np.ones(clock.shape, np.bool_)  # no more in the save that ends the last segment of an upper one
        for upper in range(len(self.segment_seconds) - 1, level - 1, -1):
            seconds = self.segment_seconds[upper]
            highest = self.ratios[upper] if upper < len(self.ratios) else np.inf
            count = trains * np.minimum(np.floor((clock - ended) / seconds * _ROUNDING), highest)
            trains = trains & (count < highest)
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
        self.schedule = Schedule(levels)
        self.drain_seconds = [float(level.drain_seconds) for level in levels]
        self.recovery_seconds = np.array([float(level.recovery_seconds) for level in levels])
        self.is_notice = np.array([level.is_notice for level in levels])
        self.reading_seconds = self.recovery_seconds - [float(level.waiting_seconds) for level in levels]
        used = np.array([float(level.used_fraction) for level in levels])
        self.shares = np.cumsum(used)
        self.outlived_until = self.shares - used * [1 - float(level.outlived_fraction) for level in levels]
        self.mtbf_seconds, self.random, self.outages = mtbf_seconds, random, outages
        self.worked_fraction = 1.0 - min(1.0, float(overhead_of_levels_fraction(levels)))
        self.clock, self.wall, self.recovering = np.zeros((3, num_runs))
        self.begin, self.counted_from, self.counted = np.zeros((3, num_runs))
        self.seconds = 0.0
        self.before_read_seconds = np.array([float(level.before_read_seconds) for level in levels])
        self.num_by_level, self.num_reads = np.zeros((2, len(levels), num_runs), np.int64)
        self.kept = np.zeros((len(levels), num_runs))
        self.draining = np.zeros((len(levels), num_runs))
        self.drained_at = np.full((len(levels), num_runs), np.inf)

    def record(self) -> SimulatedRuns:
        """What has become of each run so far."""
        useful = self.schedule.useful_seconds(self.clock)
        goodput = np.maximum(0.0, self.counted) / self.seconds if self.seconds else np.zeros(len(self.wall))
        return SimulatedRuns(
            self.wall.copy(),
            useful,
            self.clock - useful,
            self.recovering.copy(),
            self.num_by_level.copy(),
            self.num_reads.copy(),
            goodput,
        )

    def count_until(self, seconds: float) -> None:
        """Count for each run by itself what it does in that time from now on."""
        self.begin, self.seconds, self.counted_from = self.wall.copy(), seconds, self.clock.copy()

    def pass_one_failure(self, going: Indices) -> None:
        """Train until a failure, recover, and train again."""
        work = self._until_failure(len(going))
        left = self.seconds - (self.wall - self.begin)[going]
        worked = (self.clock - self.counted_from)[going] + np.minimum(work, left)
        self.counted[going] = np.where(left > 0, worked * self.worked_fraction, self.counted[going])
        self._save(going, work)
        self.wall[going] += work
        failed = going[work < left]
        needed = self._fail(going)
        noticed = going[self.is_notice[needed]]
        self.kept[:, noticed] = self.kept[needed[self.is_notice[needed]], noticed]
        self._recover(going, needed)
        self._count_drained(going, self.wall[going] - self.reading_seconds[needed])
        survives = np.arange(len(self.kept))[:, None] >= needed
        back = np.where(survives, self.kept[:, going], 0.0).max(axis=0)
        self.kept[:, going] = np.where(survives, self.kept[:, going], back)
        goes_on = np.arange(len(self.kept))[:, None] > needed
        self.drained_at[:, going] = np.where(goes_on, self.drained_at[:, going], np.inf)
        self.clock[going] = back
        self.counted[failed] = (self.clock - self.counted_from)[failed] * self.worked_fraction

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
        """Count the saves that have drained by that moment among those that are kept."""
        has_drained = self.drained_at[:, going] <= wall
        kept = np.where(has_drained, self.draining[:, going], 0.0)
        self.kept[:, going] = np.maximum(self.kept[:, going], kept)

    def _recover(self, going: Indices, needed: Indices) -> None:
        """Pass the time of recovering, again where a failure strikes; `needed` becomes the highest level that was."""
        waiting = np.arange(len(going))
        while len(waiting):
            recovery, failure = self.recovery_seconds[needed[waiting]], self._until_failure(len(waiting))
            passed = np.minimum(recovery, failure)
            self.wall[going[waiting]] += passed
            self.recovering[going[waiting]] += passed
            reads = waiting[passed >= self.before_read_seconds[needed[waiting]]]
            self.num_reads[needed[reads], going[reads]] += 1
            waiting = waiting[failure < recovery]
            needed[waiting] = np.maximum(needed[waiting], self._fail(going[waiting]))

    def _fail(self, failed: Indices) -> Indices:
        """The level that each failure needs; drains end that do not outlive it."""
        draws = self.random.random(len(failed)) * self.shares[-1]
        needed: Indices = np.searchsorted(self.shares, draws, side="right").clip(0, len(self.shares) - 1)
        self.num_by_level[needed, failed] += 1
        ended = failed[draws >= self.outlived_until[needed]]
        self._count_drained(ended, self.wall[ended])
        self.drained_at[:, ended] = np.inf
        if self.outages is not None:
            waits = self.outages.wait_seconds(failed, needed, self.wall[failed], self.random)
            self.wall[failed] += waits
            self.recovering[failed] += waits
        return needed

    def _until_failure(self, number: int) -> Floats:
        return self.random.exponential(self.mtbf_seconds, number)


def simulate_groups(
    process: FailureProcess,
    groups: Groups,
    *,
    run_seconds: float,
    num_runs: int,
    seed: int | np.random.SeedSequence,
    progress: Callable[[float], None] | None = None,
) -> SimulatedRuns:
    """Runs of `run_seconds` and up to one failure more, whose wall time is that of all groups together.

    A run begins among others of its kind, with as many groups in repair as there are on average, and is counted from
    one failure to another: with all groups at first, and the last repair left out, it would lose less than it does.
    Every failure draws the group that it strikes; one in repair already is not struck. The others pause, and lose the
    step under way. Repairs are drawn as exponential. A failure of more than a group, or of the last one, brings all
    groups back to the newest save of the level that it needs.
    """
    runs = _ShrinkingRuns(process, groups, num_runs=num_runs, random=np.random.default_rng(seed))
    runs.pass_one_failure()
    before = counted = runs.record()
    runs.count_until(run_seconds)
    goes_on = np.ones(num_runs, np.bool_)
    while goes_on.any():
        runs.pass_one_failure()
        counted = runs.record().of_those(goes_on, others=counted)
        passed = counted.wall_seconds - before.wall_seconds
        goes_on = passed < run_seconds
        if progress is not None:
            progress(min(1.0, float(passed.min()) / run_seconds))
    return counted.since(before)


class _ShrinkingRuns:
    """The wall time of every run, the clock of its schedule, what each level keeps and drains, and its groups.

    The clock runs while enough groups train. `work` is what of it counts, weighted with the share of the groups that
    trained then: at the clock, and of each level at what it keeps and drains.
    """

    def __init__(self, process: FailureProcess, groups: Groups, *, num_runs: int, random: np.random.Generator) -> None:
        levels = process.levels
        self.schedule, self.random = Schedule(levels), random
        self.overhead_fraction = min(1.0, float(overhead_of_levels_fraction(levels)))
        self.num, self.min_groups = int(groups.num), int(groups.min_groups)
        self.mtbf_seconds, self.within_fraction = float(groups.mtbf_seconds), float(groups.within_fraction)
        self.repair_seconds = float(groups.repair_seconds)
        self.drain_seconds = [float(level.drain_seconds) for level in levels]
        self.waiting_seconds = np.array([float(level.waiting_seconds) for level in levels])
        saved = [float(level.recovery_seconds) for level in levels[1:]]
        self.pause_seconds = np.array([float(groups.pause_seconds), *saved])
        used = np.array([0.0, *(float(level.used_fraction) for level in levels[1:])])
        self.shares = np.cumsum(used)
        self.outlived_until = self.shares - used * [1 - float(level.outlived_fraction) for level in levels]
        self.wall, self.clock, self.work, self.recovering, self.resumes_at = np.zeros((5, num_runs))
        self.ends, self.counted_from, self.counted = np.zeros((3, num_runs))
        self.seconds = 0.0
        self.back_at = self._draw_repairs(num_runs)
        self.num_by_level, self.num_reads = np.zeros((2, len(levels), num_runs), np.int64)
        self.before_read_seconds = np.array([float(level.before_read_seconds) for level in levels])
        self.reads_at, self.read_level = np.full(num_runs, np.inf), np.zeros(num_runs, np.int64)
        self.kept, self.kept_work, self.draining, self.draining_work = np.zeros((4, len(levels), num_runs))
        self.drained_at = np.full((len(levels), num_runs), np.inf)

    def record(self) -> SimulatedRuns:
        """What has become of each run so far."""
        saving = self.work * self.overhead_fraction
        goodput = np.maximum(0.0, self.counted) / self.seconds if self.seconds else np.zeros(len(self.wall))
        return SimulatedRuns(
            self.wall.copy(),
            self.work - saving,
            saving,
            self.recovering.copy(),
            self.num_by_level.copy(),
            self.num_reads.copy(),
            goodput,
        )

    def count_until(self, seconds: float) -> None:
        """Count for each run by itself what it does in that time from now on."""
        self.ends, self.seconds, self.counted_from = self.wall + seconds, seconds, self.work.copy()

    def _draw_repairs(self, num_runs: int) -> Floats:
        """Draw when each group in repair is back, of runs that have gone on for long."""
        group_mtbf = self.num * self.mtbf_seconds / max(self.within_fraction, MIN_PROBABILITY)
        up = float(group_up_fraction(group_mtbf_seconds=group_mtbf, repair_seconds=self.repair_seconds))
        in_repair = self.random.random((self.num, num_runs)) >= up
        back_at: Floats = in_repair * self.random.exponential(self.repair_seconds, in_repair.shape)
        return back_at

    def pass_one_failure(self) -> None:
        """Train with the groups that there are until one is struck, or all are, and go back as far as that needs."""
        runs = np.arange(len(self.wall))
        end, group, is_within = self._strike()
        enough_at = np.sort(self.back_at, axis=0)[self.min_groups - 1]
        begin = np.minimum(end, np.maximum(np.maximum(self.wall, self.resumes_at), enough_at))
        worked = self.work - self.counted_from + self._trained_seconds(begin, np.clip(self.ends, begin, end))
        self.counted = np.where(self.wall < self.ends, worked * (1.0 - self.overhead_fraction), self.counted)
        self._save(begin, end - begin)
        self.recovering += (end - self.wall) - self._trained_seconds(begin, end)
        num_others = (self.back_at <= end).sum(axis=0) - (self.back_at[group, runs] <= end)
        needed = self._fail(end, survived=is_within & (num_others > 0))
        self.num_by_level[needed, runs] += 1
        self.count_reads(end, needed)
        survives = np.arange(len(self.kept))[:, None] >= needed
        self.clock = np.where(survives, self.kept, 0.0).max(axis=0)
        self.work = np.where(survives, self.kept_work, 0.0).max(axis=0)
        self.kept = np.where(survives, self.kept, self.clock)
        self.kept_work = np.where(survives, self.kept_work, self.work)
        failed = np.flatnonzero(is_within)
        self.back_at[group[failed], failed] = end[failed] + self.random.exponential(self.repair_seconds, len(failed))
        self.resumes_at = np.maximum(self.resumes_at, end + self.pause_seconds[needed])
        worked = (self.work - self.counted_from) * (1.0 - self.overhead_fraction)
        self.counted = np.where(end < self.ends, worked, self.counted)
        self.wall = end

    def count_reads(self, now: Floats, needed: Indices) -> None:
        """Count what was read since the last rollback, which a further one may have prevented."""
        has_read = np.flatnonzero(self.reads_at <= now)
        self.num_reads[self.read_level[has_read], has_read] += 1
        rolls_back = needed > 0
        next_read = np.where(rolls_back, now + self.before_read_seconds[needed], self.reads_at)
        self.reads_at = np.where(~rolls_back & (self.reads_at <= now), np.inf, next_read)
        self.read_level = np.where(rolls_back, needed, self.read_level)

    def _strike(self) -> tuple[Floats, Indices, Bools]:
        """When a group that trains is struck, or all are; which group, and whether it alone. One in repair is not."""
        end, group = self.wall.copy(), np.zeros(len(self.wall), np.int64)
        is_within, pending = np.zeros(len(self.wall), np.bool_), np.arange(len(self.wall))
        while len(pending):
            end[pending] += self.random.exponential(self.mtbf_seconds, len(pending))
            group[pending] = self.random.integers(self.num, size=len(pending))
            is_within[pending] = self.random.random(len(pending)) < self.within_fraction
            in_repair = self.back_at[group[pending], pending] > end[pending]
            pending = pending[is_within[pending] & in_repair]
        return end, group, is_within

    def _trained_seconds(self, begin: Floats, end: Floats) -> Floats:
        """Seconds from `begin` to `end` times the mean share of the groups that train."""
        lacking = np.clip(self.back_at, begin, np.maximum(begin, end)).sum(axis=0) / self.num - begin
        trained: Floats = end - begin - lacking
        return trained

    def _save(self, begin: Floats, trained: Floats) -> None:
        """What each level has drained by the time of the failure, and what it still drains then."""
        self._count_drained(begin + trained)
        for level, drain in enumerate(self.drain_seconds):
            drained = self.schedule.saved_at(self.clock + np.maximum(0.0, trained - drain), level)
            is_new = drained > self.clock
            work = self.work + self._trained_seconds(begin, begin + drained - self.clock)
            self.kept[level] = np.maximum(self.kept[level], np.where(is_new, drained, 0.0))
            self.kept_work[level] = np.maximum(self.kept_work[level], np.where(is_new, work, 0.0))
            last = self.schedule.saved_at(self.clock + trained, level)
            is_new = last > self.clock
            work = self.work + self._trained_seconds(begin, begin + last - self.clock)
            self.draining[level] = np.where(is_new, last, self.draining[level])
            self.draining_work[level] = np.where(is_new, work, self.draining_work[level])
            self.drained_at[level] = np.where(is_new, begin + last - self.clock + drain, self.drained_at[level])

    def _count_drained(self, now: Floats) -> None:
        """Count the saves that have drained by that moment among those that are kept."""
        has_drained = self.drained_at <= now
        self.kept = np.maximum(self.kept, np.where(has_drained, self.draining, 0.0))
        self.kept_work = np.maximum(self.kept_work, np.where(has_drained, self.draining_work, 0.0))

    def _fail(self, now: Floats, *, survived: Bools) -> Indices:
        """The level that each failure needs, the front one where other groups survive it; drains end, or go on."""
        draws = self.random.random(len(now)) * self.shares[-1]
        of_saves = np.searchsorted(self.shares, draws, side="right").clip(1, len(self.shares) - 1)
        needed: Indices = np.where(survived, 0, of_saves)
        goes_on = ~survived & (draws < self.outlived_until[needed])
        self._count_drained(now + np.where(goes_on, self.waiting_seconds[needed], 0.0))
        lasts = goes_on & (np.arange(len(self.kept))[:, None] > needed)
        self.drained_at = np.where(lasts, self.drained_at, np.inf)
        return needed
