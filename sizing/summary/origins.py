"""Where the figures come from, for those who are to believe them."""

from __future__ import annotations

import re

from sizing.provenance import Runs
from sizing.report import SizingReport
from sizing.summary.figure_names import figure_name
from sizing.summary.rows import Grid
from sizing.units import percent_text

_INPUT = re.compile(r"[a-z_]+(\.[a-z_]+)+")
"""A dotted path in the scenario."""
MAX_RUNS_NAMED = 3
"""The ids of a row; the others are counted."""


def origins(report: SizingReport) -> Grid:
    """One row for all figures of one origin; `others` are those that stand in no row."""
    return Grid(
        "Where the figures come from",
        ("figures", "kind", "source", "benchmark runs"),
        tuple(
            (
                ", ".join(figure_name(name) if name else "others" for name in found.figures),
                found.kind,
                source_text(found.source),
                _runs_text(found.runs),
            )
            for found in report.provenance
        ),
    )


def source_text(source: str) -> str:
    """The source; one that is an input of the scenario, by its name in words."""
    return figure_name(source) if _INPUT.fullmatch(source) else source


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
