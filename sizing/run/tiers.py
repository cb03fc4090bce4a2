"""What each tier takes, survives and holds: the `tiers` block of the report, and the levels of the run's goodput."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.errors import InvalidInput
from sizing.layout.formats import Mode
from sizing.run.checkpoint import Checkpoint
from sizing.run.demands import Demands
from sizing.run.failures import LossDomain, Reliability
from sizing.run.figures import Figures
from sizing.run.interval import effective_interval_seconds
from sizing.run.levels import Level, first_order_level_intervals
from sizing.run.overhead import overhead_fraction
from sizing.run.restore import Restore
from sizing.run.tier import ARCHIVE, MEMORY_KINDS, NODE_KINDS, Tier, TierKind
from sizing.run.tier_times import TierTimes, tier_times
from sizing.run.write import Write
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.units import decimal_bytes_text, seconds_text

BYTES_PER_TERABYTE = 1e12


class TierRow(Figures):
    """One tier of the report. `storage` is the main one, which recovers whatever the tiers in front of it do not.

    `recovered_fraction` of all failures survive in it; `used_fraction` are recovered from it, as no faster tier
    survives them. `rework_seconds` is the mean work that such a failure undoes: half an interval and the drain.
    """

    kind: TierKind | Literal["storage"]
    mode: Mode
    interval_seconds: float
    effective_interval_seconds: float
    optimal_interval_seconds: float | None = Field(description="that wastes least, to first order")
    stall_seconds: float
    drain_seconds: float
    overhead_fraction: float
    restore_seconds: float | None
    recovery_seconds: float | None
    rework_seconds: float
    replicas: int
    loss_domain: LossDomain
    recovered_fraction: float | None
    used_fraction: float | None
    mean_bytes_per_second: float = Field(description="that its saves bring, on average")
    stored_bytes: float = Field(description="with replicas and the copy in flight")
    node_bytes: float | None = Field(description="of that on the fullest node")
    capacity_bytes: float | None
    fits: bool | None
    cost: float | None = Field(description="of what is stored, by cost_per_terabyte")


@dataclass(frozen=True, slots=True)
class SavedTier:
    """A tier and its times; the main storage where `tier` is None."""

    tier: Tier | None
    mode: Mode
    interval_seconds: Numbers
    effective_interval_seconds: Numbers
    times: TierTimes


def saved_tiers(
    checkpoint: Checkpoint, profile: StorageProfile | None, *, demands: Demands, write: Write | None, restore: Restore
) -> list[SavedTier]:
    """The tiers in front of the main storage, itself, and those behind it; none where its write rate is not known.

    An interval is no number in rows of arrays where it is not longer than that of the tier before.
    """
    if write is None:
        return []
    saved: list[SavedTier] = []
    for tier in (*checkpoint.front_tiers, None, *checkpoint.archives):
        mode = (tier.mode if tier else None) or checkpoint.mode
        asked = tier.interval_seconds if tier else checkpoint.interval_seconds
        if tier is None:
            stall = write.stall_seconds if mode == "sync" or not saved else 0.0
            times = TierTimes(stall, write.drain_seconds, restore.seconds)
        else:
            times = tier_times(tier, mode, profile, demands=demands, strategy=checkpoint.restore, is_first=not saved)
        period = effective_interval_seconds(asked, stall_seconds=times.stall_seconds, drain_seconds=times.drain_seconds)
        if saved:
            before = saved[-1]
            in_order = np.greater_equal(asked, before.interval_seconds)
            period = np.where(in_order, np.maximum(period, before.effective_interval_seconds), np.nan)
        saved.append(SavedTier(tier, mode, asked, period, times))
    return saved


def levels_of(saved: Sequence[SavedTier], reliability: Reliability | None, *, demands: Demands) -> list[Level]:
    """What the goodput is computed from: the tiers up to the main storage; none where failures are not known."""
    if reliability is None:
        return []
    levels: list[Level] = []
    recovered: Numbers = 0.0
    for one in saved:
        if one.tier is not None and one.tier.kind == ARCHIVE:
            break
        fraction = recovered_fraction(one.tier, reliability, index=len(levels), demands=demands)
        levels.append(
            Level(
                interval_seconds=one.effective_interval_seconds,
                stall_seconds=one.times.stall_seconds,
                drain_seconds=one.times.drain_seconds,
                recovery_seconds=reliability.recovery_seconds(_known(one.times.read_seconds)),
                used_fraction=np.maximum(0.0, fraction - recovered),
            )
        )
        recovered = np.maximum(recovered, fraction)
    return levels


def recovered_fraction(tier: Tier | None, reliability: Reliability, *, index: int, demands: Demands) -> Numbers:
    """Share of all failures whose work the tier's copies survive; all of them for the main storage, None.

    Source: `recovered_fraction` of the tier, else the failures of components that take down less than its loss
    domain; failures that the main storage does not survive are not counted as failures of the job.
    Raises InvalidInput where neither says.

    >>> from sizing.run.tier import Tier
    >>> from sizing.units import SECONDS_PER_HOUR
    >>> tier = Tier(kind="host-memory", interval_seconds=60, recovered_fraction=0.7)
    >>> recovered_fraction(tier, Reliability(mtbf_seconds=SECONDS_PER_HOUR), index=0, demands=None)
    0.7
    """
    if tier is None:
        return 1.0
    if tier.recovered_fraction is not None:
        return tier.recovered_fraction
    fraction = reliability.smaller_than_fraction(tier.domain, num_nodes=demands.num_nodes, num_gpus=demands.num_gpus)
    if fraction is None:
        raise InvalidInput.of(
            f"checkpoint.tiers.{index}.recovered_fraction",
            "is needed, as reliability does not say which parts fail",
            value=None,
            remedy="give the share of failures that it survives, or reliability.components with their loss_domain",
        )
    return fraction


def stalled_fraction(saved: Sequence[SavedTier]) -> Numbers | None:
    """Share of the time in which training stands still to save, to all tiers; None where not known.

    Source: `overhead.overhead_fraction` of each, added up.

    >>> stalled_fraction([])
    """
    fractions = (
        overhead_fraction(one.times.stall_seconds, interval_seconds=one.effective_interval_seconds) for one in saved
    )
    return sum(fractions, 0.0) if saved else None


def longest_stall_seconds(saved: Sequence[SavedTier]) -> Numbers | None:
    """The longest time for which one save stalls training; None where not known.

    Source: definition.

    >>> longest_stall_seconds([])
    """
    return functools.reduce(np.maximum, (one.times.stall_seconds for one in saved)) if saved else None


def tier_rows(
    saved: Sequence[SavedTier],
    levels: Sequence[Level],
    *,
    mtbf_seconds: Numbers | None,
    demands: Demands,
    main_stored_bytes: Numbers,
) -> list[TierRow]:
    """A row per tier, where there is one beside the main storage."""
    if len(saved) == 1:
        return []
    optima = [] if mtbf_seconds is None else first_order_level_intervals(levels, mtbf_seconds=mtbf_seconds)
    return [
        _row(
            one,
            levels[: index + 1] if index < len(levels) else [],
            optima[index] if index < len(optima) else None,
            demands=demands,
            main_stored_bytes=main_stored_bytes,
        )
        for index, one in enumerate(saved)
    ]


def tier_warnings(rows: Sequence[TierRow]) -> Iterator[str]:
    """Tiers that cannot keep up, do not fit, or recover nothing."""
    for row in rows:
        if row.kind != "storage" and row.effective_interval_seconds > row.interval_seconds:
            yield (
                f"the {row.kind} tier drains for {seconds_text(row.drain_seconds)}: it is saved to every "
                f"{seconds_text(row.effective_interval_seconds)}, not every {seconds_text(row.interval_seconds)}"
            )
        if row.fits is False:
            held = row.node_bytes if row.kind in NODE_KINDS else row.stored_bytes
            yield (
                f"the {row.kind} tier has to hold {decimal_bytes_text(held or 0.0)}"
                f"{' on the fullest node' if row.kind in NODE_KINDS else ''}, and has "
                f"{decimal_bytes_text(row.capacity_bytes or 0.0)}"
            )
        if row.kind not in ("storage", ARCHIVE) and row.used_fraction == 0:
            yield f"the {row.kind} tier recovers no failure that a faster one does not: leave it out"


def _row(
    one: SavedTier,
    levels: Sequence[Level],
    optimum: Numbers | None,
    *,
    demands: Demands,
    main_stored_bytes: Numbers,
) -> TierRow:
    tier, times, period = one.tier, one.times, one.effective_interval_seconds
    level = levels[-1] if levels else None
    written = demands.written_bytes * (tier.num_copies if tier else 1)
    stored = written * (tier.keep + 1) if tier else main_stored_bytes
    in_nodes = tier is not None and tier.kind in NODE_KINDS
    node_bytes = stored / demands.written_bytes * demands.max_node_bytes if in_nodes else None
    capacity = _capacity_bytes(tier, demands)
    held = stored if node_bytes is None else node_bytes
    return TierRow.of(
        kind=tier.kind if tier else "storage",
        mode=one.mode,
        interval_seconds=one.interval_seconds,
        effective_interval_seconds=period,
        optimal_interval_seconds=optimum,
        stall_seconds=times.stall_seconds,
        drain_seconds=times.drain_seconds,
        overhead_fraction=overhead_fraction(times.stall_seconds, interval_seconds=period),
        restore_seconds=times.read_seconds,
        recovery_seconds=level.recovery_seconds if level else None,
        rework_seconds=period / 2 + times.drain_seconds,
        replicas=tier.num_copies if tier else 1,
        loss_domain=tier.domain if tier else "site",
        recovered_fraction=sum((each.used_fraction for each in levels), 0.0) if level else None,
        used_fraction=level.used_fraction if level else None,
        mean_bytes_per_second=written / period,
        stored_bytes=stored,
        node_bytes=node_bytes,
        capacity_bytes=capacity,
        fits=None if capacity is None else np.less_equal(held, capacity),
        cost=_cost(tier, stored),
    )


def _cost(tier: Tier | None, stored_bytes: Numbers) -> Numbers | None:
    if tier is None or tier.cost_per_terabyte is None:
        return None
    return stored_bytes / BYTES_PER_TERABYTE * tier.cost_per_terabyte


def _capacity_bytes(tier: Tier | None, demands: Demands) -> int | None:
    if tier is None:
        return None
    if tier.capacity_bytes is not None:
        return tier.capacity_bytes
    if tier.kind in MEMORY_KINDS:
        return demands.node.host_memory_bytes
    return demands.node.local_nvme_bytes if tier.kind == "local-nvme" else None


def _known(seconds: Numbers | None) -> Numbers:
    return 0.0 if seconds is None else seconds
