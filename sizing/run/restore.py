"""How long a restart reads, and how long nodes then pass on to others what they have read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.figures import Figures
from sizing.run.read_plan import ReadPlan, RestoreStrategy
from sizing.run.recovery import wait_after_failure_seconds
from sizing.run.workload import CheckpointWorkload
from sizing.storage.limits import Limit, Resource, Transfer, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.strict_model import StrictModel
from sizing.units import rate_text


class RestoredPart(StrictModel):
    """One part of the state, as a restore reads it."""

    num_readings: float = Field(
        description="How many times storage reads this part: read_bytes over its bytes in the files."
    )
    read_bytes: int = Field(description="Bytes that all ranks together read of this part.")


class RestoreAlternative(Figures):
    """What one of the strategies would take: reading from storage, then passing on over the compute network."""

    strategy: RestoreStrategy = Field(description="Way to read what replicas share.")
    read_bytes: int = Field(description="Bytes that all ranks together read from storage.")
    read_seconds: float = Field(description="Seconds of reading from storage.")
    exchange_seconds: float = Field(description="Seconds of exchange between nodes over the compute network.")
    seconds: float = Field(description="Seconds of reading and exchange together.")


class Restore(Figures):
    """The `restore` block of the report."""

    strategy: RestoreStrategy = Field(description="Way to read what replicas share, as checkpoint.restore says.")
    num_gpus: int = Field(description="World size that restores: the one that saved, or of restore_parallelism.")
    read_bytes: int = Field(description="Bytes that all ranks together read from storage.")
    mean_rank_read_bytes: float = Field(description="Mean bytes that one rank reads from storage in a restart.")
    max_rank_read_bytes: float = Field(description="Bytes that the busiest rank reads from storage in a restart.")
    parts: dict[str, RestoredPart] = Field(
        description="Readings of each part of the state: weights, master copy, moments, EMA, .metadata."
    )
    seconds: float | None = Field(description="Seconds of reading and exchange. Null without a read rate.")
    read_seconds: float | None = Field(description="Seconds of reading from storage. Null without a read rate.")
    exchange_seconds: float | None = Field(
        description="Seconds of exchange between nodes over the compute network. Null without a read rate."
    )
    time_to_first_step_seconds: float | None = Field(
        description="Mean seconds from a failure to the first step (RTO): the wait for a node, detection, relaunch and "
        "restore, or a measured restart when that is longer. Null without a read rate."
    )
    bytes_per_second: float | None = Field(
        description="Rate of reading over all nodes, in bytes per second. Null without a read rate."
    )
    bytes_per_second_for_write_time: float | None = Field(
        description="Read rate at which reading takes as long as the write did, in bytes per second. "
        "Null without a write rate."
    )
    bottleneck: Resource | None = Field(
        description="Resource with the longest time while reading. Null without a read rate."
    )
    limits: list[Limit] = Field(
        default_factory=list, description="Time and slack of each resource while reading. Empty without a read rate."
    )
    strategies: list[RestoreAlternative] = Field(
        default_factory=list, description="What every strategy would take, to choose from. Empty without a read rate."
    )


@dataclass(frozen=True, slots=True)
class RestoreTimes:
    """The times of a restart that reads from the main storage: numbers, or arrays that broadcast.

    `transfer` is what all ranks read, `exchange_seconds` how long they then pass on what they have read.
    """

    transfer: Transfer
    exchange_seconds: Numbers
    time_to_first_step_seconds: Numbers

    @property
    def seconds(self) -> Numbers:
        """Time of reading and exchange together."""
        return self.transfer.seconds + self.exchange_seconds


def time_restore(
    profile: StorageProfile | None,
    *,
    workload: CheckpointWorkload,
    strategy: RestoreStrategy,
    reliability: Reliability | None,
) -> RestoreTimes | None:
    """The times of a restart, or None where no read rate is known.

    To the first step it takes what is computed, or what is measured where that is longer.
    """
    plan = workload.restores[strategy]
    moved = transfer(profile, plan.steps, direction="read") if profile else None
    if moved is None:
        return None
    exchanging = exchange_of(plan, workload)
    reading = moved.seconds + exchanging
    first_step = reading
    if reliability is not None:
        lost = reliability.node_lost_fraction(num_nodes=workload.num_nodes, num_gpus=workload.num_gpus)
        first_step = reading + seconds_before_reading(reliability, node_lost_fraction=lost)
        first_step = np.maximum(first_step, reliability.recovery_seconds(reading, node_lost_fraction=lost))
        first_step = first_step + wait_after_failure_seconds(reliability, workload=workload)
    return RestoreTimes(moved, exchanging, first_step)


def restore_of(
    times: RestoreTimes | None,
    *,
    workload: CheckpointWorkload,
    strategy: RestoreStrategy,
    profile: StorageProfile | None,
    write_seconds: Numbers | None,
) -> Restore:
    """What all ranks read when the run restarts, and how long that takes.

    Each part is read as its format and the strategy say: by every replica again, once and passed on, by every rank its
    share, or by few ranks that deal it out. In the classic layout B_read = B_written x replicas.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs"; MegaScale (Jiang et al. 2024,
    arXiv 2402.15627) reads once and broadcasts; the formats' own in `layout/formats`.
    """
    plan = workload.restores[strategy]
    is_one = times is not None and np.ndim(times.transfer.seconds) == 0
    return Restore.of(
        strategy=strategy,
        num_gpus=plan.num_gpus,
        read_bytes=plan.read_bytes,
        mean_rank_read_bytes=plan.read_bytes / plan.num_gpus,
        max_rank_read_bytes=plan.max_rank_read_bytes,
        parts={
            name: RestoredPart(num_readings=reading.num_readings, read_bytes=reading.read_bytes)
            for name, reading in plan.parts.items()
        },
        seconds=times.seconds if times else None,
        read_seconds=times.transfer.seconds if times else None,
        exchange_seconds=times.exchange_seconds if times else None,
        time_to_first_step_seconds=times.time_to_first_step_seconds if times else None,
        bytes_per_second=plan.read_bytes / times.transfer.seconds if times else None,
        bytes_per_second_for_write_time=None if write_seconds is None else plan.read_bytes / write_seconds,
        bottleneck=times.transfer.bottleneck if times else None,
        limits=list(times.transfer.limits) if times and is_one else [],
        strategies=_alternatives(profile, workload, {strategy: times.transfer}) if profile and times and is_one else [],
    )


def _alternatives(
    profile: StorageProfile, workload: CheckpointWorkload, known: Mapping[RestoreStrategy, Transfer]
) -> list[RestoreAlternative]:
    """Every strategy on a profile that has read rates; `known` transfers are not computed again."""
    alternatives = []
    for strategy, plan in workload.restores.items():
        moved = known.get(strategy) or transfer(profile, plan.steps, direction="read")
        assert moved is not None  # noqa: S101  rates that served one strategy serve all
        seconds, passed_on = moved.seconds, exchange_of(plan, workload)
        alternatives.append(
            RestoreAlternative.of(
                strategy=strategy,
                read_bytes=plan.read_bytes,
                read_seconds=seconds,
                exchange_seconds=passed_on,
                seconds=seconds + passed_on,
            )
        )
    return alternatives


def exchange_of(plan: ReadPlan, workload: CheckpointWorkload) -> Numbers:
    """The time in which a plan's nodes pass on what they read.

    Source: `exchange_seconds`.

    >>> from sizing.sized_layout import size_layout
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> workload = size_layout(scenario_from(REFERENCE_SCENARIO)).workload
    >>> round(float(exchange_of(workload.restores["read-once-broadcast"], workload)), 4)
    1.0781
    """
    rate = workload.network_bytes_per_second
    return exchange_seconds(plan.exchanged_bytes_per_node, network_bytes_per_second=rate)


def exchange_seconds(exchanged_bytes_per_node: Numbers, *, network_bytes_per_second: Numbers | None) -> Numbers:
    """Time in which nodes pass on what they read: bytes that the busiest node receives or sends / its network rate.

    A pipelined broadcast brings every node what it holds, once, however many of its ranks hold it; an exchange of equal
    shares (n - 1)/n of it among n nodes that hold it; ranks that deal out send what they read. Passing it on within a
    node takes no time. 0 where the rate is not known.
    Source: Chan et al. 2007, "Collective communication: theory, practice, and experience", lower bounds of the
    bandwidth term; nothing overlaps with the reading.

    >>> float(exchange_seconds(13.8e12 / 64, network_bytes_per_second=200e9))
    1.078125
    """
    return 0.0 if network_bytes_per_second is None else np.divide(exchanged_bytes_per_node, network_bytes_per_second)


def restore_warnings(
    restore: Restore, profile: StorageProfile | None, *, workload: CheckpointWorkload
) -> Iterator[str]:
    """What a reader must know together with the time to restore."""
    if workload.restores[restore.strategy].exchanged_bytes_per_node and workload.network_bytes_per_second is None:
        yield (
            "The node's compute network is not published, so the exchange between nodes counts as 0 s. Give "
            "cluster.node_spec.compute_network_bytes_per_second"
        )
    if profile is not None and restore.seconds is None:
        wanted = restore.bytes_per_second_for_write_time
        hint = f". {rate_text(wanted)} would read in the same time as the write" if wanted else ""
        field = "storage.profile.read_bytes_per_second"
        yield f"No read bandwidth given: restore time not computed. Pass {field}{hint}"
