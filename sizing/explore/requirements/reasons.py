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
    """The target that asks for the value; where none is enough, what stands in the way."""
    wanted = _wanted(asked, question)
    if status == "none":
        return f"{wanted}: {_obstacle(asked.with_values({question.field: question.best}), question)}"
    if status == "any":
        return f"{wanted}: met whatever this is"
    if question.field == INTERVAL or question.target == "recovery_seconds":
        return wanted
    interval = asked.at({question.field: value}).interval
    every = interval.effective_interval_seconds or interval.interval_seconds
    return f"{wanted}, at one checkpoint every {seconds_text(every)}"


def _wanted(asked: Asked, question: Question) -> str:
    if question.target == DRAINED:
        return "a save drained before the next"
    wanted = getattr(asked.inputs.targets, question.target)
    match question.target:
        case "max_stall_seconds":
            return f"a stall of {seconds_text(wanted)}"
        case "max_overhead_fraction":
            return f"an overhead of {percent_text(wanted)}"
        case "recovery_seconds":
            return f"recovery in {seconds_text(wanted)}"
        case _:
            return f"a goodput of {percent_text(wanted)}"


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
        return f"a tier in front is saved to every {seconds_text(effective_interval_seconds)} at most"
    return f"with no limit here a save takes {seconds_text(takes)}, decided by {write.bottleneck}"


def _obstacle_to_saving(asked: Asked, figures: RunReport, write: Write) -> str:
    if asked.inputs.checkpoint.tiers:
        share = percent_text(figures.overhead.fraction or 0.0)
        longest = seconds_text(max(row.stall_seconds for row in figures.tiers))
        return f"with no limit here saving stalls {share} of the time and up to {longest} at once, tiers included"
    decided_by = "device-to-host" if asked.is_async else write.bottleneck
    return f"with no limit here the stall is {seconds_text(write.stall_seconds)}, decided by {decided_by}"


def _obstacle_to_goodput(asked: Asked, question: Question, at_interval: float) -> str:
    if question.field == INTERVAL:
        return f"even the best interval has {percent_text(at_interval)}"
    best = best_goodput_fraction(asked) or 0.0
    even = "" if best >= (asked.inputs.targets.min_goodput_fraction or 0.0) else "even "
    return (
        f"with no limit here it is {percent_text(at_interval)} at this interval and {percent_text(best)} "
        f"{even}at the best one"
    )


def _obstacle_to_recovery(asked: Asked, restore: Restore) -> str:
    measured = asked.inputs.reliability.restart_seconds if asked.inputs.reliability else None
    if measured is not None and measured > (restore.seconds or 0.0):
        return f"reliability.restart_seconds alone is {seconds_text(measured)}"
    return f"with no limit here reading takes {seconds_text(restore.seconds or 0.0)}, decided by {restore.bottleneck}"
