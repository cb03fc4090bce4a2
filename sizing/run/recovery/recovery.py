"""The `recovery` block of the report, and the course of a run: its strategy, and preemptions beside failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from pydantic import Field

from sizing.run.demands.demands import Demands
from sizing.run.failures import Reliability
from sizing.run.figures import Figures
from sizing.run.goodput.course import Course, behind, in_front
from sizing.run.goodput.levels import Level
from sizing.run.interruptions import StrategyName
from sizing.run.recovery.base import Struck, rollback_mtbf_seconds
from sizing.run.recovery.registry import STRATEGIES
from sizing.storage.transfer import Numbers
from sizing.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, percent_text, seconds_text

_NEVER_LOST = 10_000
"""A save within the notice loses nothing: as if each interval had that many saves that take no time."""
NOTABLE_FRACTION = 0.01
"""Of failures that find no spare, from which on a reader is told. A choice."""


class Recovery(Figures):
    """The `recovery` block of the report: what follows a failure, and what that takes."""

    strategy: StrategyName = Field(description="What follows a failure: reliability.strategy.")
    recovery_seconds: float = Field(
        description="Mean seconds from an interruption until training goes on, waits for nodes included."
    )
    wait_seconds: float = Field(
        description="Seconds of recovery_seconds in which the job waits for nodes, in which nothing strikes."
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
        description="Seconds that a failure of a node waits for a repair, as a mean over all of them. "
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
    data_skip_seconds: float = Field(0.0, description="Seconds of each resume in which the loader skips data.")


def course_of(reliability: Reliability, *, demands: Demands, levels: Sequence[Level], mtbf_seconds: Numbers) -> Course:
    """The course of a run that saves to `levels`.

    Raises InvalidInput where the strategy lacks what it needs.
    """
    struck = Struck(reliability, demands, levels, mtbf_seconds)
    strategy = STRATEGIES[reliability.recovery_strategy]
    strategy.check(struck)
    return _with_preemptions(strategy.course(struck), struck)


def recovery_of(
    course: Course | None, *, reliability: Reliability | None, demands: Demands, levels: Sequence[Level]
) -> Recovery | None:
    """The block; None without a course."""
    if course is None or reliability is None:
        return None
    mtbf = reliability.job_mtbf_seconds(num_nodes=demands.num_nodes, num_gpus=demands.num_gpus)
    struck, strategy = Struck(reliability, demands, levels, mtbf), STRATEGIES[reliability.recovery_strategy]
    waits, preemption = strategy.waits and struck.pool is not None, reliability.preemption
    figures = {"from_storage_fraction": 1.0} | strategy.figures(struck)
    return Recovery.of(
        strategy=reliability.recovery_strategy,
        recovery_seconds=course.recovery_seconds,
        wait_seconds=course.wait_seconds,
        available_fraction=course.available_fraction,
        num_spare_nodes=struck.num_spares,
        num_spare_gpus=struck.num_spares * demands.node.gpus_per_node,
        spares_run_out_fraction=struck.runs_out_fraction if waits else None,
        wait_for_node_seconds=struck.wait_seconds if waits else None,
        preemptions_per_day=preemption.per_hour * SECONDS_PER_DAY / SECONDS_PER_HOUR if preemption else None,
        saved_in_notice_fraction=_saved_in_notice(struck) if preemption else None,
        data_skip_seconds=reliability.skipping_seconds,
        **figures,
    )


def _with_preemptions(course: Course, struck: Struck) -> Course:
    """Preemptions beside failures: each is recovered from the save within its notice, or from the newest one.

    Nothing strikes while there is no capacity; nobody need detect what was told.
    """
    preemption = struck.reliability.preemption
    if preemption is None:
        return course
    per_second, main = preemption.per_hour / SECONDS_PER_HOUR, struck.levels[-1]
    rate = 1.0 / course.mtbf_seconds + per_second
    share, saved = per_second / rate, _saved_in_notice(struck)
    started = main.recovery_seconds - struck.reliability.detection_seconds
    lost = share * (1.0 - saved)
    levels = behind(course.levels, recovery_seconds=started, used_fraction=lost)
    front = Level(levels[0].interval_seconds / _NEVER_LOST, 0.0, 0.0, started + _save_seconds(main), share * saved)
    rolled_back = np.nan_to_num(np.divide(course.mtbf_seconds, course.rollback_mtbf_seconds)) / course.mtbf_seconds
    rollbacks = (rolled_back + per_second * (1.0 - saved)) / rate
    waiting = 1.0 / course.available_fraction - 1.0 + per_second * preemption.capacity_wait_seconds
    mtbf = 1.0 / rate
    return replace(
        course,
        levels=in_front(levels, front),
        mtbf_seconds=mtbf,
        rollback_mtbf_seconds=rollback_mtbf_seconds(mtbf, rolled_back_fraction=rollbacks),
        available_fraction=np.divide(1.0, 1.0 + waiting),
        preempted_levels=(0, len(levels)),
        capacity_wait_seconds=preemption.capacity_wait_seconds,
    )


def _saved_in_notice(struck: Struck) -> Numbers:
    """1 where a save counts before the nodes are gone, 0 where not."""
    preemption = struck.reliability.preemption
    notice = preemption.notice_seconds if preemption else 0.0
    fits: Numbers = np.less_equal(_save_seconds(struck.levels[-1]), notice) * 1.0
    return fits


def _save_seconds(main: Level) -> Numbers:
    return main.stall_seconds + main.drain_seconds


def recovery_warnings(recovery: Recovery | None) -> Iterator[str]:
    """What a reader must know of spares that run out, and of notices that are too short."""
    if recovery is None:
        return
    runs_out = recovery.spares_run_out_fraction
    if recovery.num_spare_nodes and runs_out is not None and runs_out > NOTABLE_FRACTION:
        yield (
            f"{percent_text(runs_out)} of the failures find no spare: they wait for a repair, "
            f"{seconds_text(recovery.wait_for_node_seconds or 0.0)} on average over all. Raise reliability.spares.num"
        )
    if recovery.saved_in_notice_fraction == 0.0:
        yield (
            "A save takes longer than the notice of a preemption, which undoes the work since the newest one. "
            "Raise the write bandwidth, or save more often"
        )
