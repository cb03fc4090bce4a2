"""A group that fails leaves; the others train on without it until it is back."""

from __future__ import annotations

from typing import Any

import numpy as np

from sizing.errors import InvalidInput
from sizing.run.goodput.course import Course, Groups, in_front
from sizing.run.goodput.levels import Level
from sizing.run.recovery.base import RecoveryStrategy, Struck, rollback_mtbf_seconds
from sizing.run.recovery.odds import group_up_fraction, groups_throughput_fraction, stopped_fraction_of_pause
from sizing.storage.transfer import Numbers


class ShrinkGroups(RecoveryStrategy):
    """Groups are copies of the whole state; throughput follows their number."""

    def check(self, struck: Struck) -> None:
        """Raise InvalidInput with one group, with more needed than there are, and with preemptions of all nodes."""
        groups, shrink = struck.demands.num_state_copies, struck.reliability.shrink
        if np.any(np.less(groups, 2)):
            raise InvalidInput.of(
                "reliability.strategy",
                "must not be shrink with one data-parallel group that holds the whole training state in its own nodes",
                value=f"{groups} group",
                remedy="raise parallelism.data, or set parallelism.shard_group below data x context",
            )
        if shrink is not None and np.any(np.greater(shrink.min_groups, groups)):
            raise InvalidInput.of(
                "reliability.shrink.min_groups",
                f"must be at most the {groups} groups that there are",
                value=shrink.min_groups,
                remedy="lower it",
            )
        if struck.reliability.preemption is not None:
            raise InvalidInput.of(
                "reliability.preemption",
                "takes all nodes of a job, and cannot go with strategy shrink",
                value=struck.reliability.preemption.per_hour,
                remedy="give the preemptions of single nodes among components, with repair_seconds as their wait",
            )

    def course(self, struck: Struck) -> Course:
        """A failure of a group stops the others for a new quorum, and a step; failures of more roll all back."""
        kept, up = self._kept_fraction(struck), self._up_fraction(struck)
        of_groups, of_more = struck.within_node_fraction, 1.0 - struck.within_node_fraction
        strikes = (of_groups * up + of_more) / struck.mtbf_seconds
        share = kept * up / (of_groups * up + of_more)
        shrink, detection = struck.reliability.shrink, struck.reliability.detection_seconds
        pause = detection + (shrink.regroup_seconds if shrink else 0.0)
        stopped = pause * stopped_fraction_of_pause(
            struck.demands.num_state_copies, min_groups=_min_groups(struck), up_fraction=up
        )
        front = Level(struck.reliability.step_seconds or 0.0, 0.0, 0.0, stopped, share)
        return Course(
            in_front(struck.levels, front),
            1.0 / strikes,
            rollback_mtbf_seconds(1.0 / strikes, rolled_back_fraction=1.0 - share),
            self._throughput_fraction(struck),
            groups=Groups(
                struck.demands.num_state_copies,
                _min_groups(struck),
                struck.reliability.repair_seconds or 0.0,
                struck.mtbf_seconds,
                of_groups,
                pause,
            ),
        )

    def figures(self, struck: Struck) -> dict[str, Any]:
        """Groups, how many train on average, and how often the storage is needed all the same."""
        throughput, shrink = self._throughput_fraction(struck), struck.reliability.shrink
        return {
            "num_copies": struck.demands.num_state_copies,
            "mean_groups": self._up_fraction(struck) * struck.demands.num_state_copies,
            "throughput_fraction": throughput,
            "mean_batch_fraction": 1.0 if shrink is None or shrink.keeps_batch else self._up_fraction(struck),
            "from_storage_fraction": 1.0 - self._kept_fraction(struck),
        }

    def _up_fraction(self, struck: Struck) -> Numbers:
        losses = struck.within_node_fraction / struck.mtbf_seconds
        return group_up_fraction(
            group_mtbf_seconds=struck.demands.num_state_copies / losses,
            repair_seconds=struck.reliability.repair_seconds or 0.0,
        )

    def _throughput_fraction(self, struck: Struck) -> Numbers:
        return groups_throughput_fraction(
            struck.demands.num_state_copies, min_groups=_min_groups(struck), up_fraction=self._up_fraction(struck)
        )

    def _kept_fraction(self, struck: Struck) -> Numbers:
        """Share of the failures after which another group still has the state: not the last one that trains."""
        others = struck.demands.num_state_copies - 1
        return struck.within_node_fraction * (1.0 - np.power(1.0 - self._up_fraction(struck), others))


def _min_groups(struck: Struck) -> Numbers:
    return struck.reliability.shrink.min_groups if struck.reliability.shrink else 1


SHRINK = ShrinkGroups(
    name="shrink",
    summary="the replica group leaves, the others train on at less throughput until it is repaired",
    loses="the step under way; all since the newest checkpoint where every group is lost",
    needs="two groups that each hold the whole state, reliability.shrink, repair_seconds and step_seconds",
    waits=False,
)
