"""The course that a run takes: levels that failures are recovered from, and what share of the time there are nodes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sizing.run.goodput.levels import Level
from sizing.run.goodput.multilevel import goodput_of_levels_fraction
from sizing.run.goodput.shares import Shares, shares_of
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class NodePool:
    """Where replaced nodes come from: `num_spares` in reserve, and those repaired, each after `repair_seconds`.

    `lost_fraction` of the failures lose a node.
    """

    num_spares: Numbers
    repair_seconds: Numbers
    lost_fraction: Numbers


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups that train on without those in repair, if at least `min_groups` of `num` do; each fails by itself.

    `mtbf_seconds` between the failures of all of them together, `within_fraction` of which strike one group alone; the
    others then pause for `pause_seconds`.
    """

    num: Numbers
    min_groups: Numbers
    repair_seconds: Numbers
    mtbf_seconds: Numbers
    within_fraction: Numbers
    pause_seconds: Numbers


@dataclass(frozen=True)
class Course:
    """What a recovery strategy and preemptions make of the levels of saving.

    `mtbf_seconds` between interruptions of all kinds, while there are nodes; `available_fraction` of the wall time and
    of the nodes is not spent without nodes; `rollback_mtbf_seconds` between failures that need a save.
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
        """The same of the time in which there are nodes."""
        return goodput_of_levels_fraction(self.levels, mtbf_seconds=self.mtbf_seconds)

    @property
    def recovery_seconds(self) -> Numbers:
        """Mean time from an interruption until training goes on, with the wait for nodes: sum of q R, and the wait."""
        recovering = sum((level.used_fraction * level.recovery_seconds for level in self.levels), start=0.0)
        return recovering + self.wait_seconds

    @property
    def wait_seconds(self) -> Numbers:
        """Mean time per interruption in which the job waits for nodes: M (1 - A)/A; groups do not wait."""
        if self.groups is not None:
            return 0.0
        return self.mtbf_seconds * (1.0 - self.available_fraction) / self.available_fraction

    @property
    def shares(self) -> Shares:
        """Where all of the wall time goes; what lacks of the nodes is recovery."""
        shares = shares_of(self.levels, goodput=self._goodput_with_nodes, mtbf_seconds=self.mtbf_seconds)
        return with_waits(shares, available_fraction=self.available_fraction)


def with_waits(shares: Shares, *, available_fraction: Numbers) -> Shares:
    """Shares of the time with nodes as shares of all of it: each times A, and 1 - A more of recovery.

    Source: definition.

    >>> of_nodes = Shares(useful_fraction=0.8, saving_fraction=0.1, redone_fraction=0.05, recovering_fraction=0.05)
    >>> round(with_waits(of_nodes, available_fraction=0.9).recovering_fraction, 3)
    0.145
    """
    if isinstance(available_fraction, float) and available_fraction == 1.0:
        return shares
    named = {name: _times(value, available_fraction) for name, value in vars(shares).items()}
    recovering = named["recovering_fraction"]
    lacking = None if recovering is None else recovering + (1.0 - available_fraction)
    return Shares.of(**(named | {"recovering_fraction": lacking}))


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


def behind(levels: Sequence[Level], *, recovery_seconds: Numbers, used_fraction: Numbers) -> list[Level]:
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
        ),
    ]


def _times(share: Numbers | None, factor: Numbers) -> Numbers | None:
    return None if share is None else share * factor
