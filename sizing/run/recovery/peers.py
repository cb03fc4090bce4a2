"""Ranks that replace lost ones get their state from the memory of data-parallel peers."""

from __future__ import annotations

from typing import Any

import numpy as np

from sizing.errors import InvalidInput
from sizing.run.goodput.course import Course, in_front
from sizing.run.goodput.levels import Level
from sizing.run.recovery.base import RecoveryStrategy, Struck, rollback_mtbf_seconds
from sizing.run.recovery.odds import all_copies_lost_fraction
from sizing.storage.transfer import Numbers


class Peers(RecoveryStrategy):
    """The work of one step is lost, unless all copies of a shard are."""

    def check(self, struck: Struck) -> None:
        """Raise InvalidInput without copies in other nodes, a rate of the network, or with a measured restart."""
        copies, reliability = struck.demands.num_state_copies, struck.reliability
        if np.any(np.less(copies, 2)):
            raise InvalidInput.of(
                "reliability.strategy",
                "must not be peers where no other node holds a copy of the whole training state",
                value=f"{copies} copy",
                remedy="shard over fewer ranks (parallelism.shard_group), leave the optimizer whole, or raise data",
            )
        if struck.demands.network_bytes_per_second is None:
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

    def course(self, struck: Struck) -> Course:
        """Failures that leave a copy of each shard lose a step; others roll back to a save."""
        kept = self._kept_fraction(struck)
        front = Level(struck.reliability.step_seconds or 0.0, 0.0, 0.0, self._recovery_seconds(struck), kept)
        return Course(
            in_front(struck.levels, front),
            struck.mtbf_seconds,
            rollback_mtbf_seconds(struck.mtbf_seconds, rolled_back_fraction=1.0 - kept),
            struck.available_fraction,
            pool=struck.pool,
        )

    def figures(self, struck: Struck) -> dict[str, Any]:
        """Copies, what is sent, and how often the storage is needed all the same."""
        return {
            "num_copies": struck.demands.num_state_copies,
            "peer_bytes_per_node": struck.demands.unreduced.node_state_bytes,
            "peer_seconds": _sending_seconds(struck),
            "from_storage_fraction": 1.0 - self._kept_fraction(struck),
        }

    def _kept_fraction(self, struck: Struck) -> Numbers:
        lost = all_copies_lost_fraction(
            struck.demands.num_state_copies,
            window_seconds=self._recovery_seconds(struck) + struck.wait_seconds,
            node_mtbf_seconds=struck.mtbf_seconds * struck.demands.num_nodes / struck.within_node_fraction,
        )
        return struck.within_node_fraction * (1.0 - lost)

    def _recovery_seconds(self, struck: Struck) -> Numbers:
        reliability = struck.reliability
        before = reliability.detection_seconds + reliability.start_seconds + reliability.skipping_seconds
        return before + _sending_seconds(struck)


def _sending_seconds(struck: Struck) -> Numbers:
    """A node receives its state at the rate of its ports, each shard from one of the nodes that hold a copy."""
    return struck.demands.unreduced.node_state_bytes / np.asarray(struck.demands.network_bytes_per_second)


PEERS = Peers(
    name="peers",
    summary="lost ranks start anew and get their state from the memory of data-parallel peers",
    loses="the step under way; all since the newest checkpoint where every copy of a shard is lost",
    needs="copies of the state in other nodes, reliability.step_seconds",
)
