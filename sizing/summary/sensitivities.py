"""Which given inputs move the answer most, in words."""

from __future__ import annotations

from sizing.explore.sensitivities.sensitivity_report import SensitivityReport
from sizing.guesses.figures import headline_words
from sizing.summary.guesses import swing_rows
from sizing.summary.rows import Grid, Summary
from sizing.units import figure_text


def sensitivity_summary(report: SensitivityReport) -> Summary:
    """The headline, and a row for each input."""
    figure = report.headline.figure
    columns = ("input", "given", "varied", f"{headline_words(report.headline)} then", "why so far")
    return Summary(
        headline=f"{headline_words(report.headline).capitalize()} {figure_text(figure, report.headline.value)}",
        grids=(Grid("", columns, tuple(swing_rows(report.inputs, figure))),),
        warnings=tuple(report.warnings),
    )
