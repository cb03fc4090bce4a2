"""The tables that the figures rest on: tiers, who writes what, limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from sizing.layout.ranks import RankClass, RankFile
from sizing.report import SizingReport
from sizing.run.capacity_over_time import CapacityAt
from sizing.run.tier import ARCHIVE
from sizing.run.tiers.rows import TierRow
from sizing.storage.limits import Limit
from sizing.summary.guesses import guess_grid
from sizing.summary.rows import UNKNOWN, Grid
from sizing.units import bytes_text, decimal_bytes_text, percent_text, rate_text, seconds_text

_MAX_RANK_CLASSES = 24
"""Rows that fit on one screen: of more, each line tells the ranks of some stages together."""


def grids(report: SizingReport) -> list[Grid]:
    """The tables that the figures rest on."""
    made = [_tiers(report.tiers)] if report.tiers else []
    made.append(rank_classes(report))
    if report.write is not None:
        made.append(_limits("What limits the write", report.write.limits))
    if report.restore.limits:
        made.append(_limits("What limits the restore", report.restore.limits))
    if report.capacity_over_time and report.capacity.growth_bytes_per_day:
        made.append(capacity_grid(report.capacity_over_time))
    if report.guesses:
        made.append(guess_grid(report))
    return made


def rank_classes(report: SizingReport) -> Grid:
    """Who writes which files: one row for all ranks that write the same."""
    return Grid(
        "Who writes what",
        ("stages", "ranks", "copies", "writers", "layers", "per rank", "file"),
        tuple(
            (
                rank_class.stages,
                rank_class.ranks,
                rank_class.copies,
                f"{rank_class.num_ranks:,}",
                str(rank_class.num_layers),
                bytes_text(rank_class.bytes_per_rank),
                ", ".join(_file_text(file) for file in rank_class.files),
            )
            for rank_class in report.layout.rank_classes
        )
        if len(report.layout.rank_classes) <= _MAX_RANK_CLASSES
        else tuple(_stages_row(some) for _, some in groupby(report.layout.rank_classes, key=lambda each: each.stages)),
    )


def capacity_grid(over_time: Sequence[CapacityAt]) -> Grid:
    """What must fit from day to day."""
    rows = (
        (
            seconds_text(at.at_seconds),
            f"{at.num_checkpoints:,}",
            decimal_bytes_text(at.checkpoints_bytes),
            decimal_bytes_text(at.kept_weights_bytes),
            decimal_bytes_text(at.usable_bytes),
        )
        for at in over_time
    )
    columns = ("after", "checkpoints", "of them", "kept weights", "usable to hold all")
    return Grid("Capacity over time", columns, tuple(rows))


def _stages_row(classes: Iterable[RankClass]) -> tuple[str, ...]:
    """All ranks of some stages together, from the one that writes least to the one that writes most."""
    some = list(classes)
    least, most = (pick(each.bytes_per_rank for each in some) for pick in (min, max))
    num_kinds = f"{len(some)} kinds"
    written = f"{bytes_text(least)} to {bytes_text(most)}"
    num_ranks = sum(each.num_ranks for each in some)
    return some[0].stages, num_kinds, "all", f"{num_ranks:,}", str(some[0].num_layers), written, some[0].files[0].name


def _tiers(rows: Iterable[TierRow]) -> Grid:
    return Grid(
        "Tiers",
        (
            *("tier", "interval", "best interval", "stall", "drain", "restore", "failures recovered"),
            *("lost work (RPO)", "mean write", "stored", "capacity"),
        ),
        tuple(
            (
                row.kind,
                seconds_text(row.effective_interval_seconds),
                "" if row.optimal_interval_seconds is None else seconds_text(row.optimal_interval_seconds),
                seconds_text(row.stall_seconds) if row.stall_seconds else "-",
                seconds_text(row.drain_seconds) if row.drain_seconds else "-",
                UNKNOWN if row.restore_seconds is None else seconds_text(row.restore_seconds),
                "" if row.used_fraction is None else percent_text(row.used_fraction),
                "" if row.kind == ARCHIVE else seconds_text(row.rework_seconds),
                rate_text(row.mean_bytes_per_second),
                _held_text(row),
                "" if row.capacity_bytes is None else decimal_bytes_text(row.capacity_bytes),
            )
            for row in rows
        ),
    )


def _held_text(row: TierRow) -> str:
    if row.node_bytes is None:
        return decimal_bytes_text(row.stored_bytes)
    return f"{decimal_bytes_text(row.node_bytes)} per node"


def _limits(title: str, limits: Iterable[Limit]) -> Grid:
    return Grid(
        title,
        ("resource", "time", "bandwidth", "slack", ""),
        tuple(
            (
                limit.resource,
                seconds_text(limit.seconds),
                "" if limit.bytes_per_second is None else rate_text(limit.bytes_per_second),
                "adds up" if limit.slack_fraction is None else percent_text(limit.slack_fraction),
                "bottleneck" if limit.binds else "",
            )
            for limit in limits
        ),
    )


def _file_text(file: RankFile) -> str:
    return file.name if file.count == 1 else f"{file.count} x {file.name}"
