"""What is trained, on what."""

from __future__ import annotations

from sizing.report import SizingReport
from sizing.units import counted_text


def headline(report: SizingReport) -> str:
    """What is trained, on what."""
    layout = report.layout
    return (
        f"{report.model.name}: {report.model.num_parameters:,} parameters on {counted_text(layout.num_gpus, 'GPU')} "
        f"({layout.num_nodes:,} x {layout.node})"
    )
