"""What follows a failure: every recovery strategy, and what it makes of the failures of a job."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sizing.errors import InvalidInput
from sizing.run.availability import (
    all_copies_lost_fraction,
    away_seconds,
    back_fraction_of_pause,
    enough_groups_fraction,
    group_up_fraction,
    groups_throughput_fraction,
    pause_in_effect_seconds,
    spares_run_out_fraction,
    stopped_fraction_of_pause,
    wait_for_groups_seconds,
    wait_for_node_seconds,
)
from sizing.run.failure_process import FailureProcess, Groups, NodePool, in_front
from sizing.run.failures import LossDomain, Reliability, StrategyName, seconds_before_reading
from sizing.run.levels import MIN_PROBABILITY, Level
from sizing.run.workload import CheckpointWorkload
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that fails once in `mtbf_seconds` and saves to `levels`, the main storage last. Numbers may be arrays."""

    reliability: Reliability
    workload: CheckpointWorkload
    levels: Sequence[Level]
    mtbf_seconds: Numbers

    @classmethod
    def of(cls, levels: Sequence[Level], *, reliability: Reliability, workload: CheckpointWorkload) -> FailedJob:
        """A job of the size of its workload, whose nodes and GPUs decide how often it fails."""
        mtbf = reliability.job_mtbf_seconds(num_nodes=workload.num_nodes, num_gpus=workload.num_gpus)
        return cls(reliability, workload, levels, mtbf)

    def smaller_fraction(self, domain: LossDomain, *, unless_told: float) -> Numbers:
        """Share of the failures that lose less than `domain`; `unless_told` where components do not say it."""
        fraction = self.reliability.smaller_than_fraction(
            domain, num_nodes=self.workload.num_nodes, num_gpus=self.workload.num_gpus
        )
        return unless_told if fraction is None else fraction

    @property
    def within_node_fraction(self) -> Numbers:
        """Share of the failures that lose one node at most: all, unless components say what they lose."""
        return self.smaller_fraction("rack", unless_told=1.0)

    @property
    def node_lost_fraction(self) -> Numbers:
        """Share of the failures after which a node must be replaced: all but those of a process."""
        return self.reliability.node_lost_fraction(num_nodes=self.workload.num_nodes, num_gpus=self.workload.num_gpus)

    @property
    def node_losses_per_second(self) -> Numbers:
        """Failures after which a node must be replaced: all but those of a process."""
        return self.node_lost_fraction / self.mtbf_seconds

    @property
    def num_spares(self) -> Numbers:
        """Number of nodes in reserve."""
        return self.reliability.reserve.num if self.reliability.reserve else 0

    @property
    def repair_seconds(self) -> Numbers:
        """Mean time until a failed node is back; 0 where another is there at once."""
        return 0.0 if self.reliability.repair_seconds is None else self.reliability.repair_seconds

    @property
    def group_away_seconds(self) -> Numbers:
        """Mean time for which a failure takes a group away: a repair, or where no node is lost its own restart.

        Without `levels` the restart reads nothing.
        """
        restart = self.levels[-1].recovery_seconds if self.levels else self.reliability.recovery_seconds(0.0)
        within_node = np.maximum(self.within_node_fraction, MIN_PROBABILITY)
        lost = np.maximum(0.0, within_node - self.smaller_fraction("node", unless_told=0.0)) / within_node
        return away_seconds(lost, repair_seconds=self.repair_seconds, restart_seconds=restart)

    @property
    def step_seconds(self) -> Numbers:
        """Time of a training step; 0 where the strategy does not ask for it."""
        return 0.0 if self.reliability.step_seconds is None else self.reliability.step_seconds

    @property
    def offered_repairs(self) -> Numbers:
        """Repairs under way on average, if none were waited for.

        While a preempted job waits for capacity no node of it fails, and repairs go on: they end so much sooner on the
        clock of the time with nodes.
        """
        preemption = self.reliability.preemption
        waiting = preemption.per_second * preemption.capacity_wait_seconds if preemption else 0.0
        return self.node_losses_per_second * self.repair_seconds / (1.0 + waiting)

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
        return NodePool(self.num_spares, repair, self.node_lost_fraction, self.offered_repairs)

    @property
    def available_fraction(self) -> Numbers:
        """Share of the time that is not spent waiting for a node."""
        return 1.0 / (1.0 + self.node_losses_per_second * self.wait_seconds)


@dataclass(frozen=True)
class RecoveryStrategy(abc.ABC):
    """What a run does after a failure.

    `summary` is what it does, `loses` which work it does again, `needs` what it cannot do without; `waits` whether all
    wait for the node that a failure took, if there is no spare.
    """

    name: StrategyName
    summary: str
    loses: str
    needs: str
    waits: bool = True

    def check(self, job: FailedJob) -> None:  # noqa: B027 - restart and spares can always be had
        """Raise InvalidInput where the job does not have what the strategy needs."""

    @abc.abstractmethod
    def failure_process(self, job: FailedJob) -> FailureProcess:
        """The failure process of the run with this strategy, without preemptions."""

    def wait_seconds(self, job: FailedJob) -> Numbers:
        """Mean time for which a failure, over all of them, leaves the job without the nodes to train."""
        return job.node_lost_fraction * job.wait_seconds

    def figures(self, job: FailedJob) -> dict[str, Any]:  # noqa: ARG002 - restart and spares have none
        """Fields of the `recovery` block that this strategy alone fills."""
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


class Restart(RecoveryStrategy):
    """What frameworks do by themselves; with spares a failed node need not be waited for while there is another."""

    def failure_process(self, job: FailedJob) -> FailureProcess:
        """Every failure rolls back to a save, and waits for a node where no spare is left."""
        return FailureProcess(job.levels, job.mtbf_seconds, job.mtbf_seconds, job.available_fraction, pool=job.pool)


RESTART = Restart(
    name="restart",
    summary="all ranks start anew and read the newest checkpoint",
    loses="all since the newest checkpoint that counts",
    needs="nothing; reliability.repair_seconds where a failed node is waited for",
)

SPARES = Restart(
    name="spares",
    summary="as restart, with nodes in reserve that take the place of failed ones",
    loses="all since the newest checkpoint that counts",
    needs="reliability.spares and reliability.repair_seconds",
)


class Peers(RecoveryStrategy):
    """Replaced ranks read from peers: the work of one step is lost, unless all copies of a shard are."""

    def check(self, job: FailedJob) -> None:
        """Raise InvalidInput without copies in other nodes, a rate of the network, or with a measured restart."""
        copies, reliability = job.workload.num_state_copies, job.reliability
        if np.any(np.less(copies, 2)):
            raise InvalidInput.of(
                "reliability.strategy",
                "must not be peers where no other node holds a copy of the whole training state",
                value=f"{copies} copy",
                remedy=job.workload.more_copies,
            )
        if job.workload.network_bytes_per_second is None:
            raise InvalidInput.of(
                "reliability.strategy",
                "is peers, and the compute network of this node is not published",
                value="peers",
                remedy="give cluster.node_spec.compute_network_bytes_per_second",
            )
        if reliability.restart_seconds is not None:
            raise InvalidInput.of(
                "reliability.restart_seconds",
                "must not be given with strategy peers, which does not read the storage",
                value=reliability.restart_seconds,
                remedy="give relaunch_seconds",
            )

    def failure_process(self, job: FailedJob) -> FailureProcess:
        """Failures that leave a copy of each shard lose a step; others roll back to a save."""
        kept = self._kept_fraction(job)
        front = Level(job.step_seconds, 0.0, 0.0, self._recovery_seconds(job), kept)
        return FailureProcess(
            in_front(job.levels, front),
            job.mtbf_seconds,
            rollback_mtbf_seconds(job.mtbf_seconds, rolled_back_fraction=1.0 - kept),
            job.available_fraction,
            pool=job.pool,
        )

    def figures(self, job: FailedJob) -> dict[str, Any]:
        """Number of copies, what peers send, and how often the storage is needed all the same."""
        return {
            "num_copies": job.workload.num_state_copies,
            "peer_bytes_per_node": job.workload.unreduced.node_state_bytes,
            "peer_seconds": _sending_seconds(job),
            "from_storage_fraction": 1.0 - self._kept_fraction(job),
        }

    def _kept_fraction(self, job: FailedJob) -> Numbers:
        lost = all_copies_lost_fraction(
            job.workload.num_state_copies,
            window_seconds=self._recovery_seconds(job) + job.wait_seconds,
            node_mtbf_seconds=job.mtbf_seconds * job.workload.num_nodes / job.within_node_fraction,
        )
        return job.within_node_fraction * (1.0 - lost)

    def _recovery_seconds(self, job: FailedJob) -> Numbers:
        before = seconds_before_reading(job.reliability, node_lost_fraction=job.node_lost_fraction)
        return before + _sending_seconds(job)


def _sending_seconds(job: FailedJob) -> Numbers:
    """A node receives its state at the rate of its ports, each shard from one of the nodes that hold a copy."""
    return job.workload.unreduced.node_state_bytes / np.asarray(job.workload.network_bytes_per_second)


PEERS = Peers(
    name="peers",
    summary="lost ranks start anew and get their state from the memory of data-parallel peers",
    loses="the step under way; all since the newest checkpoint where every copy of a shard is lost",
    needs="copies of the state in other nodes, reliability.step_seconds",
)


class ShrinkGroups(RecoveryStrategy):
    """The other groups train on: each has the whole state, and throughput follows their number."""

    def check(self, job: FailedJob) -> None:
        """Raise InvalidInput with one group, with more needed than there are, and with preemptions of all nodes."""
        groups, shrink = job.workload.num_state_copies, job.reliability.shrink
        if np.any(np.less(groups, 2)):
            raise InvalidInput.of(
                "reliability.strategy",
                "must not be shrink with one data-parallel group that holds the whole training state in its own nodes",
                value=f"{groups} group",
                remedy=job.workload.more_copies,
            )
        if shrink is not None and np.any(np.greater(shrink.min_groups, groups)):
            raise InvalidInput.of(
                "reliability.shrink.min_groups",
                f"must be at most the {groups} groups that there are",
                value=shrink.min_groups,
                remedy="lower it",
            )
        if job.reliability.preemption is not None:
            raise InvalidInput.of(
                "reliability.preemption",
                "takes all nodes of a job, and cannot go with strategy shrink",
                value=job.reliability.preemption.per_hour,
                remedy="give the preemptions of single nodes among components, with repair_seconds as their wait",
            )

    def failure_process(self, job: FailedJob) -> FailureProcess:
        """A failure of a group stops the others for a new quorum, and a step; failures of more roll all back."""
        kept, up = self._kept_fraction(job), self._up_fraction(job)
        of_groups, of_more = job.within_node_fraction, 1.0 - job.within_node_fraction
        strikes = (of_groups * up + of_more) / job.mtbf_seconds
        share = kept * up / (of_groups * up + of_more)
        pause = _pause_seconds(job)
        stopped_fraction = stopped_fraction_of_pause(
            job.workload.num_state_copies,
            min_groups=_min_groups(job),
            up_fraction=up,
            back_fraction=back_fraction_of_pause(pause_seconds=pause, repair_seconds=job.group_away_seconds),
        )
        stopped = pause_in_effect_seconds(pause, stopped_fraction=stopped_fraction, strikes_per_second=strikes)
        front = Level(job.step_seconds, 0.0, 0.0, stopped, share)
        return FailureProcess(
            in_front(job.levels, front),
            1.0 / strikes,
            rollback_mtbf_seconds(1.0 / strikes, rolled_back_fraction=1.0 - share),
            self._throughput_fraction(job),
            groups=Groups(
                job.workload.num_state_copies,
                _min_groups(job),
                job.group_away_seconds,
                job.mtbf_seconds,
                of_groups,
                pause,
                enough_groups_fraction(job.workload.num_state_copies, min_groups=_min_groups(job), up_fraction=up),
            ),
        )

    def wait_seconds(self, job: FailedJob) -> Numbers:
        """Mean wait of a failure until enough groups are back, beyond the pause."""
        return wait_for_groups_seconds(
            job.workload.num_state_copies,
            min_groups=_min_groups(job),
            up_fraction=self._up_fraction(job),
            within_fraction=job.within_node_fraction,
            mtbf_seconds=job.mtbf_seconds,
            pause_seconds=_pause_seconds(job),
        )

    def figures(self, job: FailedJob) -> dict[str, Any]:
        """Groups, how many train on average, and how often the storage is needed all the same."""
        throughput, shrink = self._throughput_fraction(job), job.reliability.shrink
        return {
            "num_copies": job.workload.num_state_copies,
            "mean_groups": self._up_fraction(job) * job.workload.num_state_copies,
            "throughput_fraction": throughput,
            "mean_batch_fraction": 1.0 if shrink is None or shrink.keeps_batch else self._up_fraction(job),
            "from_storage_fraction": 1.0 - self._kept_fraction(job),
        }

    def _up_fraction(self, job: FailedJob) -> Numbers:
        losses = job.within_node_fraction / job.mtbf_seconds
        return group_up_fraction(
            group_mtbf_seconds=job.workload.num_state_copies / losses,
            repair_seconds=job.group_away_seconds,
        )

    def _throughput_fraction(self, job: FailedJob) -> Numbers:
        return groups_throughput_fraction(
            job.workload.num_state_copies, min_groups=_min_groups(job), up_fraction=self._up_fraction(job)
        )

    def _kept_fraction(self, job: FailedJob) -> Numbers:
        """Share of the failures after which another group still has the state: not the last one that trains."""
        others = job.workload.num_state_copies - 1
        return job.within_node_fraction * (1.0 - np.power(1.0 - self._up_fraction(job), others))


def _pause_seconds(job: FailedJob) -> Numbers:
    shrink = job.reliability.shrink
    return job.reliability.detection_seconds + (shrink.regroup_seconds if shrink else 0.0)


def _min_groups(job: FailedJob) -> Numbers:
    return job.reliability.shrink.min_groups if job.reliability.shrink else 1


SHRINK = ShrinkGroups(
    name="shrink",
    summary="the replica group leaves, the others train on at less throughput until it is repaired",
    loses="the step under way; all since the newest checkpoint where every group is lost",
    needs="two groups that each hold the whole state, reliability.shrink, repair_seconds and step_seconds",
    waits=False,
)


STRATEGIES: Mapping[StrategyName, RecoveryStrategy] = {
    strategy.name: strategy for strategy in (RESTART, SPARES, PEERS, SHRINK)
}
