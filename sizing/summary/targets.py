"""What was asked for, and whether it is met: the verdict in a sentence, and a row for each target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from sizing.report import SizingReport
from sizing.run.goodput.interval import Interval
from sizing.run.goodput.shares import Shares
from sizing.run.requirements.asked import DRAINED
from sizing.run.targets import TargetCheck
from sizing.summary.figure_names import figure_words
from sizing.summary.rows import UNKNOWN, Row
from sizing.units import counted_text, figure_text, percent_text, seconds_text, share_of_interval_text

_NAMES = {
    "max_stall_seconds": "stall",
    "max_overhead_fraction": "overhead",
    "recovery_seconds": "recovery",
    "min_goodput_fraction": "goodput",
    DRAINED: "drain before the next save",
}
_ABBREVIATIONS = {"recovery_seconds": " (RTO)", "min_goodput_fraction": " (ETTR)"}
_BLOCK = "targets."
_GOODPUT = "min_goodput_fraction"
_OVERHEAD = "max_overhead_fraction"
_LOSSES = {
    "saving": "stalled by saves",
    "done again": "work done again after failures",
    "recovering": "recovering from failures",
}
"""The shares of the time that a run loses, and what it is then doing."""
LARGE_LOSS_FRACTION = 0.1
"""Of the run: published runs of large models kept 90 % or more (Llama 3, arXiv 2407.21783, section 3.3.4)."""
_WITHOUT_RESTORE = " without the time of a restore: give --read-bandwidth or --storage"
_MOST = 0.5
_MAX_IFS = 3
"""Of a verdict; the rows of the targets have all of them."""


def verdict(report: SizingReport) -> str:
    """Which targets are missed and met, and what the run loses; a target that nobody set is named as the default.

    Of a layout that cannot run that comes first, on a line of its own.
    """
    assumed = {assumption.field.removeprefix(_BLOCK) for assumption in report.assumptions}
    of_the_run = verdict_on(report.targets, lost=lost_by(report.shares, report.interval), defaults=assumed)
    return with_refusal(report.training.cannot_run, of_the_run)


def with_refusal(because: str | None, verdict: str) -> str:
    """A verdict on targets, behind why the layout cannot run where it cannot."""
    return verdict if because is None else f"CANNOT RUN: {_small(because)}.\nIf it could: {_small(verdict)}"


class Lost(NamedTuple):
    """What a run loses of its time, and what takes most of that; None where nothing takes more than half of it."""

    fraction: float
    mostly: str | None
    bound: str = ""
    """What stands before it where the restore is left out."""


def lost_by(shares: Shares, interval: Interval) -> Lost | None:
    """What a run loses of its time; None where that is not known."""
    fraction = interval.lost_at_interval_fraction
    if fraction is None:
        return None
    parts = shares.by_name
    most = (words for name, words in _LOSSES.items() if (parts[name] or 0.0) > fraction / 2)
    return Lost(fraction, next(most, None), interval.at_least)


def verdict_on(checks: Sequence[TargetCheck], *, lost: Lost | None, defaults: Collection[str] = ()) -> str:
    """The verdict on some targets, of which `defaults` were set by nobody, and on what the run loses.

    A loss that no target speaks of stands out beside targets that are met; before them where it is most of the time.
    """
    on_targets = _on_targets(checks, defaults)
    if lost is None:
        return f"{_capital(on_targets)}."
    loses = f"the run loses {lost.bound}{percent_text(lost.fraction)} of its time"
    loses += f", most of it {lost.mostly}" if lost.mostly and lost.fraction > LARGE_LOSS_FRACTION else ""
    if not hides_loss(checks, lost):
        return f"{_capital(on_targets)}; {loses}."
    if lost.fraction > _MOST:
        return f"{_capital(loses)}. {_capital(on_targets)}."
    return f"{_capital(on_targets)}; yet {loses}."


def _on_targets(checks: Sequence[TargetCheck], defaults: Collection[str]) -> str:
    groups = [
        (f"{verb} {_of_all(len(group), len(checks))}" if verb else "not known", group)
        for verb, met in (("misses", False), ("meets", True), ("", None))
        if (group := [check for check in checks if check.met is met])
    ]
    parts = [
        f"{said}: {', '.join(_found_and_asked(check, defaults) for check in group)}{_but_not_if(group)}"
        for said, group in groups
    ]
    return "; ".join(parts) or "no target is set"


def _capital(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}"


def _small(sentence: str) -> str:
    """A sentence behind a colon; what begins with capitals keeps them."""
    return sentence if sentence[:2].isupper() else f"{sentence[0].lower()}{sentence[1:]}"


def _but_not_if(checks: Sequence[TargetCheck]) -> str:
    """The values of guesses with which one of them is missed."""
    ifs = conditions(checks)
    return f", but not if {_listed(ifs)}" if ifs else ""


def conditions(checks: Iterable[TargetCheck]) -> list[str]:
    """The values of guesses with which one of the targets is missed, as conditions: one for each guess."""
    values: dict[str, list[JsonValue]] = {}
    for check in checks:
        for field, missed in check.missed_with.items():
            known = values.setdefault(field, [])
            known.extend(value for value in missed if value not in known)
    return [f"{figure_words(field)} is {_either(field, missed)}" for field, missed in values.items()]


def _either(field: str, values: Sequence[JsonValue]) -> str:
    texts = [", ".join(map(str, value)) if isinstance(value, list) else figure_text(field, value) for value in values]
    return " or ".join(texts)


def _listed(ifs: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    if len(ifs) > _MAX_IFS:
        return f"{', or '.join(ifs[:_MAX_IFS])}, or {counted_text(len(ifs) - _MAX_IFS, 'other guess')} is off"
    return ", or ".join(ifs)


def has_missed(checks: Sequence[TargetCheck]) -> bool:
    """Whether a target is missed."""
    return any(check.met is False for check in checks)


def hides_loss(checks: Sequence[TargetCheck], lost: Lost | None) -> bool:
    """Whether targets are met beside a large loss of time that none of them speaks of."""
    speaks = any(check.target == _GOODPUT and check.met is not None for check in checks)
    is_large = lost is not None and lost.fraction > LARGE_LOSS_FRACTION
    return is_large and not speaks and not has_missed(checks) and any(check.met for check in checks)


def is_weak(checks: Sequence[TargetCheck], lost: Lost | None) -> bool:
    """Whether a target is not known or rests on a guess, or a large loss stands beside those that are met."""
    return hides_loss(checks, lost) or not all(check.met and not check.missed_with for check in checks)


def remedies(report: SizingReport) -> list[str]:
    """What could run, and what would meet each missed target; none where one purchase meets them all."""
    shown = report.targets_beyond_storage if report.needed_together else [check.target for check in report.targets]
    could_run = [f"To run: {_small(report.training.remedy)}"] if report.training.remedy else []
    return could_run + [
        f"{_NAMES[check.target].capitalize()}: {check.remedy}"
        for check in report.targets
        if check.remedy and check.target in shown
    ]


def met_together(targets_beyond_storage: Sequence[str]) -> str:
    """What the rates meet that are to be bought together."""
    beyond = target_names(targets_beyond_storage)
    return f"meets all targets but {beyond}" if beyond else "meets all targets"


def target_names(targets: Iterable[str]) -> str:
    """Targets by their names."""
    return ", ".join(_NAMES[target] for target in targets)


def target_rows(checks: Sequence[TargetCheck]) -> list[Row]:
    """One row for each target, those that are missed first, with what would meet them."""
    return [_row(check) for check in sorted(checks, key=lambda check: check.met is not False)]


def _row(check: TargetCheck) -> Row:
    judged = {True: "met", False: "MISSED", None: "not known"}[check.met]
    remedy = f"; {check.remedy}" if check.remedy else _missed_if(check)
    remedy += _WITHOUT_RESTORE if _is_bound(check) else ""
    found = UNKNOWN if check.found is None else _found_text(check, check.found)
    name = f"{_NAMES[check.target]}{_ABBREVIATIONS.get(check.target, '')}"
    return Row(name, found, f"asked {_wanted(check)}: {judged}{remedy}")


def _missed_if(check: TargetCheck) -> str:
    ifs = conditions([check])
    return f"; missed if {', or '.join(ifs)}" if ifs else ""


def _of_all(number: int, of_all: int) -> str:
    if number < of_all:
        return f"{number} of {of_all} targets"
    return "the target" if of_all == 1 else f"all {of_all} targets"


def _found_and_asked(check: TargetCheck, defaults: Collection[str]) -> str:
    found = "" if check.found is None else f"{_that_saves_take(check)} {_found_text(check, check.found)}"
    default = ", the default" if check.target in defaults else ""
    return f"{_NAMES[check.target]}{found} ({_wanted(check)}{default})"


def _that_saves_take(check: TargetCheck) -> str:
    """What an overhead says where saves take longer than the interval between them."""
    return ": saves take" if check.target == _OVERHEAD and (check.found or 0.0) > 1 else ""


def _wanted(check: TargetCheck) -> str:
    return f"{'min' if check.target.startswith('min_') else 'max'} {_text(check, check.wanted)}"


def _is_bound(check: TargetCheck) -> bool:
    """Whether the figure leaves out the restore, and is within the target only so."""
    return check.met is None and check.found is not None


def _found_text(check: TargetCheck, found: float) -> str:
    return f"{'at most ' if _is_bound(check) else ''}{_text(check, found)}"


def _text(check: TargetCheck, value: float) -> str:
    if check.target == _OVERHEAD:
        return share_of_interval_text(value)
    return seconds_text(value) if check.target.endswith("_seconds") else percent_text(value)
