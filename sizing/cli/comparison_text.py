"""What `ckpt-size compare` prints of a ComparisonReport."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from sizing.cli.tables import table_of
from sizing.explore.comparisons.comparison_report import ComparisonReport
from sizing.summary.comparisons import ORDER_MATTERS, comparison_grids, comparison_warnings


def comparison_text(report: ComparisonReport) -> RenderableType:
    """The inputs that differ, the figures that follow, and for each scenario which input made which difference."""
    tables = [line for grid in comparison_grids(report) for line in (table_of(grid), "")]
    note = Text(ORDER_MATTERS, style="dim") if report.inputs else Text("The scenarios do not differ.")
    return Group(*tables, note, *(Text(f"warning: {said}", style="yellow") for said in comparison_warnings(report)))
