"""What was asked for, and whether it is met: the missed targets first."""

from __future__ import annotations

from collections.abc import Sequence

from sizing.run.targets import TargetCheck
from sizing.summary.rows import UNKNOWN, Row
from sizing.units import percent_text, seconds_text

_NAMES = {
    "max_stall_seconds": "stall",
    "max_overhead_fraction": "overhead",
    "recovery_seconds": "recovery (RTO)",
    "min_goodput_fraction": "goodput (ETTR)",
}


def target_rows(checks: Sequence[TargetCheck]) -> list[Row]:
    """One row for each target, those that are missed first, with what would meet them."""
    return [_row(check) for check in sorted(checks, key=lambda check: check.met is not False)]


def _row(check: TargetCheck) -> Row:
    bound = "min" if check.target.startswith("min_") else "max"
    verdict = {True: "met", False: "MISSED", None: "not known"}[check.met]
    remedy = f"; {check.remedy}" if check.remedy else ""
    found = UNKNOWN if check.found is None else _text(check, check.found)
    return Row(_NAMES[check.target], found, f"asked {bound} {_text(check, check.wanted)}: {verdict}{remedy}")


def _text(check: TargetCheck, value: float) -> str:
    return seconds_text(value) if check.target.endswith("_seconds") else percent_text(value)
