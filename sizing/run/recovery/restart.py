"""All ranks start anew and read the newest checkpoint that is left."""

from __future__ import annotations

from sizing.run.goodput.course import Course
from sizing.run.recovery.base import RecoveryStrategy, Struck


class Restart(RecoveryStrategy):
    """What frameworks do by themselves; with spares a failed node need not be waited for while there is another."""

    def course(self, struck: Struck) -> Course:
        """Every failure rolls back to a save, and waits for a node where no spare is left."""
        return Course(
            struck.levels, struck.mtbf_seconds, struck.mtbf_seconds, struck.available_fraction, pool=struck.pool
        )


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
