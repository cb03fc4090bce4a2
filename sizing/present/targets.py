"""Whether targets are met: the verdict in a sentence, and a row for each target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from pydantic import JsonValue

from sizing.guesses.figures import LOST
from sizing.origins import lack_of_limits
from sizing.present.figure_names import figure_words
from sizing.present.guesses import IN_INTERVALS, moves_in_interval, span_text
from sizing.present.rows import CALIBRATION, MTBF, READ_RATE, UNKNOWN, WRITE_RATE, Row
from sizing.report import SizingReport
from sizing.run.failure_process import Shares
from sizing.run.interval import Interval
from sizing.run.request import TARGET_NAMES
from sizing.run.targets import TargetCheck
from sizing.scenario import NUM_GPUS
from sizing.storage.rates import Direction
from sizing.units import (
    counted_text,
    decimal_bytes_text,
    figure_text,
    percent_text,
    seconds_text,
    share_of_interval_text,
)

_ABBREVIATIONS = {"recovery_seconds": " (RTO)", "min_goodput_fraction": " (ETTR)"}
_BLOCK = "targets."
_GOODPUT = "min_goodput_fraction"
_OVERHEAD = "max_overhead_fraction"
_LOSSES = {
    "saving": "stalled by saves",
    "work repeated": "work repeated after failures",
    "recovering": "recovering from failures",
}
"""The shares of the time that a run loses, and what it is then doing."""
LARGE_LOSS_FRACTION = 0.1
"""Part of a run whose loss is large: published runs of large models kept 90 % or more (Llama 3, arXiv 2407.21783,
section 3.3.4)."""
_WITHOUT_RESTORE = f" without the time of a restore: give {READ_RATE}, that of each tier, or {CALIBRATION}"
_UNDECIDED = "undecided"
_JUDGEMENTS: tuple[tuple[str, bool | str | None], ...] = (
    ("misses", False),
    ("cannot be decided from these measurements", _UNDECIDED),
    ("meets", True),
    ("not known", None),
)
"""What a verdict says of targets, in its order."""
_MOST = 0.5
_MAX_IFS = 3
"""Max conditions in a verdict; the rows of the targets have all of them."""


def verdict(report: SizingReport) -> str:
    """Say which targets are missed and met, and what the run loses; name a target that nobody set as the default.

    Where the layout cannot run, a line of its own says so first. Where neither a rate nor a target is given, say the
    size, and what to give for the rest of the answer.
    """
    if asks_for_size(report):
        size = decimal_bytes_text(report.stored_bytes)
        failures = f" and {MTBF}" if report.interval.mtbf_seconds is None else ""
        given = f"give {WRITE_RATE}, {READ_RATE}{failures}"
        if lack := lack_of_calibrated(report, "write"):
            given = f"{lack}; or give {WRITE_RATE}{failures}"
        sentence = f"A checkpoint has {size}. For times and losses {given}."
        return sentence + _ask_for_gpus(report)
    lost = lost_by(report.shares, report.interval)
    if lost is not None and moves_in_interval(report, LOST):
        ends = map(percent_text, report.prediction_intervals[LOST])
        lost = lost._replace(ends=f"{span_text(*ends)} {IN_INTERVALS}")
    sentence = verdict_on(report.targets, lost=lost, defaults=_default_targets(report))
    return with_refusal(report.training.cannot_run, sentence + _ask_for_gpus(report))


def asks_for_size(report: SizingReport) -> bool:
    """Whether the size is all that can be told and all that was asked: no rate, no target of one's own, no misfit."""
    defaults = _default_targets(report)
    is_open = all(check.met is None and check.target in defaults for check in report.targets)
    return report.write is None and is_open and report.training.cannot_run is None


def lack_of_calibrated(report: SizingReport, direction: Direction) -> str:
    """Say what to do about a calibration without limits of that direction; empty where there is no such calibration."""
    lack = lack_of_limits(direction)
    has_none = any(each.source == lack for each in report.provenance)
    return f"measure more, as {lack}: its warnings say what" if has_none else ""


def _default_targets(report: SizingReport) -> set[str]:
    """List the targets that nobody set."""
    return {assumption.field.removeprefix(_BLOCK) for assumption in report.assumptions}


def _ask_for_gpus(report: SizingReport) -> str:
    """Ask for the number of GPUs where the scenario does not give it, so that one is counted."""
    if not any(assumption.field == NUM_GPUS for assumption in report.assumptions):
        return ""
    memory = report.training
    if memory.runs is not False:
        return f" For more than 1 GPU give {NUM_GPUS}."
    needed, capacity = decimal_bytes_text(memory.needed_bytes), decimal_bytes_text(memory.gpu_memory_bytes or 0)
    return f" To train takes several GPUs, as the {needed} that it holds exceed the {capacity} of one: give {NUM_GPUS}."


def with_refusal(because: str | None, verdict: str) -> str:
    """Put before a verdict on targets why the layout cannot run; None: it can."""
    return verdict if because is None else f"{because}.\nIf it could run: {_uncapitalize(verdict)}"


class Lost(NamedTuple):
    """The part of its time that a run loses, and what takes more than half of the loss; None where nothing does."""

    fraction: float
    mostly: str | None
    bound: str = ""
    """Words before the figure where it leaves out the restore."""
    ends: str = ""
    """What the loss may be within the intervals of a calibration, where that is much more or less."""


def lost_by(shares: Shares, interval: Interval) -> Lost | None:
    """Find what a run loses of its time; None where that is not known."""
    fraction = interval.lost_at_interval_fraction
    if fraction is None:
        return None
    parts = shares.by_name
    most = (words for name, words in _LOSSES.items() if (parts[name] or 0.0) > fraction / 2)
    return Lost(fraction, next(most, None), interval.at_least)


def verdict_on(checks: Sequence[TargetCheck], *, lost: Lost | None, defaults: Collection[str] = ()) -> str:
    """Say which of some targets are met, and what the run loses; nobody set the `defaults` among the targets.

    A loss that no target speaks of stands out beside targets that are met; before them where it is most of the time.
    """
    on_targets = _capitalize(_judge_targets(checks, defaults))
    if lost is None:
        return f"{on_targets}."
    loses = f"the run loses {lost.bound}{percent_text(lost.fraction)} of its time"
    if lost.ends:
        loses += f", {lost.ends}"
    elif lost.mostly and lost.fraction > LARGE_LOSS_FRACTION:
        loses += f", most of it {lost.mostly}"
    if not hides_loss(checks, lost):
        return f"{on_targets}; {loses}."
    if lost.fraction > _MOST:
        return f"{_capitalize(loses)}. {on_targets}."
    return f"{on_targets}; yet {loses}."


def _judge_targets(checks: Sequence[TargetCheck], defaults: Collection[str]) -> str:
    """Name the targets that are missed, not decided, met and not known, with figures, and the guesses they rest on."""
    sentences = []
    for verb, met in _JUDGEMENTS:
        group = [check for check in checks if (check.met if check.is_decided else _UNDECIDED) == met]
        if not group:
            continue
        all_targets = "the target" if len(checks) == 1 else f"all {len(checks)} targets"
        targets = all_targets if len(group) == len(checks) else f"{len(group)} of {len(checks)} targets"
        sentence = f"{verb} {targets}" if isinstance(met, bool) else verb
        sentence += f": {', '.join(_figure_and_target(check, defaults) for check in group)}"
        ifs = [] if met == _UNDECIDED else other_conditions(group)
        if len(ifs) > _MAX_IFS:
            num_others = len(ifs) - _MAX_IFS
            others = f"{counted_text(num_others, 'other guess')} {'is' if num_others == 1 else 'are'} off"
            ifs = [*ifs[:_MAX_IFS], others]
        otherwise = "not" if met else "meets it" if len(group) == 1 else "meets one of them"
        sentences.append(f"{sentence}, but {otherwise} if {', or '.join(ifs)}" if ifs else sentence)
    return "; ".join(sentences) or "no target is set"


def _capitalize(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}"


def _uncapitalize(sentence: str) -> str:
    """Begin a sentence behind a colon in lower case, unless it begins with an abbreviation."""
    return sentence if sentence[:2].isupper() else f"{sentence[0].lower()}{sentence[1:]}"


def other_conditions(checks: Iterable[TargetCheck]) -> list[str]:
    """List the values of guesses with which one of the targets is judged otherwise, as one condition for each guess."""
    values_by_field: dict[str, list[JsonValue]] = {}
    for check in checks:
        for field, others in (check.missed_with or check.met_with).items():
            values = values_by_field.setdefault(field, [])
            values.extend(value for value in others if value not in values)
    return [
        f"{figure_words(field)} is "
        + " or ".join(
            ", ".join(map(str, value)) if isinstance(value, list) else figure_text(field, value) for value in values
        )
        for field, values in values_by_field.items()
    ]


def has_missed(checks: Sequence[TargetCheck]) -> bool:
    """Whether a target is missed, as far as the measurements of the storage decide it."""
    return any(check.met is False and check.is_decided for check in checks)


def hides_loss(checks: Sequence[TargetCheck], lost: Lost | None) -> bool:
    """Whether targets are met beside a large loss of time that none of them speaks of."""
    speaks = any(check.target == _GOODPUT and check.met is not None for check in checks)
    is_large = lost is not None and lost.fraction > LARGE_LOSS_FRACTION
    return (
        is_large and not speaks and not has_missed(checks) and any(check.met and check.is_decided for check in checks)
    )


def is_weak(checks: Sequence[TargetCheck], lost: Lost | None) -> bool:
    """Whether a target is not known, not decided or rests on a guess, or a large loss stands beside those met."""
    return hides_loss(checks, lost) or not all(
        check.met and check.is_decided and not check.missed_with for check in checks
    )


def remedies(report: SizingReport) -> list[str]:
    """List what would let the layout run, and what would meet each missed target; none where one purchase meets all."""
    shown = report.targets_beyond_storage if report.needed_together else [check.target for check in report.targets]
    could_run = [f"To run: {_uncapitalize(report.training.remedy)}"] if report.training.remedy else []
    return could_run + [
        f"{TARGET_NAMES[check.target].capitalize()}: {check.remedy}"
        for check in report.targets
        if check.remedy and check.target in shown and check.is_decided
    ]


def met_together(targets_beyond_storage: Sequence[str]) -> str:
    """Say which targets the rates meet that are to be bought together."""
    beyond = target_names(targets_beyond_storage)
    return f"meets all targets but {beyond}" if beyond else "meets all targets"


def target_names(targets: Iterable[str]) -> str:
    """Write targets by their short names."""
    return ", ".join(TARGET_NAMES[target] for target in targets)


def target_rows(checks: Sequence[TargetCheck]) -> list[Row]:
    """List a row for each target, those that are missed first, with what would meet them."""
    return [_target_row(check) for check in sorted(checks, key=lambda check: check.met is not False)]


def _target_row(check: TargetCheck) -> Row:
    judgement = {True: "met", False: "MISSED", None: "not known"}[check.met]
    judgement = judgement if check.is_decided else f"not decided by the calibration, {_interval_text(check)}"
    remedy = f"; {check.remedy}" if check.remedy else ""
    if ifs := other_conditions([check]):
        remedy += f"; {'missed' if check.met else 'met'} if {', or '.join(ifs)}"
    remedy += _WITHOUT_RESTORE if _is_bound(check) else ""
    figure = UNKNOWN if check.found is None else _figure(check, check.found)
    name = f"{TARGET_NAMES[check.target]}{_ABBREVIATIONS.get(check.target, '')}"
    return Row(name, figure, f"asked {_limit(check)}: {judgement}{remedy}")


def _figure_and_target(check: TargetCheck, defaults: Collection[str]) -> str:
    text = TARGET_NAMES[check.target]
    if check.found is not None:
        takes_longer = check.target == _OVERHEAD and check.found > 1  # than the interval between saves
        text += f"{': saves take' if takes_longer else ''} {_figure(check, check.found)}"
        text += "" if check.is_decided else f", {_interval_text(check)}"
    default = ", the default" if check.target in defaults else ""
    return f"{text} ({_limit(check)}{default})"


def _limit(check: TargetCheck) -> str:
    return f"{'min' if check.target.startswith('min_') else 'max'} {_text(check, check.wanted)}"


def _is_bound(check: TargetCheck) -> bool:
    """Whether the figure leaves out the restore, and is within the target only so."""
    return check.met is None and check.found is not None


def _figure(check: TargetCheck, value: float) -> str:
    text = _text(check, value)
    if check.met is False and text == _text(check, check.wanted):  # equal but for the digits that are not printed
        return f"just {'below' if value < check.wanted else 'above'} {text}"
    return f"{'at most ' if _is_bound(check) else ''}{text}"


def _interval_text(check: TargetCheck) -> str:
    low, high = (_text(check, end) for end in check.found_interval or ())
    return span_text(low, high)


def _text(check: TargetCheck, value: float) -> str:
    if check.target == _OVERHEAD:
        return share_of_interval_text(value)
    return seconds_text(value) if check.target.endswith("_seconds") else percent_text(value)
