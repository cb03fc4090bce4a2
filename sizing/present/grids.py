"""Tables behind the figures of a report: tiers, classes of ranks, limits, and the origin of each figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from sizing.layout.ranks import RankClass
from sizing.present.capacity import capacity_grid
from sizing.present.figure_names import figure_name
from sizing.present.guesses import guess_grid, visible_guesses
from sizing.present.rows import UNKNOWN, Grid
from sizing.provenance import Runs
from sizing.report import SizingReport
from sizing.run.checkpoint import ARCHIVE
from sizing.run.job_limits import JobLimit
from sizing.run.tier_rows import TierRow
from sizing.storage.limits import Limit
from sizing.units import bytes_text, decimal_bytes_text, percent_text, rate_text, seconds_text

_MAX_RANK_CLASSES = 24
"""Rows that fit on one screen: of more, each line tells the ranks of some stages together."""


def report_grids(report: SizingReport) -> list[Grid]:
    """List the tables that the figures of a report rest on."""
    grids = [_tiers_grid(report.tiers)] if report.tiers else []
    grids.append(rank_classes_grid(report))
    if report.write is not None:
        grids.append(_limits_grid("What limits the write", report.write.limits))
    if report.restore.limits:
        grids.append(_limits_grid("What limits the restore", report.restore.limits))
    if report.job_limits:
        grids.append(_job_limits_grid(report.job_limits))
    if report.capacity_over_time and report.capacity.growth_bytes_per_day:
        grids.append(capacity_grid(report.capacity_over_time))
    if visible_guesses(report.guesses, report.headline):
        grids.append(guess_grid(report))
    return grids


def rank_classes_grid(report: SizingReport) -> Grid:
    """Show who writes which files: a row for all ranks that write the same or, of many classes, for some stages."""
    classes = report.layout.rank_classes
    if len(classes) <= _MAX_RANK_CLASSES:
        rows = tuple(_rank_class_cells(rank_class) for rank_class in classes)
    else:
        rows = tuple(_stages_cells(list(some)) for _, some in groupby(classes, key=lambda each: each.stages))
    return Grid("Who writes what", ("stages", "ranks", "copies", "writers", "layers", "per rank", "file"), rows)


def _rank_class_cells(ranks: RankClass) -> tuple[str, ...]:
    return (
        ranks.stages,
        ranks.ranks,
        ranks.copies,
        f"{ranks.num_ranks:,}",
        str(ranks.num_layers),
        bytes_text(ranks.bytes_per_rank),
        ", ".join(file.name if file.count == 1 else f"{file.count} x {file.name}" for file in ranks.files),
    )


def _stages_cells(classes: Sequence[RankClass]) -> tuple[str, ...]:
    """Describe all ranks of some stages together: bytes from the rank that writes least to the one that writes most."""
    first, sizes = classes[0], [ranks.bytes_per_rank for ranks in classes]
    return (
        first.stages,
        f"{len(classes)} kinds",
        "all",
        f"{sum(ranks.num_ranks for ranks in classes):,}",
        str(first.num_layers),
        f"{bytes_text(min(sizes))} to {bytes_text(max(sizes))}",
        first.files[0].name,
    )


def _tiers_grid(rows: Iterable[TierRow]) -> Grid:
    return Grid(
        "Tiers",
        (
            *("tier", "interval", "best interval", "stall", "drain", "restore", "failures recovered"),
            *("lost work (RPO)", "mean write", "written per day", "stored", "capacity"),
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
                decimal_bytes_text(row.written_bytes_per_day)
                + ("" if row.drive_writes_per_day is None else f", {row.drive_writes_per_day:.3g} DWPD"),
                decimal_bytes_text(row.stored_bytes)
                if row.node_bytes is None
                else f"{decimal_bytes_text(row.node_bytes)} per node",
                "" if row.capacity_bytes is None else decimal_bytes_text(row.capacity_bytes),
            )
            for row in rows
        ),
    )


def _limits_grid(title: str, limits: Iterable[Limit]) -> Grid:
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


def _job_limits_grid(limits: Sequence[JobLimit]) -> Grid:
    """Show what ends a job: what the prediction needs, the default of each limit, and the line that sets it."""
    verdicts = {True: "holds", False: "DOES NOT HOLD", None: UNKNOWN}
    rows = tuple(
        (each.name, each.needed_text, each.limit_text, verdicts[each.holds], each.needs, each.setting)
        for each in limits
    )
    return Grid(
        "Limits that end jobs",
        ("limit", "needed", "default", "", "for", "line that sets it"),
        rows,
        stressed=frozenset(number for number, each in enumerate(limits) if each.holds is False),
    )


_INPUT = re.compile(r"[a-z_]+(\.[a-z_]+)+")
"""A dotted path in the scenario."""
MAX_RUNS_NAMED = 3
"""Max benchmark runs that a row names; further ones are counted."""


def origins_grid(report: SizingReport) -> Grid:
    """Show where figures come from: a row for all figures of one origin; `others` are those that stand in no row."""
    rows = [
        (
            ", ".join(figure_name(name) if name else "others" for name in origin.figures),
            origin.kind,
            source_text(origin.source),
            _runs_text(origin.runs),
        )
        for origin in report.provenance
    ]
    width = 4 if any(runs for *_, runs in rows) else 3
    columns = ("figures", "kind", "source", "benchmark runs")[:width]
    return Grid("Where the figures come from", columns, tuple(row[:width] for row in rows))


def source_text(source: str) -> str:
    """Write the source of a figure; a source that is a field of the scenario by its name in words."""
    return figure_name(source) if _INPUT.fullmatch(source) else source


def _runs_text(runs: Runs | None) -> str:
    if runs is None:
        return ""
    texts, num_others = list(runs.run_ids[:MAX_RUNS_NAMED]), len(runs.run_ids) - MAX_RUNS_NAMED
    if num_others > 0:
        texts.append(f"{num_others:,} more")
    if runs.measured_on is not None:
        texts.append(f"measured on {runs.measured_on}")
    if runs.error_fraction is not None:
        texts.append(f"held-out error {percent_text(runs.error_fraction)}")
    return ", ".join(texts)
