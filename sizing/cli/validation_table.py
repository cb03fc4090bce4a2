"""Predicted against published, as a table."""

from __future__ import annotations

from itertools import groupby

from rich import box
from rich.table import Table

from sizing.validation import Comparison


def validation_table(compared: list[Comparison]) -> Table:
    """One row per comparison, under its source: prediction, truth, ratio and verdict."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("fact", no_wrap=True)
    for column in ("predicted", "published", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("verdict")
    for source, rows in groupby(compared, key=lambda comparison: comparison.source):
        table.add_section()
        table.add_row(f"[bold cyan]{source}[/bold cyan]")
        for row in rows:
            ratio = "-" if row.ratio is None else f"{row.ratio:.6f}"
            predicted = "-" if row.predicted is None else _number(row.predicted)
            table.add_row(f"  {row.fact}", predicted, _number(row.truth), ratio, _verdict(row))
    return table


def _verdict(comparison: Comparison) -> str:
    if not comparison.as_expected:
        return "[red]differs[/red]"
    if comparison.unpublished:
        return f"[yellow]no prediction: {comparison.unpublished}[/yellow]"
    if comparison.miss:
        return f"[yellow]differs: {comparison.miss}[/yellow]"
    return "equal" if comparison.tolerance == 0 else f"within {comparison.tolerance:.2g}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
