"""The failures of a run as a renewal process: what they are recovered from, and where the wall time goes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import Field

from sizing.run.availability import (
    group_up_fraction,
    pause_in_effect_seconds,
    stopped_fraction_of_rollback,
    wait_for_groups_seconds,
)
from sizing.run.figures import Figures
from sizing.run.goodput import expected_recovery_seconds, goodput_of_levels_fraction, recoveries_per_second
from sizing.run.levels import MAX_EXPONENT, MIN_PROBABILITY, Level, overhead_of_levels_fraction
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class NodePool:
    """Where replaced nodes come from: `num_spares` in reserve, and those repaired, each after `repair_seconds`.

    `lost_fraction` of the failures lose a node; so many repairs are under way on average, if none were waited for.
    """

    num_spares: Numbers
    repair_seconds: Numbers
    lost_fraction: Numbers
    offered_repairs: Numbers


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups that train on without those in repair, if at least `min_groups` of `num` do; each fails by itself.

    One that failed is away for `repair_seconds`, a mean of repairs and of restarts without one.
    `mtbf_seconds` between the failures of all of them together, `within_fraction` of which strike one group alone; the
    others then pause for `pause_seconds`. So many are there for `enough_fraction` of the time.
    """

    num: Numbers
    min_groups: Numbers
    repair_seconds: Numbers
    mtbf_seconds: Numbers
    within_fraction: Numbers
    pause_seconds: Numbers
    enough_fraction: Numbers

    @property
    def up_fraction(self) -> Numbers:
        """Share of the time for which one group is up."""
        return group_up_fraction(
            group_mtbf_seconds=np.multiply(self.num, self.mtbf_seconds)
            / np.maximum(self.within_fraction, MIN_PROBABILITY),
            repair_seconds=self.repair_seconds,
        )

    def rollback_in_effect_seconds(
        self, recovery_seconds: Numbers, *, strikes_per_second: Numbers, rollbacks_per_second: Numbers
    ) -> Numbers:
        """Recovery that costs the mean throughput what a rollback of all groups costs that of those there are.

        A group that is struck meanwhile does not begin it again; a further rollback does.
        Source: `stopped_fraction_of_rollback`, `pause_in_effect_seconds`.

        >>> pair = Groups(2, 1, 933.8, 3251.0, 1.0, 100.0, 0.98)
        >>> round(float(pair.rollback_in_effect_seconds(
        ...     1354.0, strikes_per_second=2.69e-4, rollbacks_per_second=3.38e-5)), 1)
        649.0
        """
        up = self.up_fraction
        last = self.within_fraction * up * np.power(1.0 - up, np.subtract(self.num, 1.0))
        stopped = stopped_fraction_of_rollback(
            recovery_seconds,
            num_groups=self.num,
            min_groups=self.min_groups,
            up_fraction=up,
            repair_seconds=self.repair_seconds,
            last_fraction=last / np.maximum(last + (1.0 - self.within_fraction), MIN_PROBABILITY),
        )
        return pause_in_effect_seconds(
            recovery_seconds,
            stopped_fraction=stopped,
            strikes_per_second=strikes_per_second,
            renewals_per_second=rollbacks_per_second,
        )


@dataclass(frozen=True)
class FailureProcess:
    """What a recovery strategy and preemptions make of the levels of saving.

    `mtbf_seconds` between interruptions of all kinds, while there are nodes; `available_fraction` of the wall time and
    of the nodes is not spent without nodes; `rollback_mtbf_seconds` between failures that need a save. Preemptions are
    recovered from the two `preempted_levels`: from a save within their notice, and from one before it.
    """

    levels: Sequence[Level]
    mtbf_seconds: Numbers
    rollback_mtbf_seconds: Numbers
    available_fraction: Numbers = 1.0
    pool: NodePool | None = None
    groups: Groups | None = None
    preempted_levels: tuple[int, ...] = ()
    capacity_wait_seconds: Numbers = 0.0

    @property
    def goodput_fraction(self) -> Numbers:
        """Share of the wall time of all nodes that is useful work: that while there are nodes, of the time with them.

        Source: renewal reward theorem; nothing strikes while nodes lack, so that time only adds to the rest.
        """
        return self._goodput_with_nodes * self.available_fraction

    @functools.cached_property
    def _goodput_with_nodes(self) -> Numbers:
        """Share of the time with nodes that is useful work."""
        return goodput_of_levels_fraction(self._levels_in_effect, mtbf_seconds=self.mtbf_seconds)

    @functools.cached_property
    def _levels_in_effect(self) -> Sequence[Level]:
        """Levels of which each recovery costs the mean throughput: of groups, that of a rollback costs less."""
        if self.groups is None:
            return self.levels
        front, *saved = self.levels
        rates = {
            "strikes_per_second": np.divide(1.0, self.mtbf_seconds),
            "rollbacks_per_second": np.nan_to_num(np.divide(1.0, self.rollback_mtbf_seconds)),
        }
        recoveries = (self.groups.rollback_in_effect_seconds(level.recovery_seconds, **rates) for level in saved)
        return [front, *(replace(level, recovery_seconds=one) for level, one in zip(saved, recoveries, strict=True))]

    @property
    def recovery_seconds(self) -> Numbers:
        """Mean time from an interruption until training goes on, with the wait for nodes: sum of q R, and the wait."""
        return self._recovery_with_nodes_seconds + self.wait_seconds

    @property
    def _recovery_with_nodes_seconds(self) -> Numbers:
        """Mean recovery without waits; of a failure that other groups survive, the pause."""
        lasts = [level.recovery_seconds for level in self.levels]
        if self.groups is not None:
            lasts[0] = self.groups.pause_seconds
        return sum((level.used_fraction * last for level, last in zip(self.levels, lasts, strict=True)), start=0.0)

    @property
    def wait_seconds(self) -> Numbers:
        """Mean time per interruption without nodes: M (1 - A)/A; of groups, until enough are back."""
        if self.groups is not None:
            return wait_for_groups_seconds(
                self.groups.num,
                min_groups=self.groups.min_groups,
                up_fraction=self.groups.up_fraction,
                within_fraction=self.groups.within_fraction,
                mtbf_seconds=self.groups.mtbf_seconds,
                pause_seconds=self._recovery_with_nodes_seconds,
            )
        return self.mtbf_seconds * (1.0 - self.available_fraction) / self.available_fraction

    @property
    def others_per_second(self) -> Numbers:
        """Interruptions that need no save, per second with nodes."""
        needed = np.nan_to_num(np.divide(1.0, self.rollback_mtbf_seconds))
        others: Numbers = np.maximum(0.0, 1.0 / self.mtbf_seconds - needed)
        return others

    @property
    def interruptions_per_second(self) -> Numbers:
        """Interruptions of all kinds per second of wall time: A/M; groups are struck also while others lack."""
        return (1.0 if self.groups is not None else self.available_fraction) / self.mtbf_seconds

    @property
    def main_levels(self) -> tuple[int, ...]:
        """The levels that are recovered from the main storage: that of failures, and those of preemptions."""
        return (self._failure_indices[-1], *self.preempted_levels)

    @property
    def failure_levels(self) -> list[Level]:
        """The levels that failures are recovered from, with shares of the failures alone."""
        levels = [self.levels[index] for index in self._failure_indices]
        of_all = sum((level.used_fraction for level in levels), start=0.0)
        return [replace(level, used_fraction=level.used_fraction / of_all) for level in levels]

    @property
    def _failure_indices(self) -> list[int]:
        """The levels that failures are recovered from, by their place: all but those of preemptions."""
        return [index for index in range(len(self.levels)) if index not in self.preempted_levels]

    def restores_per_second(self, num_saved: int) -> list[Numbers]:
        """Restores per second of wall time from each of the `num_saved` levels that the run saves to.

        What stands in front of them reads no save: the memory of peers, or groups that train on. After a preemption the
        last level is read, whether its newest save was made within the notice or before. A restore that a further
        failure breaks off is begun again, and counts again; where it strikes before the reading, nothing was read.
        Groups that are struck during a rollback do not begin it anew.
        Source: `recoveries_per_second` k times e^(-B_k / M), B_k the time before the level is read; renewal reward
        theorem.

        >>> from sizing.run.levels import Level
        >>> main = Level(3600.0, 5.0, 0.0, 700.0, 1.0)
        >>> peers = in_front([main], Level(7.0, 0.0, 0.0, 60.0, 0.75))
        >>> [round(rate * 1e6) for rate in FailureProcess(peers, 1e4, 4e4).restores_per_second(1)]
        [26]
        """
        if self.groups is None:
            begun = recoveries_per_second(self.levels, mtbf_seconds=self.mtbf_seconds)
            per_second, between = [each * self.available_fraction for each in begun], self.mtbf_seconds
        else:
            per_second = [level.used_fraction / self.mtbf_seconds for level in self.levels]
            between = np.nan_to_num(self.rollback_mtbf_seconds, nan=np.inf)
        reads = [
            rate * np.exp(-np.minimum(np.divide(level.before_read_seconds, between), MAX_EXPONENT))
            for rate, level in zip(per_second, self.levels, strict=True)
        ]
        of_levels: list[Numbers] = [reads[index] for index in self._failure_indices[-num_saved:]]
        of_levels[-1] = sum((reads[index] for index in self.preempted_levels), start=of_levels[-1])
        return of_levels

    def goes_back_per_second(self, num_saved: int) -> list[Numbers]:
        """Interruptions per second with nodes that go back to each of the `num_saved` levels, or to a slower one."""
        return [
            sum((level.used_fraction for level in self.levels[index:]), start=0.0) / self.mtbf_seconds
            for index in self._failure_indices[-num_saved:]
        ]

    @property
    def saves_in_notice_per_second(self) -> Numbers:
        """Saves per second of wall time that are made within the notice of a preemption."""
        if not self.preempted_levels:
            return 0.0
        return self.levels[self.preempted_levels[0]].used_fraction * self.interruptions_per_second

    @property
    def kept_fraction(self) -> Numbers:
        """Share of the wall time in which work is done, and saves are made, that no failure undoes.

        Groups that train on save as often as all of them do; a run that recovers or lacks nodes does not save. Where
        saves take the whole interval, all that are made count.
        """
        shares = self._shares_with_nodes
        kept = np.add(shares.useful_fraction, shares.saving_fraction)
        return np.where(np.isnan(kept), 1.0 - self._recovering_fraction, kept) * self._running_fraction

    @property
    def trained_fraction(self) -> Numbers:
        """Share of the wall time in which work is done and saves are made, also what a failure undoes."""
        return (1.0 - self._recovering_fraction) * self._running_fraction

    def period_seconds(self, interval_seconds: Numbers) -> Numbers:
        """Time from save to save of a level: its interval, or longer where saves take more than all of the time."""
        period: Numbers = np.multiply(interval_seconds, np.maximum(1.0, overhead_of_levels_fraction(self.levels)))
        return period

    @functools.cached_property
    def _recovering_fraction(self) -> Numbers:
        return recovering_fraction(self._levels_in_effect, mtbf_seconds=self.mtbf_seconds)

    @property
    def _running_fraction(self) -> Numbers:
        return self.available_fraction if self.groups is None else self.groups.enough_fraction

    @functools.cached_property
    def _shares_with_nodes(self) -> TimeShares:
        return shares_of(self._levels_in_effect, goodput=self._goodput_with_nodes, mtbf_seconds=self.mtbf_seconds)

    @property
    def shares(self) -> Shares:
        """Where all of the wall time goes; what lacks of the nodes is recovery."""
        shares = with_waits(self._shares_with_nodes, available_fraction=self.available_fraction)
        return Shares.of(**{name: getattr(shares, name) for name in Shares.model_fields})


def in_front(levels: Sequence[Level], front: Level) -> list[Level]:
    """The levels with one before them that takes its share of all failures.

    Its interval becomes the nearest that fits whole times into that of the first. Source: thinning of a Poisson
    process.

    >>> main = Level(3600.0, 5.0, 0.0, 700.0, 1.0)
    >>> [(float(one.interval_seconds), one.used_fraction) for one in in_front([main], Level(7.0, 0.0, 0.0, 60.0, 0.75))]
    [(7.003891050583658, 0.75), (3600.0, 0.25)]
    """
    first = levels[0].interval_seconds
    number = np.maximum(1.0, np.round(np.divide(first, front.interval_seconds)))
    rest = 1.0 - front.used_fraction
    return [
        replace(front, interval_seconds=np.divide(first, number)),
        *(replace(level, used_fraction=level.used_fraction * rest) for level in levels),
    ]


def behind(
    levels: Sequence[Level],
    *,
    recovery_seconds: Numbers,
    used_fraction: Numbers,
    before_read_seconds: Numbers = 0.0,
) -> list[Level]:
    """The levels, and what needs the saves of the last one too, with a recovery of its own.

    Source: thinning of a Poisson process.

    >>> main, gone = behind([Level(3600.0, 5.0, 0.0, 700.0, 1.0)], recovery_seconds=900.0, used_fraction=0.25)
    >>> main.used_fraction, gone.interval_seconds, gone.stall_seconds, gone.used_fraction
    (0.75, 3600.0, 0.0, 0.25)
    """
    last, rest = levels[-1], 1.0 - used_fraction
    return [
        *(replace(level, used_fraction=level.used_fraction * rest) for level in levels),
        replace(
            last,
            stall_seconds=0.0,
            recovery_seconds=recovery_seconds,
            used_fraction=used_fraction,
            outlived_fraction=0.0,
            waiting_seconds=0.0,
            before_read_seconds=before_read_seconds,
        ),
    ]


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Shares of a time, which add to 1: numbers or arrays, and no number where saving takes all of the interval."""

    useful_fraction: Numbers
    saving_fraction: Numbers
    redone_fraction: Numbers
    recovering_fraction: Numbers


class Shares(Figures):
    """The `shares` block of the report: shares of the wall time, which add to 1.

    They are None where write times or failures are not known, and where saving takes all of the interval.
    """

    useful_fraction: float | None = Field(
        description="Fraction of the wall time that advances training (goodput, ETTR). "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )
    saving_fraction: float | None = Field(
        description="Fraction of the wall time for which saves that complete stall training. "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )
    redone_fraction: float | None = Field(
        description="Fraction of the wall time that failures undo: work, and the saves of it, done again. "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )
    recovering_fraction: float | None = Field(
        description="Fraction of the wall time from failures until training goes on: detection, relaunch, restore. "
        "Null without reliability or a write rate, and where saves take the whole interval."
    )

    @property
    def by_name(self) -> dict[str, Any]:
        """The shares as tables and charts name them, goodput first: numbers, arrays, or None."""
        return {
            "goodput": self.useful_fraction,
            "saving": self.saving_fraction,
            "work repeated": self.redone_fraction,
            "recovering": self.recovering_fraction,
        }


UNKNOWN_SHARES = Shares(useful_fraction=None, saving_fraction=None, redone_fraction=None, recovering_fraction=None)


def shares_of(levels: Sequence[Level], *, goodput: Numbers, mtbf_seconds: Numbers) -> TimeShares:
    """Where the wall time goes at a goodput g: each useful second needs o / (1 - o) of stalls that count.

    o is the overhead of the levels; `recovering_fraction` is the time in recovery; the rest is done again.
    Source: definition; g of `goodput_of_levels_fraction`. The Monte Carlo of `simulation` confirms it share by share.
    """
    overhead = overhead_of_levels_fraction(levels)
    advances = np.less(overhead, 1)
    kept = goodput / np.where(advances, 1 - overhead, np.nan)
    recovering = recovering_fraction(levels, mtbf_seconds=mtbf_seconds)
    return TimeShares(
        useful_fraction=np.where(advances, goodput, np.nan),
        saving_fraction=kept * overhead,
        redone_fraction=np.maximum(0.0, 1 - kept - recovering),
        recovering_fraction=np.where(advances, recovering, np.nan),
    )


def recovering_fraction(levels: Sequence[Level], *, mtbf_seconds: Numbers) -> Numbers:
    """Share of the wall time in recovery: E / (M + E), E the expected time of a recovery.

    For one level that is 1 - e^(-R/M). With more, E is the sum of q_k e_k, e_k of `expected_recovery_seconds`.
    Args: `levels` with `recovery_seconds` R_k and `used_fraction` q_k; `mtbf_seconds` M.
    Source: renewal reward theorem on cycles of training, on average M, and recovery, for exponential failures.

    >>> one = Level(14400.0, 50.55, 0.0, 600.0, 1.0)
    >>> round(float(recovering_fraction([one], mtbf_seconds=34615.38)), 5)
    0.01718
    """
    expected = expected_recovery_seconds(levels, mtbf_seconds=mtbf_seconds)
    pairs = zip(levels, expected, strict=True)
    recovering: Numbers = sum((level.used_fraction * seconds for level, seconds in pairs), start=np.float64(0.0))
    share: Numbers = recovering / np.add(mtbf_seconds, recovering)
    return share


def with_waits(shares: TimeShares, *, available_fraction: Numbers) -> TimeShares:
    """Shares of the time with nodes as shares of all of it: each times A, and 1 - A more of recovery.

    Source: definition.

    >>> round(with_waits(TimeShares(0.8, 0.1, 0.05, 0.05), available_fraction=0.9).recovering_fraction, 3)
    0.145
    """
    if isinstance(available_fraction, float) and available_fraction == 1.0:
        return shares
    return TimeShares(
        useful_fraction=shares.useful_fraction * available_fraction,
        saving_fraction=shares.saving_fraction * available_fraction,
        redone_fraction=shares.redone_fraction * available_fraction,
        recovering_fraction=shares.recovering_fraction * available_fraction + (1.0 - available_fraction),
    )
