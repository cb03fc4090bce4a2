"""Ranks start anew in their processes, as long as no node is lost."""

from __future__ import annotations

from dataclasses import replace

from sizing.errors import InvalidInput
from sizing.run.failure_process import FailureProcess
from sizing.run.recovery_strategies import FailedJob, RecoveryStrategy


class InProcess(RecoveryStrategy):
    """After a failure of a process nothing is relaunched; after that of a node all is."""

    def check(self, job: FailedJob) -> None:
        """Raise InvalidInput with a measured restart, which hides what the relaunch takes of it."""
        if job.reliability.restart_seconds is not None:
            raise InvalidInput.of(
                "reliability.restart_seconds",
                "must not be given with strategy in-process",
                value=job.reliability.restart_seconds,
                remedy="give relaunch_seconds",
            )

    def failure_process(self, job: FailedJob) -> FailureProcess:
        """Every failure rolls back to a save; the mean recovery is shorter by the relaunches that are left out."""
        of_processes = job.smaller_fraction("node", unless_told=0.0)
        spared = of_processes * job.reliability.start_seconds()
        levels = [replace(level, recovery_seconds=level.recovery_seconds - spared) for level in job.levels]
        return FailureProcess(levels, job.mtbf_seconds, job.mtbf_seconds, job.available_fraction, pool=job.pool)


IN_PROCESS = InProcess(
    name="in-process",  # type: ignore[arg-type]  # once StrategyName has it, this comment goes
    summary="ranks start anew in their processes, and relaunch where a node is lost",
    loses="all since the newest checkpoint that counts",
    needs="reliability.components, which say what a failure loses",
)
