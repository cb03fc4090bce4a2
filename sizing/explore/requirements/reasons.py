"""Why a requirement is what it is, in a sentence."""

from __future__ import annotations

from sizing.explore.requirements.asked import DRAINED, INTERVAL, Asked
from sizing.explore.requirements.best_interval import best_goodput_fraction
from sizing.explore.requirements.questions import Question
from sizing.explore.requirements.requirements_report import Status
from sizing.run.evaluation import RunReport
from sizing.run.restore.restore import Restore
from sizing.run.write import Write
from sizing.units import percent_text, seconds_text


def reason(asked: Asked, question: Question, status: Status, value: float | None) -> str:
    """The target that needs the value; where no value is enough, what prevents it."""
    wanted = _wanted(asked, question)
    if status == "none":
        return f"{wanted}: {_obstacle(asked.with_values({question.field: question.best}), question)}"
    if status == "any":
        return f"{wanted}: met at any value"
    if question.field == INTERVAL or question.target == "recovery_seconds":
        return wanted
    interval = asked.at({question.field: value}).interval
    every = interval.effective_interval_seconds or interval.interval_seconds
    return f"{wanted} with one checkpoint every {seconds_text(every)}"


def _wanted(asked: Asked, question: Question) -> str:
    if question.target == DRAINED:
        return "drain before the next save"
    wanted = getattr(asked.inputs.targets, question.target)
    match question.target:
        case "max_stall_seconds":
            return f"max stall {seconds_text(wanted)}"
        case "max_overhead_fraction":
            return f"max overhead {percent_text(wanted)}"
        case "recovery_seconds":
            return f"max recovery (RTO) {seconds_text(wanted)}"
        case _:
            return f"min goodput (ETTR) {percent_text(wanted)}"


def _obstacle(asked: Asked, question: Question) -> str:
    """What is left where the field is as good as can be, as `asked` has it."""
    figures = asked.at({})
    match question.target:
        case "min_goodput_fraction":
            return _obstacle_to_goodput(asked, question, figures.interval.goodput_at_interval_fraction or 0.0)
        case "recovery_seconds":
            return _obstacle_to_recovery(asked, figures.restore)
    assert figures.write is not None  # noqa: S101  the stall was found
    if question.target == DRAINED:
        return _obstacle_to_draining(figures.write, figures.interval.effective_interval_seconds or 0.0)
    return _obstacle_to_saving(asked, figures, figures.write)


def _obstacle_to_draining(write: Write, effective_interval_seconds: float) -> str:
    takes = write.stall_seconds + write.drain_seconds
    if takes < effective_interval_seconds:
        return (
            f"not met at any value; the burst buffer allows one save every {seconds_text(effective_interval_seconds)}"
        )
    return f"not met at any value; a save still takes {seconds_text(takes)}, limited by {write.bottleneck}"


def _obstacle_to_saving(asked: Asked, figures: RunReport, write: Write) -> str:
    if asked.inputs.checkpoint.tiers:
        share = percent_text(figures.overhead.fraction or 0.0)
        max_stall = seconds_text(max(row.stall_seconds for row in figures.tiers))
        return f"not met at any value; overhead is still {share} and max stall {max_stall}, all tiers included"
    limit = "device-to-host" if asked.is_async else write.bottleneck
    return f"not met at any value; the stall is still {seconds_text(write.stall_seconds)}, limited by {limit}"


def _obstacle_to_goodput(asked: Asked, question: Question, at_interval: float) -> str:
    if question.field == INTERVAL:
        return f"not met at any interval; the best one has {percent_text(at_interval)}"
    best = best_goodput_fraction(asked) or 0.0
    return (
        f"not met at any value; goodput is still {percent_text(at_interval)} at this interval and {percent_text(best)} "
        "at the best interval"
    )


def _obstacle_to_recovery(asked: Asked, restore: Restore) -> str:
    measured = asked.inputs.reliability.restart_seconds if asked.inputs.reliability else None
    if measured is not None and measured > (restore.seconds or 0.0):
        return f"not met at any value; reliability.restart_seconds alone is {seconds_text(measured)}"
    reading = seconds_text(restore.seconds or 0.0)
    return f"not met at any value; the restore still takes {reading}, limited by {restore.bottleneck}"
