"""Findings as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from io_bench.preflight.findings import Finding, Severity

_STYLES: dict[Severity, str] = {"fine": "green", "note": "cyan", "warning": "yellow", "problem": "red"}


def findings_table(findings: Sequence[Finding]) -> Table:
    """One row per thing that was looked at."""
    table = Table("checked", "found", "verdict", box=box.SIMPLE_HEAD)
    for finding in findings:
        table.add_row(finding.subject, finding.found, Text(finding.severity, _STYLES[finding.severity]))
    return table


def advice(findings: Sequence[Finding]) -> list[str]:
    """A sentence for each finding that is not fine, the worst first."""
    order = ("problem", "warning", "note")
    return [
        f"{severity.capitalize()}: {finding.subject}: {finding.advice}"
        for severity in order
        for finding in findings
        if finding.severity == severity
    ]
