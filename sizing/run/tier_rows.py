"""The `tiers` block of the report: what each tier takes, survives and holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from sizing.frameworks.framework import Deletion
from sizing.layout.formats import Mode
from sizing.run.checkpoint import (
    ARCHIVE,
    MAIN,
    MEMORY_KINDS,
    NODE_KINDS,
    ROUNDING,
    MainStorage,
    Tier,
    TierKind,
    device_bytes,
    held_bytes,
)
from sizing.run.failure_process import FailureProcess
from sizing.run.failures import LossDomain
from sizing.run.figures import Figures
from sizing.run.levels import MIN_PROBABILITY, Level, overhead_fraction, rework_seconds
from sizing.run.tiers import TierLevel
from sizing.run.workload import CheckpointWorkload
from sizing.storage.transfer import Numbers
from sizing.units import BYTES_PER_TERABYTE, SECONDS_PER_DAY, counted_text, decimal_bytes_text, seconds_text


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
    drain_seconds: float = Field(
        description="Seconds from the end of a save's stall until it counts, those until the copy in front is whole "
        "among them."
    )
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
        description="Mean seconds of lost work at such a failure (mean RPO): half an effective interval, less where "
        "failures strike within most intervals, and the drain. Drains that other failures have ended before add to it."
    )
    replicas: int = Field(description="Copies of each checkpoint in it.")
    loss_domain: LossDomain = Field(description="Smallest failure that takes its copies with it.")
    recovered_fraction: float | None = Field(
        description="Fraction of all failures that its copies, or those of a tier in front of it, survive. "
        "Null without reliability, and for an object store behind the main storage."
    )
    used_fraction: float | None = Field(
        description="Fraction of all failures that are recovered from it, as no tier in front of it survives them. "
        "Null without reliability, and for an object store behind the main storage."
    )
    restores_per_day: float | None = Field(
        description="Mean restores from it per day of wall time. One that a further failure breaks off counts again. "
        "Null without reliability, and for an object store behind the main storage."
    )
    saves_per_day: float | None = Field(description="Mean saves to it per day of wall time. Null without reliability.")
    mean_bytes_per_second: float = Field(
        description="Mean write rate of the saves to it over time, in bytes per second: "
        "written bytes x replicas / effective interval."
    )
    written_bytes_per_day: float = Field(
        description="Bytes that saves to it write in a day of wall time, on all nodes: written bytes x replicas x "
        "saves_per_day. Where failures are not known there is one save per effective interval."
    )
    drive_writes_per_day: float | None = Field(
        description="Drive writes per day (DWPD) of the fullest node: bytes that saves to it write there in a day / "
        "capacity. Null for other kinds than local-nvme, and where the capacity is unknown."
    )
    stored_bytes: float = Field(
        description="Max bytes that it holds: kept checkpoints with replicas, those that they need, and the one in "
        "flight."
    )
    node_bytes: float | None = Field(
        description="Bytes of stored_bytes that lie on the fullest node. Null for tiers that are not in the nodes."
    )
    device_bytes: float | None = Field(
        description="Bytes of all tiers on the fullest node that share its capacity, with its own node_bytes. "
        "Null for tiers that are not in the nodes."
    )
    capacity_bytes: float | None = Field(
        description="Bytes that it can hold: of one node for tiers in the nodes, otherwise of all. Without a "
        "capacity_bytes of its own that is the NVMe of a node, or the host memory that a job can use. "
        "Null when unknown."
    )
    fits: bool | None = Field(
        description="Whether device_bytes, otherwise stored_bytes, fit its capacity. Null when that is unknown."
    )
    cost: float | None = Field(
        description="Price of what it stores, in the currency of cost_per_terabyte. Null without that price."
    )


def tier_rows(
    tiers: Sequence[TierLevel],
    *,
    best: Sequence[Level],
    process: FailureProcess | None,
    workload: CheckpointWorkload,
    main_stored_bytes: Numbers,
) -> list[TierRow]:
    """A row per tier, where there is one beside the main storage.

    `best` are the tiers up to the main storage at their best intervals, none without a failure `process`.
    """
    if len(tiers) == 1:
        return []
    num_saved = len(best)
    rates = (
        zip(process.restores_per_second(num_saved), process.goes_back_per_second(num_saved), strict=True)
        if process
        else ()
    )
    recovered = itertools.accumulate(level.used_fraction for level in tiers)
    return [
        _row(
            level,
            beside=[other.tier for other in tiers if isinstance(other.tier, Tier)],
            recovered_fraction=recovered_fraction,
            best_interval_seconds=best_level.interval_seconds if best_level else None,
            rates=of_level,
            process=process,
            workload=workload if level.kind in (MAIN, ARCHIVE) else workload.unreduced,
            main_stored_bytes=main_stored_bytes,
        )
        for level, recovered_fraction, best_level, of_level in itertools.zip_longest(tiers, recovered, best, rates)
    ]


def _row(
    level: TierLevel,
    *,
    beside: Sequence[Tier],
    recovered_fraction: Numbers,
    best_interval_seconds: Numbers | None,
    rates: tuple[Numbers, Numbers] | None,
    process: FailureProcess | None,
    workload: CheckpointWorkload,
    main_stored_bytes: Numbers,
) -> TierRow:
    """Return the row of a tier; `rates` are restores from it, and failures that go back to it or a slower one."""
    restores_per_second, goes_back_per_second = (None, 0.0) if rates is None else rates
    tier, interval_seconds = level.tier, level.interval_seconds
    recovers = process is not None and level.kind != ARCHIVE
    num_saves = level.num_saves_of_copy
    written_bytes = workload.copied_every(num_saves).written_bytes if level.kind == ARCHIVE else workload.written_bytes
    written = written_bytes * level.tier.num_copies
    stored, node_bytes, on_device = main_stored_bytes, None, None
    if isinstance(tier, Tier):
        # In memory the state lies as it was copied from the GPUs, before the format compresses it.
        over_written = workload.write.copied_over_written if tier.kind in MEMORY_KINDS else 1.0
        kept = workload.kept_copies_bytes(tier.keep + 1, num_saves=num_saves)
        stored = kept * tier.num_copies * over_written
        if tier.kind in NODE_KINDS:
            of_node = workload.max_node_bytes * over_written
            node_bytes, on_device = held_bytes(tier, of_node), device_bytes(tier, beside, node_bytes=of_node)
    capacity = _capacity_bytes(tier, workload)
    price = tier.cost_per_terabyte
    saves_per_day: Numbers | None = None
    if process:
        # In front of the main storage also work that is done again is saved.
        is_in_front = level.kind not in (MAIN, ARCHIVE)
        saving_fraction = process.trained_fraction if is_in_front else process.kept_fraction
        saves_per_day = saving_fraction * SECONDS_PER_DAY / process.period_seconds(interval_seconds)
    wearing = (SECONDS_PER_DAY / interval_seconds if saves_per_day is None else saves_per_day) * tier.num_copies
    return TierRow.of(
        kind=level.kind,
        mode=level.mode,
        interval_seconds=level.given_interval_seconds,
        effective_interval_seconds=interval_seconds,
        optimal_interval_seconds=best_interval_seconds,
        stall_seconds=level.stall_seconds,
        drain_seconds=level.drain_seconds,
        overhead_fraction=overhead_fraction(level.stall_seconds, interval_seconds=interval_seconds),
        restore_seconds=level.read_seconds,
        recovery_seconds=level.recovery_seconds if recovers else None,
        rework_seconds=rework_seconds(
            interval_seconds, mtbf_seconds=1.0 / np.maximum(goes_back_per_second, MIN_PROBABILITY)
        )
        + level.drain_seconds,
        replicas=level.tier.num_copies,
        loss_domain=level.tier.domain,
        recovered_fraction=recovered_fraction if recovers else None,
        used_fraction=level.used_fraction if recovers else None,
        restores_per_day=None if restores_per_second is None else restores_per_second * SECONDS_PER_DAY,
        saves_per_day=saves_per_day,
        mean_bytes_per_second=written / interval_seconds,
        written_bytes_per_day=written_bytes * wearing,
        drive_writes_per_day=drive_writes_per_day(workload.max_node_bytes * wearing, capacity_bytes=capacity)
        if level.kind == "local-nvme" and capacity is not None
        else None,
        stored_bytes=stored,
        node_bytes=node_bytes,
        device_bytes=on_device,
        capacity_bytes=capacity,
        fits=None if capacity is None else np.less_equal(stored if on_device is None else on_device, capacity),
        cost=None if price is None else stored / BYTES_PER_TERABYTE * price,
    )


def drive_writes_per_day(bytes_per_day: Numbers, *, capacity_bytes: Numbers) -> Numbers:
    """How often a day the whole capacity of drives is written, as endurance is rated: DWPD = B / C.

    Bytes that the drive writes beyond those (write amplification) are not counted, as in the rating itself.
    Source: definition; JEDEC JESD218, where bytes are those that the host writes.

    >>> drive_writes_per_day(15.36e12, capacity_bytes=7.68e12)
    2.0
    """
    return bytes_per_day / capacity_bytes


def _capacity_bytes(tier: Tier | MainStorage, workload: CheckpointWorkload) -> int | None:
    if tier.capacity_bytes is not None:
        return tier.capacity_bytes
    if tier.kind in MEMORY_KINDS:
        return workload.node.usable_host_memory_bytes
    return workload.node.local_nvme_bytes if tier.kind == "local-nvme" else None


def missing_read_rates(rows: Sequence[TierRow]) -> list[str]:
    """List the read rates that recoveries lack, by dotted path in the scenario; without rows that of the storage."""
    of_storage = "storage.profile.read_bytes_per_second"
    return [
        of_storage
        if row.kind == MAIN
        else f"checkpoint.tiers.{index}.storage.profile.{'node_' * (row.kind in NODE_KINDS)}read_bytes_per_second"
        for index, row in enumerate(rows)
        if row.restore_seconds is None and row.kind != ARCHIVE
    ] or [of_storage]


def tiers_that_overfill(rows: Sequence[TierRow]) -> dict[tuple[float, float], list[str]]:
    """Name the tiers that do not fit a device of a node together, by the bytes that it must hold and its capacity."""
    names: dict[tuple[float, float], list[str]] = {}
    for index, row in enumerate(rows):
        if row.fits is False and row.device_bytes not in (None, row.node_bytes):
            device = row.device_bytes or 0.0, row.capacity_bytes or 0.0
            names.setdefault(device, []).append(f"checkpoint.tiers.{index} ({row.kind})")
    return names


def tier_warnings(rows: Sequence[TierRow], *, leaves_out_restore: bool) -> Iterator[str]:
    """Warn of tiers that cannot keep up, do not fit, or recover nothing, and of those whose restores nothing counts."""
    for field in missing_read_rates(rows) if leaves_out_restore else []:
        if field.startswith("checkpoint.tiers."):
            yield f"A tier has no read bandwidth: recovery from it leaves out the restore. Give {field}"
    for (num_bytes, capacity), names in tiers_that_overfill(rows).items():
        yield (
            f"{' and '.join(names)} share a device of each node: together they must hold "
            f"{decimal_bytes_text(num_bytes)} on the fullest, and its capacity is {decimal_bytes_text(capacity)}"
        )
    for row in rows:
        if row.kind != MAIN and row.effective_interval_seconds > row.interval_seconds:
            yield (
                f"The {row.kind} tier drains for {seconds_text(row.drain_seconds)}. Saves to it start every "
                f"{seconds_text(row.effective_interval_seconds)}, not every {seconds_text(row.interval_seconds)}"
            )
        if row.fits is False and row.device_bytes in (None, row.node_bytes):
            held, where = (row.stored_bytes, "") if row.node_bytes is None else (row.node_bytes, " on the fullest node")
            yield (
                f"The {row.kind} tier must hold {decimal_bytes_text(held)}{where}, and its capacity is "
                f"{decimal_bytes_text(row.capacity_bytes or 0.0)}"
            )
        if row.kind not in (MAIN, ARCHIVE) and row.used_fraction == 0:
            why = "a tier in front of it recovers every failure that it recovers"
            if row.recovered_fraction == 0:
                why = "its copies survive no failure"
            yield f"The {row.kind} tier is not needed: {why}. Remove it"


def archive_warnings(rows: Sequence[TierRow], *, keep_last: int, deletion: Deletion) -> Iterator[str]:
    """Warn where the main storage deletes a checkpoint while it is copied to an object store.

    Of saves every T seconds the Nth after a checkpoint ends N T seconds after it. Where the N newest are kept, the
    checkpoint is deleted with that end, or a save earlier in frameworks that delete before they save.
    """
    pairs = [(main, row) for main in rows if main.kind == MAIN for row in rows if row.kind == ARCHIVE]
    for main, row in pairs:
        saving = main.stall_seconds + main.drain_seconds if deletion == "before-save" else 0.0
        needed = math.ceil((row.drain_seconds + saving) / main.effective_interval_seconds * (1 - ROUNDING))
        if needed > keep_last:
            yield (
                f"A copy to the object-store tier takes {seconds_text(row.drain_seconds)}. The main storage deletes "
                f"the checkpoint before that ends, as it keeps {counted_text(keep_last, 'checkpoint')} at one save "
                f"every {seconds_text(main.effective_interval_seconds)}. Keep {needed:,} (retention.keep_last)"
            )
