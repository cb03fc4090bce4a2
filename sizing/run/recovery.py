"""The failure process of a run, by its recovery strategy and preemptions, and the `recovery` block of the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from pydantic import Field

from sizing.run.failure_process import FailureProcess, behind, in_front
from sizing.run.failures import Reliability, StrategyName
from sizing.run.figures import Figures
from sizing.run.levels import Level
from sizing.run.recovery_strategies import STRATEGIES, FailedJob, rollback_mtbf_seconds
from sizing.run.workload import CheckpointWorkload
from sizing.storage.transfer import Numbers
from sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, percent_text, seconds_text

_NEVER_LOST = 10_000
"""A save within the notice loses nothing: as if each interval had that many saves that take no time."""
NOTABLE_FRACTION = 0.01
"""Share of the failures of nodes that find no spare, from which on a reader is told. A choice."""


class Recovery(Figures):
    """The `recovery` block of the report: what follows a failure, and what that takes."""

    strategy: StrategyName = Field(description="What follows a failure: reliability.strategy.")
    recovery_seconds: float = Field(
        description="Mean seconds from an interruption until training goes on, waits for nodes included."
    )
    wait_seconds: float = Field(
        description="Seconds of recovery_seconds in which the job waits for nodes, in which nothing strikes; with "
        "shrink until as many groups as min_groups are back."
    )
    available_fraction: float = Field(
        description="Fraction of the nodes' time in which the job has its nodes. The rest counts as recovery."
    )
    from_storage_fraction: float = Field(
        description="Fraction of the failures after which all ranks go back to a save."
    )
    num_spare_nodes: int = Field(0, description="Nodes that stand idle in reserve.")
    num_spare_gpus: int = Field(0, description="GPUs of the nodes in reserve, whose hours are lost GPU time.")
    spares_run_out_fraction: float | None = Field(
        None,
        description="Fraction of the failures of nodes that find no spare, by Erlang's loss formula. "
        "Null without reliability.repair_seconds, and with shrink.",
    )
    wait_for_node_seconds: float | None = Field(
        None,
        description="Seconds that a failure of a node waits for a repair, as a mean over all such failures. "
        "Null without reliability.repair_seconds, and with shrink.",
    )
    num_copies: int | None = Field(
        None,
        description="Copies of the whole training state in different nodes: peers to read from, or groups. "
        "Null without peers and shrink.",
    )
    peer_bytes_per_node: float | None = Field(
        None, description="Bytes of state that a replaced node receives from peers. Null without peers."
    )
    peer_seconds: float | None = Field(
        None, description="Seconds in which a replaced node receives its state over its network. Null without peers."
    )
    mean_groups: float | None = Field(
        None, description="Groups that train, as a mean over the time. Null without shrink."
    )
    throughput_fraction: float | None = Field(
        None, description="Mean throughput as a fraction of that of all groups. Null without shrink."
    )
    mean_batch_fraction: float | None = Field(
        None, description="Mean global batch as a fraction of the full one, while groups lack. Null without shrink."
    )
    preemptions_per_day: float | None = Field(
        None, description="Mean preemptions per day that the job has its nodes. Null without preemption."
    )
    saved_in_notice_fraction: float | None = Field(
        None,
        description="Fraction of the preemptions before which a save ends within the notice: 0 or 1. "
        "Null without preemption.",
    )
    restores_per_day: float = Field(
        description="Mean restores from the main storage per day of wall time, after failures and preemptions. "
        "One that a further failure breaks off counts again, one that a failure prevents before it reads does not."
    )
    saves_per_day: float = Field(
        description="Mean saves to the main storage per day of wall time that no failure undoes, those within the "
        "notice of preemptions included."
    )
    data_skip_seconds: float = Field(0.0, description="Seconds of each resume in which the loader skips data.")


def failure_process_of(
    levels: Sequence[Level], *, reliability: Reliability | None, workload: CheckpointWorkload
) -> FailureProcess | None:
    """The failures of a run that saves to `levels`, and what follows them; None without levels or failures.

    Raises InvalidInput where the recovery strategy lacks what it needs.
    """
    if reliability is None or not levels:
        return None
    job = FailedJob.of(levels, reliability=reliability, workload=workload)
    strategy = STRATEGIES[reliability.recovery_strategy]
    strategy.check(job)
    return _with_preemptions(strategy.failure_process(job), job)


def recovery_of(
    process: FailureProcess | None,
    *,
    reliability: Reliability | None,
    workload: CheckpointWorkload,
    levels: Sequence[Level],
) -> Recovery | None:
    """The `recovery` block of the report; None without a failure process."""
    if process is None or reliability is None:
        return None
    job = FailedJob.of(levels, reliability=reliability, workload=workload)
    strategy = STRATEGIES[reliability.recovery_strategy]
    waits, preemption = strategy.waits and job.pool is not None, reliability.preemption
    figures = {"from_storage_fraction": 1.0} | strategy.figures(job)
    counted_per_second = process.kept_fraction / process.period_seconds(process.levels[-1].interval_seconds)
    return Recovery.of(
        strategy=reliability.recovery_strategy,
        recovery_seconds=process.recovery_seconds,
        wait_seconds=process.wait_seconds,
        available_fraction=process.available_fraction,
        num_spare_nodes=job.num_spares,
        num_spare_gpus=job.num_spares * workload.node.gpus_per_node,
        spares_run_out_fraction=job.runs_out_fraction if waits else None,
        wait_for_node_seconds=job.wait_seconds if waits else None,
        preemptions_per_day=preemption.per_hour * SECONDS_PER_DAY / SECONDS_PER_HOUR if preemption else None,
        saved_in_notice_fraction=_saved_in_notice(job) if preemption else None,
        restores_per_day=process.restores_per_second(len(levels))[-1] * SECONDS_PER_DAY,
        saves_per_day=(counted_per_second + process.saves_in_notice_per_second) * SECONDS_PER_DAY,
        data_skip_seconds=reliability.skipping_seconds,
        **figures,
    )


def wait_after_failure_seconds(reliability: Reliability | None, *, workload: CheckpointWorkload) -> Numbers:
    """Mean time for which a failure leaves the job without the nodes to train, over all failures but preemptions.

    Source: definition; `wait_for_node_seconds` times the share of the failures that take a node, and with shrink
    `wait_for_groups_seconds`.

    >>> wait_after_failure_seconds(None, workload=None)
    0.0
    """
    if reliability is None:
        return 0.0
    job = FailedJob.of((), reliability=reliability, workload=workload)
    return STRATEGIES[reliability.recovery_strategy].wait_seconds(job)


def _with_preemptions(process: FailureProcess, job: FailedJob) -> FailureProcess:
    """Preemptions beside failures: each is recovered from the save within its notice, or from the newest one.

    A save within the notice is on the main storage, where later failures find it too. Nothing strikes while there is no
    capacity; nobody need detect what was told. All nodes are new, so processes are relaunched, and no spare is swapped
    in.
    """
    preemption = job.reliability.preemption
    if preemption is None:
        return process
    per_second, main = preemption.per_second, job.levels[-1]
    rate = 1.0 / process.mtbf_seconds + per_second
    share, saved = per_second / rate, _saved_in_notice(job)
    starting = job.reliability.start_seconds(node_lost_fraction=job.node_lost_fraction)
    relaunch_seconds = job.reliability.start_seconds(node_lost_fraction=0.0)
    started = main.recovery_seconds - job.reliability.detection_seconds - starting + relaunch_seconds
    lost = share * (1.0 - saved)
    before_read = np.maximum(0.0, main.before_read_seconds + started - main.recovery_seconds)
    levels = behind(process.levels, recovery_seconds=started, used_fraction=lost, before_read_seconds=before_read)
    front = Level(
        levels[0].interval_seconds / _NEVER_LOST,
        0.0,
        0.0,
        started + _save_seconds(job.levels),
        share * saved,
        before_read_seconds=before_read + _save_seconds(job.levels),
        is_notice=True,
    )
    rolled_back = np.nan_to_num(np.divide(process.mtbf_seconds, process.rollback_mtbf_seconds)) / process.mtbf_seconds
    rollbacks = (rolled_back + per_second * (1.0 - saved)) / rate
    waiting = 1.0 / process.available_fraction - 1.0 + per_second * preemption.capacity_wait_seconds
    mtbf = 1.0 / rate
    return replace(
        process,
        levels=in_front(levels, front),
        mtbf_seconds=mtbf,
        rollback_mtbf_seconds=rollback_mtbf_seconds(mtbf, rolled_back_fraction=rollbacks),
        available_fraction=np.divide(1.0, 1.0 + waiting),
        preempted_levels=(0, len(levels)),
        capacity_wait_seconds=preemption.capacity_wait_seconds,
    )


def _saved_in_notice(job: FailedJob) -> Numbers:
    """1 where a save counts before the nodes are gone, 0 where not."""
    preemption = job.reliability.preemption
    notice = preemption.notice_seconds if preemption else 0.0
    fits: Numbers = np.less_equal(_save_seconds(job.levels), notice) * 1.0
    return fits


def _save_seconds(levels: Sequence[Level]) -> Numbers:
    """Time from the notice until a save is complete on the main storage.

    Behind a tier a save that drains begins with that to the first tier, which copies the state out of the GPUs.
    """
    first, main = levels[0], levels[-1]
    copy = 0.0 if len(levels) == 1 else np.where(np.greater(main.drain_seconds, 0.0), first.stall_seconds, 0.0)
    return copy + main.stall_seconds + main.drain_seconds


def recovery_warnings(
    recovery: Recovery | None, reliability: Reliability | None, *, workload: CheckpointWorkload
) -> Iterator[str]:
    """What a reader must know of spares that run out, and of failures that take more nodes than one."""
    if recovery is None or reliability is None:
        return
    within_node = reliability.smaller_than_fraction("rack", num_nodes=workload.num_nodes, num_gpus=workload.num_gpus)
    beyond_node = 0.0 if within_node is None else 1.0 - float(within_node)
    if recovery.wait_for_node_seconds is not None and beyond_node > NOTABLE_FRACTION:
        yield (
            f"{percent_text(beyond_node)} of the failures take a rack or more (reliability.components): each is "
            "counted as a wait for one node, and where all its nodes must be repaired the run loses more"
        )
    runs_out = recovery.spares_run_out_fraction
    if recovery.num_spare_nodes and runs_out is not None and runs_out > NOTABLE_FRACTION:
        yield (
            f"{percent_text(runs_out)} of the failures of nodes find no spare: they wait for a repair, "
            f"{seconds_text(recovery.wait_for_node_seconds or 0.0)} on average over failures of nodes. "
            "Raise reliability.spares.num"
        )
