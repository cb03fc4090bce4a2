"""What a check found, how bad it is, what to do about it; and all of that for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.table import Table
from rich.text import Text

from io_bench.errors import EXIT_FAILED
from sizing.errors import EXIT_BAD_INPUT

Severity = Literal["fine", "note", "warning", "problem"]
"""A note is information; a warning: the run or its figures are at risk; a problem: the run cannot start."""

_EXIT_CODES: dict[Severity, int] = {"fine": 0, "note": 0, "warning": EXIT_FAILED, "problem": EXIT_BAD_INPUT}
_STYLES: dict[Severity, str] = {"fine": "green", "note": "cyan", "warning": "yellow", "problem": "red"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` is a sentence for all but what is fine."""

    subject: str
    found: str
    severity: Severity = "fine"
    advice: str = ""


def exit_code_of(findings: Iterable[Finding]) -> int:
    """2 where the run cannot be, 1 where it is endangered, else 0.

    >>> exit_code_of([Finding("clock", "0 s off"), Finding("fallocate", "refused", "note", "Mind it.")])
    0
    """
    return max((_EXIT_CODES[finding.severity] for finding in findings), default=0)


def tried(subject: str, look: Callable[[], Finding]) -> Finding:
    """What `look` finds; a problem where the operating system does not let it."""
    try:
        return look()
    except OSError as error:
        reason = error.strerror or str(error)
        return Finding(subject, f"failed: {reason}", "problem", f"A run would fail for the same reason ({reason}).")


def findings_table(findings: Sequence[Finding]) -> Table:
    """One row per thing that was looked at."""
    table = Table("checked", "found", "verdict", box=box.SIMPLE_HEAD)
    for finding in findings:
        table.add_row(finding.subject, finding.found, Text(finding.severity, _STYLES[finding.severity]))
    return table


def advice(findings: Sequence[Finding]) -> list[str]:
    """A sentence for each finding that is not fine, the worst first."""
    words = {"problem": "error", "warning": "warning", "note": "note"}
    return [
        f"{word}: {finding.subject}: {finding.advice}"
        for severity, word in words.items()
        for finding in findings
        if finding.severity == severity
    ]
