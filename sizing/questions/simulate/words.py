"""Simulated runs in words: goodput beside the formula's, where the time goes, and bars of the runs for a terminal."""

from __future__ import annotations

from sizing.present.rows import Grid, Summary
from sizing.run.simulation import SimulationReport
from sizing.units import percent_text, seconds_text

BAR_WIDTH = 40
"""Characters of the longest bar, so that a row fits a terminal of 80."""


def simulation_summary(report: SimulationReport) -> Summary:
    """Put simulated and computed goodput into words, and where the time goes."""
    formula = report.formula_shares.by_name
    shares = ((name, _percent(share), _percent(formula[name])) for name, share in report.shares.by_name.items())
    return Summary(
        headline=f"{report.num_runs:,} runs of {seconds_text(report.mean_run_seconds)} on average "
        f"(min {seconds_text(report.run_seconds)}), MTBF {seconds_text(report.mtbf_seconds)}, "
        f"{report.mean_failures:.1f} failures per run (seed {report.seed})",
        grids=(
            _goodput_grid(report),
            Grid("Where the time goes", ("share of the wall time", "simulated", "formula"), tuple(shares)),
        ),
        remarks=tuple(f"note: {note}" for note in report.notes),
    )


def _goodput_grid(report: SimulationReport) -> Grid:
    error = f"+- {100 * report.standard_error_fraction:.4f} % standard error"
    away = f"differs by {abs(report.difference_in_standard_errors):.1f} standard errors"
    low, high = percent_text(report.p5_goodput_fraction), percent_text(report.p95_goodput_fraction)
    most = "at most " if report.leaves_out_restore else ""
    rows: tuple[tuple[str, str, str], ...] = (
        ("goodput, simulated", f"{most}{_percent(report.goodput_fraction)}", error),
        ("goodput, formula", f"{most}{_percent(report.formula_goodput_fraction)}", away),
        ("median run", f"{most}{_percent(report.p50_goodput_fraction)}", f"90 % of the runs between {low} and {high}"),
    )
    if target := report.goodput_target:
        ends = f"95 % interval {_percent(target.met_interval.low)} to {_percent(target.met_interval.high)}"
        met = f"runs at {percent_text(target.min_goodput_fraction)} or more"
        rows = (*rows, (met, f"{most}{_percent(target.met_probability)}", ends))
    return Grid("Goodput", (), rows)


def goodput_bars(report: SimulationReport) -> Grid:
    """Draw how many runs had which goodput, as bars of characters for a terminal."""
    highest = max(one.num_runs for one in report.histogram)
    rows = (
        (
            f"{100 * one.from_fraction:.2f} to {100 * one.to_fraction:.2f} %",
            f"{one.num_runs:,}",
            "#" * round(BAR_WIDTH * one.num_runs / highest),
        )
        for one in report.histogram
    )
    return Grid("How many runs had which goodput", ("goodput of a run", "runs", ""), tuple(rows))


def _percent(fraction: float) -> str:
    """Write a fraction with the digits that its standard error justifies."""
    return f"{100 * fraction:.3f} %"
