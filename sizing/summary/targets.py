"""What was asked for, and whether it is met: the verdict in a sentence, and a row for each target."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sizing.report import SizingReport
from sizing.run.targets import TargetCheck
from sizing.summary.rows import UNKNOWN, Row
from sizing.units import percent_text, seconds_text

_NAMES = {
    "max_stall_seconds": "stall",
    "max_overhead_fraction": "overhead",
    "recovery_seconds": "recovery",
    "min_goodput_fraction": "goodput",
}
_ABBREVIATIONS = {"recovery_seconds": " (RTO)", "min_goodput_fraction": " (ETTR)"}
_BLOCK = "targets."


def verdict(report: SizingReport) -> str:
    """Which targets are missed and met, and what the run loses; a target that nobody set is named as the default."""
    assumed = {assumption.field.removeprefix(_BLOCK) for assumption in report.assumptions}
    on_targets, lost = verdict_on(report.targets, defaults=assumed), report.interval.lost_at_interval_fraction
    return on_targets if lost is None else f"{on_targets[:-1]}; the run loses {percent_text(lost)} of its time."


def verdict_on(checks: Sequence[TargetCheck], *, defaults: Collection[str] = ()) -> str:
    """The verdict on some targets, of which `defaults` were set by nobody."""
    groups = [
        (f"{verb} {_of_all(len(group), len(checks))}" if verb else "not known", group)
        for verb, met in (("misses", False), ("meets", True), ("", None))
        if (group := [check for check in checks if check.met is met])
    ]
    parts = [f"{said}: {', '.join(_found_and_asked(check, defaults) for check in group)}" for said, group in groups]
    sentence = "; ".join(parts) or "no target is set"
    return f"{sentence[0].upper()}{sentence[1:]}."


def has_missed(checks: Sequence[TargetCheck]) -> bool:
    """Whether a target is missed."""
    return any(check.met is False for check in checks)


def remedies(report: SizingReport) -> list[str]:
    """What would meet each missed target; none where one purchase meets them all, which the figures name."""
    shown = report.targets_beyond_storage if report.needed_together else [check.target for check in report.targets]
    return [
        f"{_NAMES[check.target].capitalize()}: {check.remedy}"
        for check in report.targets
        if check.remedy and check.target in shown
    ]


def met_together(report: SizingReport) -> str:
    """What the rates meet that are to be bought together."""
    beyond = ", ".join(_NAMES[target] for target in report.targets_beyond_storage)
    return f"meets all targets but {beyond}" if beyond else "meets all targets"


def target_rows(checks: Sequence[TargetCheck]) -> list[Row]:
    """One row for each target, those that are missed first, with what would meet them."""
    return [_row(check) for check in sorted(checks, key=lambda check: check.met is not False)]


def _row(check: TargetCheck) -> Row:
    judged = {True: "met", False: "MISSED", None: "not known"}[check.met]
    remedy = f"; {check.remedy}" if check.remedy else ""
    found = UNKNOWN if check.found is None else _text(check, check.found)
    name = f"{_NAMES[check.target]}{_ABBREVIATIONS.get(check.target, '')}"
    return Row(name, found, f"asked {_wanted(check)}: {judged}{remedy}")


def _of_all(number: int, of_all: int) -> str:
    if number < of_all:
        return f"{number} of {of_all} targets"
    return "the target" if of_all == 1 else f"all {of_all} targets"


def _found_and_asked(check: TargetCheck, defaults: Collection[str]) -> str:
    found = "" if check.found is None else f" {_text(check, check.found)}"
    default = ", the default" if check.target in defaults else ""
    return f"{_NAMES[check.target]}{found} ({_wanted(check)}{default})"


def _wanted(check: TargetCheck) -> str:
    return f"{'min' if check.target.startswith('min_') else 'max'} {_text(check, check.wanted)}"


def _text(check: TargetCheck, value: float) -> str:
    return seconds_text(value) if check.target.endswith("_seconds") else percent_text(value)
