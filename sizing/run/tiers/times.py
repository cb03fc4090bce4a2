"""How long a save to a tier and a restore from it take."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sizing.errors import InvalidInput
from sizing.layout.formats import Mode
from sizing.run.demands.demands import Demands
from sizing.run.demands.readings import RestoreStrategy
from sizing.run.restore.exchange import exchange_of
from sizing.run.tier import NODE_KINDS, Tier
from sizing.run.write import copy_bytes_per_second
from sizing.storage.limits import transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True)
class TierTimes:
    """Seconds for which a save stalls training, and drains after it; of a restore, None where not known."""

    stall_seconds: Numbers
    drain_seconds: Numbers
    read_seconds: Numbers | None


def tier_times(
    tier: Tier,
    mode: Mode,
    main: StorageProfile | None,
    *,
    demands: Demands,
    strategy: RestoreStrategy,
    is_first: bool,
) -> TierTimes:
    """The times of a tier.

    The first tier that is saved to asynchronously stalls training for the copy to host memory; the others drain from
    the one before. A tier in the nodes is read back once, by the nodes that wrote it, and passed on; the adapters for
    storage do not limit it.
    Raises InvalidInput where a rate is missing.
    """
    demands = demands.through(None) if tier.kind in NODE_KINDS else demands
    profile = _profile(tier, main, demands)
    stall, drain = _save_seconds(tier, mode, profile, main, demands=demands, is_first=is_first)
    plan = demands.own_restore if tier.kind in NODE_KINDS else demands.restores[strategy]
    moved = transfer(profile, plan.demands, direction="read")
    reading = None if moved is None else moved.seconds + exchange_of(plan, demands)
    return TierTimes(stall, drain, reading)


def _save_seconds(
    tier: Tier, mode: Mode, profile: StorageProfile, main: StorageProfile | None, *, demands: Demands, is_first: bool
) -> tuple[Numbers, Numbers]:
    if tier.kind == "host-memory":
        return _copy_seconds(main, demands), 0.0
    if mode == "async":
        profile = profile.model_copy(update={"device_to_host_bytes_per_second": None})
    demand = replace(demands.write, total_bytes=demands.written_bytes * _copies_sent(tier))
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
    return (_copy_seconds(main, demands) if is_first else 0.0), moved.seconds


def _copy_seconds(main: StorageProfile | None, demands: Demands) -> Numbers:
    return demands.written_bytes / (demands.write.num_streams * copy_bytes_per_second(main, demands))


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
