"""A comparison in words: verdicts, inputs that differ, figures that follow, and which input made which difference."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.explore.comparisons.comparison_report import ComparisonReport, Explanation, FigureRow, Step
from sizing.summary.figure_text import figure_name, figure_text
from sizing.summary.rows import Grid, Summary
from sizing.summary.targets import has_missed, target_rows, verdict_on

_ORDER_MATTERS = "Where inputs work together, what each changes depends on the order."
_MAX_CHANGES = 6
"""Of one input; the others are in the table of all figures."""


def comparison_summary(report: ComparisonReport) -> Summary:
    """Verdicts, the inputs that differ, the figures that follow, and which input made which difference."""
    verdicts = (f"{name}: {verdict_on(checks)}" for name, checks in zip(report.names, report.targets, strict=True))
    differing = [_inputs(report)] if report.inputs else []
    steps = [_steps(report, explanation) for explanation in report.explanations if report.inputs]
    named = zip(report.names, report.warnings, strict=True)
    return Summary(
        headline=f"{report.names[0]} against {', '.join(report.names[1:])}",
        verdict="\n".join(verdicts),
        misses=any(map(has_missed, report.targets)),
        grids=(_targets(report), *differing, _figures(report), *steps),
        remarks=(_ORDER_MATTERS if report.inputs else "The scenarios do not differ.",),
        warnings=tuple(f"{name}: {warning}" for name, warnings in named for warning in warnings),
    )


def _targets(report: ComparisonReport) -> Grid:
    rows = tuple(
        (name, *row) for name, checks in zip(report.names, report.targets, strict=True) for row in target_rows(checks)
    )
    missed = frozenset(place for place, row in enumerate(rows) if "MISSED" in row[-1])
    return Grid("Targets", ("scenario", "target", "found", ""), rows, missed)


def _inputs(report: ComparisonReport) -> Grid:
    rows = tuple(
        (
            figure_name(difference.field),
            *("none" if value is None else figure_text(difference.field, value) for value in difference.values),
        )
        for difference in report.inputs
    )
    return Grid("Inputs that differ", ("input", *report.names), rows)


def _figures(report: ComparisonReport) -> Grid:
    known = [row for row in report.figures if any(value is not None for value in row.values)]
    rows = tuple((figure_name(row.figure), *_values(row)) for row in known)
    differing = frozenset(place for place, row in enumerate(known) if row.differs)
    return Grid("Figures", ("figure", *report.names), rows, differing)


def _values(row: FigureRow) -> Iterator[str]:
    for place, (value, ratio) in enumerate(zip(row.values, row.ratios, strict=True)):
        relative = "" if place == 0 or ratio is None else f" ({ratio:.3g} x)"
        yield figure_text(row.figure, value) + relative.replace(" (1 x)", "")


def _steps(report: ComparisonReport, explanation: Explanation) -> Grid:
    return Grid(
        f"From {report.names[0]} to {explanation.name}, one input after the other",
        ("changed", "what follows"),
        tuple((", ".join(map(figure_name, step.inputs)), _changes(step)) for step in explanation.steps),
    )


def _changes(step: Step) -> str:
    told = [
        f"{figure_name(change.figure)} {figure_text(change.figure, change.before)} to "
        f"{figure_text(change.figure, change.after)}"
        for change in step.changes[:_MAX_CHANGES]
    ]
    more = len(step.changes) - len(told)
    return "; ".join([*told, *([f"{more} more"] if more > 0 else [])]) or "no figure"
