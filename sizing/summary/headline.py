"""What is trained, on what."""

from __future__ import annotations

from sizing.report import SizingReport
from sizing.units import counted_text


def headline(report: SizingReport) -> str:
    """What is trained, on what."""
    layout, size = report.layout, f"{report.model.num_parameters:,} parameters"
    found = "".join(f"; {row.value_text}, found" for row in report.assumptions if row.field == "parallelism")
    name = report.model.name
    model = name if name.startswith(size) else f"{name}: {size}"
    return f"{model} on {counted_text(layout.num_gpus, 'GPU')} ({layout.num_nodes:,} x {layout.node}{found})"
