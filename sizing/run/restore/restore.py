"""How long a restart reads: which part how many times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import RestorePlan, RestoreStrategy
from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.figures import Figures
from sizing.run.restore.exchange import exchange_of
from sizing.run.write import Write
from sizing.storage.limits import Limit, Resource, Transfer, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.units import rate_text


class RestoredPart(BaseModel):
    """One part of the state, as a restore reads it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        description="Seconds from a failure to the first step (RTO): detection, relaunch and restore, or a measured "
        "restart when that is longer. Null without a read rate."
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


def restore_of(
    profile: StorageProfile | None,
    *,
    demands: Demands,
    strategy: RestoreStrategy,
    write: Write | None,
    reliability: Reliability | None,
) -> Restore:
    """What all ranks read when the run restarts, and how long that takes.

    Each part is read as its format and the strategy say: by every replica again, once and passed on, by every rank its
    share, or by few ranks that deal it out. In the classic layout B_read = B_written x replicas.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs"; MegaScale (Jiang et al. 2024,
    arXiv 2402.15627) reads once and broadcasts; the formats' own in `layout/formats`.
    """
    plan = demands.restores[strategy]
    moved = transfer(profile, plan.demands, direction="read") if profile else None
    times = _Times.of(plan, moved, demands=demands, reliability=reliability) if moved else _Times()
    is_one = moved is not None and np.ndim(moved.seconds) == 0
    return Restore.of(
        strategy=strategy,
        num_gpus=plan.num_gpus,
        read_bytes=plan.read_bytes,
        mean_rank_read_bytes=plan.read_bytes / plan.num_gpus,
        max_rank_read_bytes=plan.max_rank_read_bytes,
        parts=_parts(plan),
        seconds=times.seconds,
        read_seconds=times.read_seconds,
        exchange_seconds=times.exchange_seconds,
        time_to_first_step_seconds=times.time_to_first_step_seconds,
        bytes_per_second=times.bytes_per_second,
        bytes_per_second_for_write_time=plan.read_bytes / write.seconds if write else None,
        bottleneck=times.bottleneck,
        limits=list(moved.limits) if moved and is_one else [],
        strategies=_alternatives(profile, demands, {strategy: moved}) if profile and moved and is_one else [],
    )


def _parts(plan: RestorePlan) -> dict[str, RestoredPart]:
    return {
        name: RestoredPart(num_readings=reading.num_readings, read_bytes=reading.read_bytes)
        for name, reading in plan.readings.items()
    }


@dataclass(frozen=True, slots=True)
class _Times:
    """What needs a read rate; all None without one."""

    seconds: Numbers | None = None
    read_seconds: Numbers | None = None
    exchange_seconds: Numbers | None = None
    time_to_first_step_seconds: Numbers | None = None
    bytes_per_second: Numbers | None = None
    bottleneck: Resource | None = None

    @classmethod
    def of(cls, plan: RestorePlan, moved: Transfer, *, demands: Demands, reliability: Reliability | None) -> _Times:
        passed_on = exchange_of(plan, demands)
        seconds = moved.seconds + passed_on
        return cls(
            seconds=seconds,
            read_seconds=moved.seconds,
            exchange_seconds=passed_on,
            time_to_first_step_seconds=_first_step_seconds(seconds, reliability),
            bytes_per_second=plan.read_bytes / moved.seconds,
            bottleneck=moved.bottleneck,
        )


def _first_step_seconds(restore_seconds: Numbers, reliability: Reliability | None) -> Numbers:
    """From a failure to the first step: as computed, or as measured where that is longer."""
    computed = restore_seconds + seconds_before_reading(reliability)
    return computed if reliability is None else np.maximum(computed, reliability.recovery_seconds(restore_seconds))


def _alternatives(
    profile: StorageProfile, demands: Demands, known: Mapping[RestoreStrategy, Transfer]
) -> list[RestoreAlternative]:
    """Every strategy on a profile that has read rates; `known` transfers are not computed again."""
    alternatives = []
    for strategy, plan in demands.restores.items():
        moved = known.get(strategy) or transfer(profile, plan.demands, direction="read")
        assert moved is not None  # noqa: S101  rates that served one strategy serve all
        seconds, passed_on = moved.seconds, exchange_of(plan, demands)
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


def restore_warnings(restore: Restore, profile: StorageProfile | None, *, demands: Demands) -> Iterator[str]:
    """What a reader must know together with the time to restore."""
    if demands.restores[restore.strategy].exchanged_bytes_per_node and demands.network_bytes_per_second is None:
        yield (
            "The node's compute network is not published, so the exchange between nodes counts as 0 s. Give "
            "cluster.node_spec.compute_network_bytes_per_second"
        )
    if profile is not None and restore.seconds is None:
        wanted = restore.bytes_per_second_for_write_time
        hint = f". {rate_text(wanted)} would read in the same time as the write" if wanted else ""
        yield f"No read bandwidth given: restore time not computed. Pass --read-bandwidth{hint}"
