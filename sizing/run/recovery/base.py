"""What every recovery strategy answers."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizing.run.demands.demands import Demands
from sizing.run.failures import LossDomain, Reliability
from sizing.run.goodput.course import Course, NodePool
from sizing.run.goodput.levels import Level
from sizing.run.interruptions import StrategyName
from sizing.run.recovery.odds import spares_run_out_fraction, wait_for_node_seconds
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class Struck:
    """A job that fails once in `mtbf_seconds` and saves to `levels`, the main storage last. Numbers may be arrays."""

    reliability: Reliability
    demands: Demands
    levels: Sequence[Level]
    mtbf_seconds: Numbers

    def smaller_fraction(self, domain: LossDomain, *, unless_told: float) -> Numbers:
        """Share of the failures that lose less than `domain`."""
        told = self.reliability.smaller_than_fraction(
            domain, num_nodes=self.demands.num_nodes, num_gpus=self.demands.num_gpus
        )
        return unless_told if told is None else told

    @property
    def within_node_fraction(self) -> Numbers:
        """Share of the failures that lose one node at most: all, unless components say what they lose."""
        return self.smaller_fraction("rack", unless_told=1.0)

    @property
    def node_losses_per_second(self) -> Numbers:
        """Failures after which a node must be replaced: all but those of a process."""
        return (1.0 - self.smaller_fraction("node", unless_told=0.0)) / self.mtbf_seconds

    @property
    def num_spares(self) -> Numbers:
        """Nodes in reserve."""
        return self.reliability.reserve.num if self.reliability.reserve else 0

    @property
    def offered_repairs(self) -> Numbers:
        """Repairs under way on average, if none were waited for."""
        return self.node_losses_per_second * (self.reliability.repair_seconds or 0.0)

    @property
    def runs_out_fraction(self) -> Numbers | None:
        """Probability that a failure finds no spare; None where a node is there at once."""
        if self.reliability.repair_seconds is None:
            return None
        return spares_run_out_fraction(self.num_spares, offered_repairs=self.offered_repairs)

    @property
    def wait_seconds(self) -> Numbers:
        """Mean wait for a node after a failure that loses one; 0 where there is one at once."""
        repair = self.reliability.repair_seconds
        if repair is None:
            return 0.0
        return wait_for_node_seconds(self.num_spares, offered_repairs=self.offered_repairs, repair_seconds=repair)

    @property
    def pool(self) -> NodePool | None:
        """Where replaced nodes come from; None where one is there at once."""
        repair = self.reliability.repair_seconds
        if repair is None:
            return None
        return NodePool(self.num_spares, repair, self.node_losses_per_second * self.mtbf_seconds)

    @property
    def available_fraction(self) -> Numbers:
        """Share of the time that is not spent waiting for a node."""
        return 1.0 / (1.0 + self.node_losses_per_second * self.wait_seconds)


@dataclass(frozen=True)
class RecoveryStrategy(abc.ABC):
    """One answer to what follows a failure.

    `summary` is what it does, `loses` which work it does again, `needs` what it cannot do without; `waits` whether all
    wait for the node that a failure took, if there is no spare.
    """

    name: StrategyName
    summary: str
    loses: str
    needs: str
    waits: bool = True

    def check(self, struck: Struck) -> None:  # noqa: B027 - restart and spares can always be had
        """Raise InvalidInput where the job does not have what the strategy needs."""

    @abc.abstractmethod
    def course(self, struck: Struck) -> Course:
        """The course of the run with it, failures alone."""

    def figures(self, struck: Struck) -> dict[str, Any]:  # noqa: ARG002 - restart and spares have none
        """Fields of the `recovery` block that are its own."""
        return {}


def rollback_mtbf_seconds(mtbf_seconds: Numbers, *, rolled_back_fraction: Numbers) -> Numbers:
    """Mean time between failures that need a save: M / f, no number where none does.

    Source: thinning of a Poisson process.

    >>> float(rollback_mtbf_seconds(3600.0, rolled_back_fraction=0.25))
    14400.0
    """
    some = np.greater(rolled_back_fraction, 0.0)
    between: Numbers = np.where(some, mtbf_seconds / np.where(some, rolled_back_fraction, 1.0), np.nan)
    return between
