"""The tiers as levels of saving, the main storage among them: stall, drain, interval in effect, and what each recovers.

One record, `TierLevel`, holds all that is computed of a tier. `goodput` and `failure_process` take it as the level that
it is, and `tier_rows` makes the report's rows of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from sizing.errors import InvalidInput
from sizing.layout.formats import Mode
from sizing.provenance import Assumption
from sizing.run.checkpoint import (
    ARCHIVE,
    MAIN,
    MEMORY_KINDS,
    NODE_KINDS,
    ROUNDING,
    Checkpoint,
    MainStorage,
    Tier,
    TierKind,
)
from sizing.run.failures import LOSS_DOMAINS, Reliability
from sizing.run.levels import Level, effective_interval_seconds
from sizing.run.restore import RestoreTimes, exchange_of
from sizing.run.workload import CheckpointWorkload
from sizing.run.write import SaveTimes, copy_bytes_per_second, staging_wait_seconds
from sizing.storage.limits import Transfer, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Rates
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLevel(Level):
    """A tier that the run saves to, as a level of saving; the main storage is one of them.

    Saves start every `given_interval_seconds` as the scenario says, and every `interval_seconds` in effect, where
    drains or a tier in front hold them up. `read_seconds` are those of a restore, None where not known;
    `drained_seconds` those in which a slower save reads its copy. Of the stall `planning_seconds` are spent on plans,
    `staging_seconds` on waiting for room in host memory, and `export_seconds` on exports, as the mean over saves.
    An object store takes a copy every `num_saves_of_copy`.
    """

    tier: Tier | MainStorage
    mode: Mode
    given_interval_seconds: Numbers
    read_seconds: Numbers | None
    drained_seconds: Numbers = 0.0
    planning_seconds: Numbers = 0.0
    staging_seconds: Numbers = 0.0
    export_seconds: Numbers = 0.0
    num_saves_of_copy: Numbers = 1.0

    @property
    def kind(self) -> TierKind | Literal["storage"]:
        """Kind of the tier; `storage` is the main one."""
        return self.tier.kind

    @property
    def is_main(self) -> bool:
        """Whether it is the main storage."""
        return self.kind == MAIN

    @property
    def whole_seconds(self) -> Numbers:
        """Time of a save's drain until a slower one can read a copy: in memory the node's own is whole at once."""
        return 0.0 if self.kind in MEMORY_KINDS else self.drain_seconds

    def behind(self, before: TierLevel | None) -> Self:
        """The tier with its interval in effect behind that of the tier in front, None for the first tier.

        Where the tier's own drain has lengthened its interval, it is a whole multiple of that in front again; behind a
        tier that is held up itself it is at least as long. In rows of arrays an interval is no number where it is not
        longer than that in front. A save that drains from the copy in front counts once that is whole and read.
        """
        given = self.given_interval_seconds
        interval_seconds = effective_interval_seconds(
            given, stall_seconds=self.stall_seconds, drain_seconds=self.max_drain_seconds
        )
        if before is not None:
            step = before.interval_seconds
            whole = np.ceil(np.divide(interval_seconds, step) * (1 - ROUNDING)) * step
            is_lengthened = np.greater(interval_seconds, given) & np.less_equal(step, before.given_interval_seconds)
            interval_seconds = np.where(is_lengthened, whole, np.maximum(interval_seconds, step))
            interval_seconds = np.where(
                np.greater_equal(given, before.given_interval_seconds), interval_seconds, np.nan
            )
        drain_seconds, longest = self.drain_seconds, self.max_drain_seconds
        if before is not None and self.mode == "async" and self.kind != ARCHIVE:
            drain_seconds, longest = (
                before.whole_seconds + np.maximum(seconds, before.drained_seconds)
                for seconds in (drain_seconds, longest)
            )
        return replace(
            self, interval_seconds=interval_seconds, drain_seconds=drain_seconds, longest_drain_seconds=longest
        )

    @property
    def drained_from_front(self) -> Self:
        """The main storage where saves drain from the tier in front: training waits for plans and exports alone."""
        return replace(
            self,
            stall_seconds=self.planning_seconds + self.export_seconds,
            drain_seconds=self.drain_seconds + self.staging_seconds,
            longest_drain_seconds=self.longest_drain_seconds + self.staging_seconds,
        )


def levels_of_tiers(
    checkpoint: Checkpoint, profile: StorageProfile | None, *, workload: CheckpointWorkload, main: TierLevel
) -> list[TierLevel]:
    """The tiers in front of the main storage, the main storage, and the tiers behind it.

    Raises InvalidInput where a rate is missing.
    """
    levels: list[TierLevel] = []
    for tier in checkpoint.places:
        if isinstance(tier, MainStorage):
            level = main if main.mode == "sync" or not levels else main.drained_from_front
        else:
            is_behind = tier.kind == ARCHIVE
            num_saves = num_saves_of_copy(tier.interval_seconds, levels) if is_behind else 1.0
            saved = workload.copied_every(num_saves) if is_behind else workload.unreduced
            level = level_of_tier(tier, checkpoint, profile, workload=saved, is_first=not levels)
            level = replace(level, num_saves_of_copy=num_saves)
        levels.append(level.behind(levels[-1] if levels else None))
    return levels


def num_saves_of_copy(interval_seconds: Numbers, levels: Sequence[TierLevel]) -> Numbers:
    """Saves to the main storage, one of the levels, in an interval of an object store behind it, 1 at least.

    Source: definition; a ratio of intervals that is whole but for rounding is whole.

    >>> main = dict(tier=MainStorage(), mode="sync", stall_seconds=0, drain_seconds=0, read_seconds=None)
    >>> float(num_saves_of_copy(0.3, [TierLevel(given_interval_seconds=0.1, interval_seconds=0.1, **main)]))
    3.0
    """
    of_main = next(level.interval_seconds for level in levels if level.is_main)
    ratio = np.divide(interval_seconds, of_main)
    whole = np.round(ratio)
    return np.maximum(1.0, np.where(np.isclose(ratio, whole, rtol=ROUNDING, atol=0.0), whole, ratio))


def level_of_main_storage(
    save: SaveTimes,
    restore: RestoreTimes | None,
    checkpoint: Checkpoint,
    *,
    export_seconds: Numbers = 0.0,
    longest: SaveTimes | None = None,
) -> TierLevel:
    """The main storage alone, exports included; `TierLevel.behind` puts it among the tiers.

    `longest` times the largest save where saves differ.
    """
    return TierLevel(
        tier=MainStorage(),
        mode=checkpoint.mode,
        given_interval_seconds=checkpoint.interval_seconds,
        interval_seconds=checkpoint.interval_seconds,
        stall_seconds=save.stall_seconds + export_seconds,
        drain_seconds=save.drain_seconds,
        longest_drain_seconds=(longest or save).seconds - save.stall_seconds if checkpoint.mode == "async" else 0.0,
        read_seconds=restore.seconds if restore else None,
        planning_seconds=save.planning_seconds,
        staging_seconds=save.staging_seconds,
        export_seconds=export_seconds,
    )


def level_of_tier(
    tier: Tier,
    checkpoint: Checkpoint,
    main: StorageProfile | None,
    *,
    workload: CheckpointWorkload,
    is_first: bool,
) -> TierLevel:
    """A tier beside the main storage, whose profile is `main`, before it stands behind another one.

    The first tier that is saved to asynchronously stalls training for the copy to host memory, and for what must wait
    for room there; the others drain from the one before. A save to a tier behind the main storage is a copy from
    there, so training never waits for it. A tier in the nodes is read back once, by the nodes that wrote it, and passed
    on; the adapters for storage do not limit it. Tiers take whole states of ranks, so nothing is planned or gathered.
    Raises InvalidInput where a rate is missing.
    """
    mode: Mode = "async" if tier.kind == ARCHIVE else tier.mode or checkpoint.mode
    workload = workload.past_adapters if tier.kind in NODE_KINDS else workload
    profile = _tier_profile(tier, main, workload)
    stall: Numbers
    drain: Numbers = 0.0
    if tier.kind == "host-memory":
        # What lies on the host already is copied there too, taken to be as fast as from the GPU.
        stall = workload.write.largest_copied_bytes / copy_bytes_per_second(main, workload)
    else:
        moved = _save_transfer(tier, mode, profile, workload)
        stall = moved.seconds
        if mode == "async":
            budget = checkpoint.staging_bytes if is_first else None
            waiting = staging_wait_seconds(moved.shared_seconds, staging_bytes=budget, workload=workload)
            linked = workload.write.largest_linked_bytes
            copying = linked / copy_bytes_per_second(main, workload) if is_first else 0.0
            stall, drain = copying + waiting, moved.seconds - waiting
    plan = workload.own_restore if tier.kind in NODE_KINDS else workload.restores[checkpoint.restore]
    read = transfer(profile, plan.steps, direction="read")
    drained = None
    if tier.kind not in MEMORY_KINDS:
        own = workload.own_restore
        drained = read if plan is own else transfer(profile, own.steps, direction="read")
    return TierLevel(
        tier=tier,
        mode=mode,
        given_interval_seconds=tier.interval_seconds,
        interval_seconds=tier.interval_seconds,
        stall_seconds=stall,
        drain_seconds=drain,
        read_seconds=None if read is None else read.seconds + exchange_of(plan, workload),
        drained_seconds=0.0 if drained is None else drained.seconds,
    )


def _save_transfer(tier: Tier, mode: Mode, profile: StorageProfile, workload: CheckpointWorkload) -> Transfer:
    """What a save moves over the tier's own rates; in peer memory the first copy is the one from the GPU."""
    if mode == "async":
        profile = profile.with_rates("write", device_to_host_bytes_per_second=None)
    num_sent = tier.num_copies - 1 if tier.kind == "peer-memory" else tier.num_copies
    demand = replace(
        workload.write,
        total_bytes=workload.written_bytes * num_sent,
        planning_seconds_per_rank=0.0,
        mean_compression_seconds=0.0,
        process_bytes_per_second=None,
    )
    moved = transfer(profile, [demand], direction="write")
    if moved is None:
        raise InvalidInput.of(
            f"the {tier.kind} tier's storage.profile",
            "must have a write rate",
            value=None,
            remedy="give node_write_bytes_per_second or write_bytes_per_second",
        )
    return moved


def _tier_profile(tier: Tier, main: StorageProfile | None, workload: CheckpointWorkload) -> StorageProfile:
    """The rates of a tier: its own, else those of the GPUs' links or of the network between the nodes."""
    storage = resolve_storage(tier.storage)
    if storage is not None:
        return storage.profile
    copy = copy_bytes_per_second(main, workload)
    if tier.kind == "host-memory":
        return StorageProfile.of(read=Rates(writer_bytes_per_second=copy))
    network = workload.network_bytes_per_second
    if network is None:
        raise InvalidInput.of(
            "checkpoint.tiers",
            "is peer-memory, and the compute network of this node is not published",
            value=None,
            remedy="give the tier's storage.profile, or cluster.node_spec.compute_network_bytes_per_second",
        )
    return StorageProfile.of(
        write=Rates(node_bytes_per_second=network, device_to_host_bytes_per_second=copy),
        read=Rates(node_bytes_per_second=network),
    )


def max_save_stall_seconds(levels: Sequence[Level]) -> Numbers:
    """The max time for which saves stall training at one moment: sum of the stalls of all levels.

    Source: intervals are whole multiples of those in front, so at the slowest save all others are made too.

    >>> max_save_stall_seconds([Level(600.0, 5.0, 0.0), Level(3600.0, 20.0, 0.0)])
    25.0
    """
    return sum((level.stall_seconds for level in levels), start=0.0)


def up_to_main_storage(tiers: Sequence[TierLevel]) -> list[TierLevel]:
    """The tiers that failures are recovered from: those in front of the main storage, and then it."""
    return [level for level in tiers if level.kind != ARCHIVE]


def with_recoveries(
    tiers: Sequence[TierLevel],
    reliability: Reliability | None,
    *,
    checkpoint: Checkpoint,
    workload: CheckpointWorkload,
) -> Sequence[TierLevel]:
    """The tiers, each with the failures that are recovered from it; as they are where failures are not known.

    The first tier that survives a failure recovers it, and none behind the main storage does.
    """
    if reliability is None:
        return tiers
    recovering: list[TierLevel] = []
    recovered: Numbers = 0.0
    outlived = outlived_fraction(checkpoint, reliability, workload=workload)
    lost = reliability.node_lost_fraction(num_nodes=workload.num_nodes, num_gpus=workload.num_gpus)
    drains_go_on = checkpoint.drain_survives is None and not workload.defaults.loses_drains
    for level in up_to_main_storage(tiers):
        fraction = recovered_fraction(level.tier, reliability, index=len(recovering), workload=workload)
        used = np.maximum(0.0, fraction - recovered)
        reading = 0.0 if level.read_seconds is None else level.read_seconds
        recovery = reliability.recovery_seconds(reading, node_lost_fraction=lost)
        before_read = np.maximum(0.0, recovery - reading - reliability.skipping_seconds)
        goes_on = drains_go_on and not level.is_main
        recovering.append(
            replace(
                level,
                recovery_seconds=recovery,
                used_fraction=used,
                outlived_fraction=1.0 if goes_on else share_of_outlived(outlived, begins=recovered, used=used),
                waiting_seconds=0.0 if goes_on else before_read,
                before_read_seconds=before_read,
            )
        )
        recovered = np.maximum(recovered, fraction)
    return [*recovering, *tiers[len(recovering) :]]


def recovered_fraction(
    tier: Tier | MainStorage, reliability: Reliability, *, index: int, workload: CheckpointWorkload
) -> Numbers:
    """Share of all failures whose work the tier's copies survive; all of them for the main storage.

    Source: `recovered_fraction` of the tier, else the failures of components that take down less than its loss
    domain; failures that the main storage does not survive are not counted as failures of the job.
    Raises InvalidInput where neither says.

    >>> from sizing.run.checkpoint import Tier
    >>> from sizing.units import SECONDS_PER_HOUR
    >>> tier = Tier(kind="host-memory", interval_seconds=60, recovered_fraction=0.7)
    >>> recovered_fraction(tier, Reliability(mtbf_seconds=SECONDS_PER_HOUR), index=0, workload=None)
    0.7
    """
    if tier.recovered_fraction is not None:
        return tier.recovered_fraction
    fraction = reliability.smaller_than_fraction(tier.domain, num_nodes=workload.num_nodes, num_gpus=workload.num_gpus)
    if fraction is None:
        raise InvalidInput.of(
            f"checkpoint.tiers.{index}.recovered_fraction",
            "is required, as reliability does not say which parts fail",
            value=None,
            remedy="give the fraction of failures that it survives, or reliability.components with their loss_domain",
        )
    return fraction


def outlived_fraction(checkpoint: Checkpoint, reliability: Reliability, *, workload: CheckpointWorkload) -> Numbers:
    """Share of all failures that a drain outlives: those of components that take down no more than it names.

    Source: superposition of independent Poisson processes, each component's by its rate.
    Raises InvalidInput where no components say what failures take down.

    >>> outlived_fraction(Checkpoint(), Reliability(mtbf_seconds=3600.0), workload=None)
    0.0
    """
    if not checkpoint.drain_survives:
        return 0.0
    largest = max(map(LOSS_DOMAINS.index, checkpoint.drain_survives))
    fraction = reliability.smaller_than_fraction(
        LOSS_DOMAINS[largest + 1], num_nodes=workload.num_nodes, num_gpus=workload.num_gpus
    )
    if fraction is None:
        raise InvalidInput.of(
            "checkpoint.drain_survives",
            "cannot be weighed, as reliability does not say what failures take down",
            value=list(checkpoint.drain_survives),
            remedy="give reliability.components with their loss_domain, or remove drain_survives",
        )
    return fraction


def share_of_outlived(outlived: Numbers, *, begins: Numbers, used: Numbers) -> Numbers:
    """Share that drains outlive of the failures that need a tier; 0 where none need it.

    Failures are put in the order of what they take down. Those that need the tier fill `used` of all, from `begins` on;
    drains outlive the first `outlived` of all.
    Source: both a tier and a drain survive the failures that take down least.

    >>> round(float(share_of_outlived(0.5, begins=0.4, used=0.4)), 6)
    0.25
    """
    some = np.greater(used, 0)
    return np.where(some, np.clip(np.subtract(outlived, begins) / np.where(some, used, 1.0), 0.0, 1.0), 0.0)


def leaves_out_restore(tiers: Sequence[TierLevel], reliability: Reliability | None) -> bool:
    """Whether the levels recover without the time of a restore, which neither a read rate nor a measured restart gives.

    >>> leaves_out_restore([], Reliability(mtbf_seconds=3600))
    False
    """
    if reliability is None or reliability.restart_seconds is not None:
        return False
    return any(level.read_seconds is None for level in up_to_main_storage(tiers))


def drain_assumptions(
    checkpoint: Checkpoint, reliability: Reliability | None, *, workload: CheckpointWorkload
) -> Iterator[Assumption]:
    """What is taken of drains, where there are drains and failures and nobody said it."""
    drains = checkpoint.mode == "async" or any(tier.mode == "async" for tier in checkpoint.front_tiers)
    if drains and reliability is not None and checkpoint.drain_survives is None and workload.defaults.loses_drains:
        yield Assumption(
            field="checkpoint.drain_survives",
            value=[],
            reason="a drain is part of the processes that train, and ends with any failure",
        )
