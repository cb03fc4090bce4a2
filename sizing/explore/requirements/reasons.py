"""Why a requirement is what it is, in a sentence."""

from __future__ import annotations

from sizing.explore.requirements.questions import JointQuestion, Question
from sizing.explore.requirements.requirements_report import Status
from sizing.run.evaluation import RunReport
from sizing.run.failures import seconds_before_reading
from sizing.run.requirements.asked import DRAINED, INTERVAL, READ_RATE, WRITE_RATE, Asked, Solution
from sizing.run.requirements.assumed import before_reading_text, goodput_with_less_text, planning_text
from sizing.run.requirements.best_interval import best_goodput_fraction
from sizing.run.requirements.joint import GOODPUT, is_held_by_adapters
from sizing.run.restore.restore import Restore
from sizing.run.write import Write
from sizing.storage.limits import NETWORK, limit_text, name_of_max
from sizing.units import min_rate_text, percent_text, rate_text, seconds_text

_AT_THE_INTERVAL = ("max_stall_seconds", "max_overhead_fraction", DRAINED)
"""Targets of saves: what they need holds at the interval asked for."""


def reason(asked: Asked, question: Question, status: Status, value: float | None) -> str:
    """The target that needs the value; where no value is enough, what prevents it."""
    wanted = _wanted(asked, question.target)
    at_interval = ""
    if question.field == INTERVAL:
        wanted += _at_rates(asked, question)
    elif question.target in _AT_THE_INTERVAL:
        at_interval = f" {_every(asked.at({}))}"
    if status == "none":
        best = asked.with_values({**question.beside, question.field: question.best})
        return f"{wanted}{at_interval}: {_obstacle(best, question.target, is_interval=question.field == INTERVAL)}"
    if status == "any":
        return f"{wanted}{at_interval}: met at any value"
    if question.field == INTERVAL:
        return wanted
    return f"{wanted} {_every(asked.at({question.field: value}))}"


def _at_rates(asked: Asked, question: Question) -> str:
    """The rates of the file system at which an interval holds; only goodput depends on reading."""
    names = {"write": WRITE_RATE} | ({"read": READ_RATE} if question.target == GOODPUT else {})
    raised = {name: min_rate_text(question.beside[path]) for name, path in names.items() if path in question.beside}
    given = {name: rate_text(rate) for name, path in names.items() if (rate := asked.given(path)) is not None}
    parts = [f"{name} bandwidth {(given | raised)[name]}" for name in names if name in given | raised]
    return f" at {' and '.join(parts)}" if parts else ""


def joint_reason(asked: Asked, joint: JointQuestion, solution: Solution | None) -> str:
    """The same for rates that are raised together; where no storage is enough, what comes before or beside it."""
    wanted = _wanted(asked, joint.target)
    at_interval = f" {_every(asked.at({}))}" if joint.target in _AT_THE_INTERVAL else ""
    if solution is None:
        return f"{wanted}{at_interval}: {_obstacle(asked.with_values(asked.unlimited), joint.target)}"
    if solution.is_any:
        return f"{wanted}{at_interval}: met at any value"
    if joint.target != GOODPUT:
        return wanted if joint.direction == "read" else f"{wanted} {_every(asked.at(solution.values))}"
    other, path = ("read", READ_RATE) if joint.direction == "write" else ("write", WRITE_RATE)
    rate = solution.values.get(path, asked.given(path))
    beside = "" if rate is None else f" beside {min_rate_text(rate)} {other} bandwidth"
    return f"{wanted}{beside} {_every(asked.at(solution.values))}"


def _every(figures: RunReport) -> str:
    every = figures.interval.effective_interval_seconds or figures.interval.interval_seconds
    return f"with one checkpoint every {seconds_text(every)}"


def _wanted(asked: Asked, target: str) -> str:
    if target == DRAINED:
        return "drain before the next save"
    wanted = getattr(asked.inputs.targets, target)
    match target:
        case "max_stall_seconds":
            return f"max stall {seconds_text(wanted)}"
        case "max_overhead_fraction":
            return f"max overhead {percent_text(wanted)}"
        case "recovery_seconds":
            return f"max recovery (RTO) {seconds_text(wanted)}"
        case _:
            return f"min goodput (ETTR) {percent_text(wanted)}"


def _obstacle(asked: Asked, target: str, *, is_interval: bool = False) -> str:
    """What is left where the field is as good as can be, as `asked` has it."""
    figures = asked.at({})
    match target:
        case "min_goodput_fraction":
            return _obstacle_to_goodput(asked, is_interval, figures.interval.goodput_at_interval_fraction or 0.0)
        case "recovery_seconds":
            return _obstacle_to_recovery(asked, figures.restore)
    assert figures.write is not None  # noqa: S101  the stall was found
    if target == DRAINED:
        return _obstacle_to_draining(figures.write, figures.interval.effective_interval_seconds or 0.0)
    return _obstacle_to_saving(asked, figures, figures.write)


def _obstacle_to_draining(write: Write, effective_interval_seconds: float) -> str:
    takes = write.stall_seconds + write.drain_seconds
    if takes < effective_interval_seconds:
        return (
            f"not met at any value; the burst buffer allows one save every {seconds_text(effective_interval_seconds)}"
        )
    return f"not met at any value; a save still takes {seconds_text(takes)}, limited by {limit_text(write.bottleneck)}"


def _obstacle_to_saving(asked: Asked, figures: RunReport, write: Write) -> str:
    if asked.inputs.checkpoint.tiers:
        share = percent_text(figures.overhead.fraction or 0.0)
        max_stall = seconds_text(max(row.stall_seconds for row in figures.tiers))
        return f"not met at any value; overhead is still {share} and max stall {max_stall}, all tiers included"
    limit = _longest_wait(write) if asked.is_async else limit_text(write.bottleneck)
    assumed = planning_text(asked) if limit == "planning" else ""
    return f"not met at any value; the stall is still {seconds_text(write.stall_seconds)}, limited by {limit}{assumed}"


def _longest_wait(write: Write) -> str:
    """What an asynchronous save stalls for most."""
    return name_of_max(
        {
            "device-to-host": write.stalled_by_copy_seconds,
            "planning": write.stalled_by_planning_seconds,
            "staging": write.stalled_by_staging_seconds,
        }
    )


def _obstacle_to_goodput(asked: Asked, is_interval: bool, at_interval: float) -> str:
    if is_interval:
        less = goodput_with_less_text(asked, best_goodput_fraction)
        return f"not met at any interval; the best one has {percent_text(at_interval)}{less}"
    best = best_goodput_fraction(asked) or 0.0
    held = f", limited by {limit_text(NETWORK)}" if is_held_by_adapters(asked, GOODPUT) else ""
    return (
        f"not met at any value; goodput is still {percent_text(at_interval)} at this interval and {percent_text(best)} "
        f"at the best interval{held}{goodput_with_less_text(asked, best_goodput_fraction)}"
    )


def _obstacle_to_recovery(asked: Asked, restore: Restore) -> str:
    reliability, wanted = asked.inputs.reliability, asked.inputs.targets.recovery_seconds or 0.0
    before = float(seconds_before_reading(reliability))
    measured = reliability.restart_seconds if reliability else None
    if before >= wanted:
        return f"not met at any value; {before_reading_text(reliability, max_seconds=wanted)}"
    if measured is not None and measured > (restore.seconds or 0.0):
        return f"not met at any value; reliability.restart_seconds alone is {seconds_text(measured)}"
    reading = seconds_text(restore.seconds or 0.0)
    limit = limit_text(restore.bottleneck) if restore.bottleneck else "what comes before it"
    return f"not met at any value; the restore still takes {reading}, limited by {limit}"
