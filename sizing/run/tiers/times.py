"""How long a save to a tier and a restore from it take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from sizing.errors import InvalidInput
from sizing.layout.formats import Mode
from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import RestoreStrategy
from sizing.run.restore.exchange import exchange_of
from sizing.run.stall import staging_wait_seconds
from sizing.run.tier import NODE_KINDS, Tier
from sizing.run.write import copy_bytes_per_second
from sizing.storage.limits import transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class TierTimes:
    """Seconds for which a save stalls training, and drains after it; of a restore, None where not known.

    Of the stall `planning_seconds` are spent on plans, `staging_seconds` on waiting for room in host memory, and
    `export_seconds` on exports, as the mean over saves.
    """

    stall_seconds: Numbers
    drain_seconds: Numbers
    read_seconds: Numbers | None
    planning_seconds: Numbers = 0.0
    staging_seconds: Numbers = 0.0
    export_seconds: Numbers = 0.0

    @property
    def behind_a_tier(self) -> Self:
        """Of a save that drains from the tier in front: training waits for its plans and exports alone."""
        return replace(
            self,
            stall_seconds=self.planning_seconds + self.export_seconds,
            drain_seconds=self.drain_seconds + self.staging_seconds,
        )


def tier_times(
    tier: Tier,
    mode: Mode,
    main: StorageProfile | None,
    *,
    demands: Demands,
    strategy: RestoreStrategy,
    staging_bytes: Numbers | None,
    is_first: bool,
) -> TierTimes:
    """The times of a tier.

    The first tier that is saved to asynchronously stalls training for the copy to host memory, and for what must wait
    for room there; the others drain from the one before. A tier in the nodes is read back once, by the nodes that
    wrote it, and passed on; the adapters for storage do not limit it. Tiers take whole states of ranks, so there is
    nothing to plan.
    Raises InvalidInput where a rate is missing.
    """
    demands = demands.through(None) if tier.kind in NODE_KINDS else demands
    profile = _profile(tier, main, demands)
    stall, drain = _save_seconds(
        tier, mode, profile, main, demands=demands, staging_bytes=staging_bytes if is_first else None, is_first=is_first
    )
    plan = demands.own_restore if tier.kind in NODE_KINDS else demands.restores[strategy]
    moved = transfer(profile, plan.demands, direction="read")
    reading = None if moved is None else moved.seconds + exchange_of(plan, demands)
    return TierTimes(stall, drain, reading)


def _save_seconds(
    tier: Tier,
    mode: Mode,
    profile: StorageProfile,
    main: StorageProfile | None,
    *,
    demands: Demands,
    staging_bytes: Numbers | None,
    is_first: bool,
) -> tuple[Numbers, Numbers]:
    if tier.kind == "host-memory":
        # What lies on the host already is copied there too, taken to be as fast as from the GPU.
        return demands.write.largest_copied_bytes / copy_bytes_per_second(main, demands), 0.0
    if mode == "async":
        profile = profile.model_copy(update={"device_to_host_bytes_per_second": None})
    demand = replace(
        demands.write, total_bytes=demands.written_bytes * _copies_sent(tier), planning_seconds_per_rank=0.0
    )
    moved = transfer(profile, [demand], direction="write")
    if moved is None:
        raise InvalidInput.of(
            f"the {tier.kind} tier's storage.profile",
            "must have a write rate",
            value=None,
            remedy="give node_write_bytes_per_second or write_bytes_per_second",
        )
    if mode == "sync":
        return moved.seconds, 0.0
    waiting = staging_wait_seconds(moved.shared_seconds, staging_bytes=staging_bytes, demands=demands)
    return (_copy_seconds(main, demands) if is_first else 0.0) + waiting, moved.seconds - waiting


def _copy_seconds(main: StorageProfile | None, demands: Demands) -> Numbers:
    return demands.write.largest_linked_bytes / copy_bytes_per_second(main, demands)


def _copies_sent(tier: Tier) -> int:
    """Copies that pass over the tier's own rates: in peer memory the first one is the copy from the GPU."""
    return tier.num_copies - 1 if tier.kind == "peer-memory" else tier.num_copies


def _profile(tier: Tier, main: StorageProfile | None, demands: Demands) -> StorageProfile:
    """The rates of a tier: its own, else those of the GPUs' links or of the network between the nodes."""
    storage = resolve_storage(tier.storage)
    if storage is not None:
        return storage.profile
    copy = copy_bytes_per_second(main, demands)
    if tier.kind == "host-memory":
        return StorageProfile.of_figures({"writer_read_bytes_per_second": copy})
    network = demands.network_bytes_per_second
    if network is None:
        raise InvalidInput.of(
            "checkpoint.tiers",
            "is peer-memory, and the compute network of this node is not published",
            value=None,
            remedy="give the tier's storage.profile, or cluster.node_spec.compute_network_bytes_per_second",
        )
    return StorageProfile.of_figures(
        {
            "node_write_bytes_per_second": network,
            "node_read_bytes_per_second": network,
            "device_to_host_bytes_per_second": copy,
        }
    )
