"""What `ckpt-size compare` prints of a ComparisonReport."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sizing.explore.comparisons.comparison_report import ComparisonReport, Explanation, FigureRow, Step
from sizing.summary.figure_text import figure_text, figure_words
from sizing.summary.targets import target_rows

_MAX_CHANGES = 6
"""Of one input; the others are in the table of all figures."""


def comparison_text(report: ComparisonReport) -> RenderableType:
    """The inputs that differ, the figures that follow, and for each scenario which input made which difference."""
    if not report.inputs:
        return Group(Text("The scenarios do not differ."), "", _targets(report), "", _figures(report))
    steps = [_steps(report, explanation) for explanation in report.explanations]
    return Group(
        _targets(report),
        "",
        _inputs(report),
        "",
        _figures(report),
        *(line for table in steps for line in ("", table)),
        *_notes(report),
    )


def _targets(report: ComparisonReport) -> Table:
    table = _table("Targets", "scenario", "target", "found", "")
    for name, checks in zip(report.names, report.targets, strict=True):
        for row in target_rows(checks):
            table.add_row(name, *row, style="bold red" if "MISSED" in row.meaning else "")
    return table


def _inputs(report: ComparisonReport) -> Table:
    table = _table("Inputs that differ", "field", *report.names)
    for difference in report.inputs:
        texts = ("none" if value is None else figure_text(difference.field, value) for value in difference.values)
        table.add_row(difference.field, *texts)
    return table


def _figures(report: ComparisonReport) -> Table:
    table = _table("Figures", "", *report.names)
    for row in report.figures:
        if any(value is not None for value in row.values):
            table.add_row(_name(row.figure), *_values(row), style="bold" if row.differs else "dim")
    return table


def _values(row: FigureRow) -> Iterator[str]:
    for place, (value, ratio) in enumerate(zip(row.values, row.ratios, strict=True)):
        relative = f" ({ratio:.3g} x)" if place and ratio is not None and value != row.values[0] else ""
        yield figure_text(row.figure, value) + relative


def _steps(report: ComparisonReport, explanation: Explanation) -> Table:
    table = _table(
        f"From {report.names[0]} to {explanation.name}, one input after the other", "changed", "what follows"
    )
    for step in explanation.steps:
        table.add_row(", ".join(step.inputs), _changes(step))
    return table


def _changes(step: Step) -> str:
    told = [
        f"{_name(change.figure)} {figure_text(change.figure, change.before)} to "
        f"{figure_text(change.figure, change.after)}"
        for change in step.changes[:_MAX_CHANGES]
    ]
    more = len(step.changes) - len(told)
    return "; ".join([*told, *([f"{more} more"] if more > 0 else [])]) or "no figure"


def _name(figure: str) -> str:
    return f"{figure.split('.', maxsplit=1)[0]}: {figure_words(figure)}"


def _notes(report: ComparisonReport) -> Iterator[RenderableType]:
    yield Text("Where inputs work together, what each changes depends on the order.", style="dim")
    for name, warnings in zip(report.names, report.warnings, strict=True):
        yield from (Text(f"warning: {name}: {warning}", style="yellow") for warning in warnings)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold cyan", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column)
    return table
