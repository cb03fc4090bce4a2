"""The `tiers` block of the report: what each tier takes, survives and holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.layout.formats import Mode
from sizing.run.demands.demands import Demands
from sizing.run.failures import LossDomain
from sizing.run.figures import Figures
from sizing.run.goodput.levels import Level
from sizing.run.goodput.overhead import overhead_fraction
from sizing.run.tier import ARCHIVE, MEMORY_KINDS, NODE_KINDS, Tier, TierKind
from sizing.run.tiers.saved import SavedTier
from sizing.storage.transfer import Numbers
from sizing.units import BYTES_PER_TERABYTE, decimal_bytes_text, seconds_text


class TierRow(Figures):
    """One tier of the report, or the main storage, which recovers whatever the tiers in front of it do not."""

    kind: TierKind | Literal["storage"] = Field(
        description="Kind of the tier; storage is the main one, which recovers what no tier in front of it does."
    )
    mode: Mode = Field(description="How training waits for a save to it.")
    interval_seconds: float = Field(
        description="Seconds from the start of one save to it to the start of the next, as asked for."
    )
    effective_interval_seconds: float = Field(
        description="Seconds between starts that are possible, longer when a save has not drained by then."
    )
    optimal_interval_seconds: float | None = Field(
        description="Seconds between starts that maximize goodput, to first order. "
        "Null without reliability, and for an object store behind the main storage."
    )
    stall_seconds: float = Field(description="Seconds for which training waits in each save to it.")
    drain_seconds: float = Field(description="Seconds for which each save to it goes on in the background.")
    overhead_fraction: float = Field(
        description="Fraction of the time for which saves to it stall training: stall / effective interval."
    )
    restore_seconds: float | None = Field(
        description="Seconds to read a checkpoint back from it, exchange included. Null without a read rate."
    )
    recovery_seconds: float | None = Field(
        description="Seconds from a failure until training goes on from it (RTO). "
        "Null without reliability, and for an object store behind the main storage."
    )
    rework_seconds: float = Field(
        description="Mean seconds of lost work at such a failure (mean RPO): half an effective interval and the drain. "
        "Drains that other failures have ended before add to it."
    )
    replicas: int = Field(description="Copies of each checkpoint in it.")
    loss_domain: LossDomain = Field(description="Smallest failure that takes its copies with it.")
    recovered_fraction: float | None = Field(
        description="Fraction of all failures that its copies survive. "
        "Null without reliability, and for an object store behind the main storage."
    )
    used_fraction: float | None = Field(
        description="Fraction of all failures that are recovered from it, as no faster tier survives them. "
        "Null without reliability, and for an object store behind the main storage."
    )
    mean_bytes_per_second: float = Field(
        description="Mean write rate of the saves to it over time, in bytes per second: "
        "written bytes x replicas / effective interval."
    )
    stored_bytes: float = Field(
        description="Max bytes that it holds: kept checkpoints with replicas, and the one in flight."
    )
    node_bytes: float | None = Field(
        description="Bytes of stored_bytes that lie on the fullest node. Null for tiers that are not in the nodes."
    )
    capacity_bytes: float | None = Field(
        description="Bytes that it can hold: of one node for tiers in the nodes, otherwise of all. Null when unknown."
    )
    fits: bool | None = Field(description="Whether it can hold them. Null when its capacity is unknown.")
    cost: float | None = Field(
        description="Price of what it stores, in the currency of cost_per_terabyte. Null without that price."
    )


def tier_rows(
    saved: Sequence[SavedTier],
    levels: Sequence[Level],
    *,
    best: Sequence[Level],
    demands: Demands,
    main_stored_bytes: Numbers,
) -> list[TierRow]:
    """A row per tier, where there is one beside the main storage; `best` are the levels at their best intervals."""
    if len(saved) == 1:
        return []
    return [
        _row(
            one,
            levels[: index + 1] if index < len(levels) else [],
            best[index].interval_seconds if index < len(best) else None,
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
                f"The {row.kind} tier drains for {seconds_text(row.drain_seconds)}. Saves to it start every "
                f"{seconds_text(row.effective_interval_seconds)}, not every {seconds_text(row.interval_seconds)}"
            )
        if row.fits is False:
            yield _too_small(row)
        if row.kind not in ("storage", ARCHIVE) and row.used_fraction == 0:
            yield f"The {row.kind} tier is not needed: a faster tier recovers every failure that it recovers. Remove it"


def _too_small(row: TierRow) -> str:
    in_nodes = row.kind in NODE_KINDS
    held, where = (row.node_bytes, " on the fullest node") if in_nodes else (row.stored_bytes, "")
    return (
        f"The {row.kind} tier must hold {decimal_bytes_text(held or 0.0)}{where}, and its capacity is "
        f"{decimal_bytes_text(row.capacity_bytes or 0.0)}"
    )


def _row(
    one: SavedTier,
    levels: Sequence[Level],
    optimum: Numbers | None,
    *,
    demands: Demands,
    main_stored_bytes: Numbers,
) -> TierRow:
    times, period = one.times, one.effective_interval_seconds
    demands = demands if one.tier is None or one.kind == ARCHIVE else demands.unreduced
    level = levels[-1] if levels else None
    written = demands.written_bytes * one.num_copies
    stored = written * (one.tier.keep + 1) if one.tier else main_stored_bytes
    node_bytes = stored / demands.written_bytes * demands.max_node_bytes if one.kind in NODE_KINDS else None
    capacity = _capacity_bytes(one.tier, demands)
    held = stored if node_bytes is None else node_bytes
    return TierRow.of(
        kind=one.kind,
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
        replicas=one.num_copies,
        loss_domain=one.domain,
        recovered_fraction=sum((each.used_fraction for each in levels), 0.0) if level else None,
        used_fraction=level.used_fraction if level else None,
        mean_bytes_per_second=written / period,
        stored_bytes=stored,
        node_bytes=node_bytes,
        capacity_bytes=capacity,
        fits=None if capacity is None else np.less_equal(held, capacity),
        cost=_cost(one.tier, stored),
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
