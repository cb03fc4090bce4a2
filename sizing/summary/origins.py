"""Where the figures come from, for those who are to believe them."""

from __future__ import annotations

from sizing.provenance import Runs
from sizing.report import SizingReport
from sizing.summary.rows import Grid
from sizing.units import percent_text

MAX_RUNS_NAMED = 3
"""The ids of a row; the others are counted."""


def origins(report: SizingReport) -> Grid:
    """One row for all figures of one origin; `others` are those that stand in no row."""
    return Grid(
        "Where the figures come from",
        ("figures", "kind", "source", "benchmark runs"),
        tuple(
            (", ".join(name or "others" for name in found.figures), found.kind, found.source, _runs_text(found.runs))
            for found in report.provenance
        ),
    )


def _runs_text(runs: Runs | None) -> str:
    if runs is None:
        return ""
    named, num_others = runs.run_ids[:MAX_RUNS_NAMED], len(runs.run_ids) - MAX_RUNS_NAMED
    said = [*named, f"{num_others:,} more"] if num_others > 0 else list(named)
    if runs.measured_on is not None:
        said.append(f"measured on {runs.measured_on}")
    if runs.error_fraction is not None:
        said.append(f"held-out error {percent_text(runs.error_fraction)}")
    return ", ".join(said)
