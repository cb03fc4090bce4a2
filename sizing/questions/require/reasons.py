"""Sentences that say why a requirement has its value, or why no value meets the target."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sizing.questions.require.report import Status
from sizing.questions.require.searches import FieldSearch, JointSearch
from sizing.run.checkpoint import ARCHIVE, MAIN
from sizing.run.evaluation import RunReport
from sizing.run.interval import every_text
from sizing.run.remedies import (
    NOT_AS_ASKED,
    beyond_reading_text,
    export_to_wait_for,
    goodput_with_less_text,
    planning_text,
    process_text,
    with_cached_plans_text,
)
from sizing.run.request import (
    COPY_RATE,
    DRAINED,
    INTERVAL,
    READ_RATE,
    WRITE_RATE,
    RunRequest,
    Solution,
    best_goodput_fraction,
)
from sizing.run.restore import Restore
from sizing.run.solver import GOODPUT, is_held_by_adapters
from sizing.run.write import Write
from sizing.storage.limits import NETWORK, limit_text, name_of_max
from sizing.units import min_rate_text, percent_text, rate_text, seconds_text

_AT_THE_INTERVAL = ("max_stall_seconds", "max_overhead_fraction", DRAINED)
"""Targets of saves: requirements for them hold at the interval asked for."""


def explain_field(run: RunRequest, search: FieldSearch, status: Status, value: float | None) -> str:
    """Name the target that needs the value of a field; where no value is enough, say what prevents it."""
    wanted = _name_target(run, search.target)
    at_interval = ""
    if search.field == INTERVAL:
        wanted += _name_rates(run, search)
    elif search.target in _AT_THE_INTERVAL:
        at_interval = f" {_say_how_often(run, {}, search.field)}"
    if status == "none":
        best = run.with_values({**search.beside, search.field: search.best})
        obstacle = _explain_obstacle(best, search.target, is_interval=search.field == INTERVAL)
        otherwise = with_cached_plans_text(run, search.target) if search.field == COPY_RATE else ""
        return f"{wanted}{at_interval}: {obstacle}{otherwise}"
    if status == "any":
        return f"{wanted}{at_interval}: met at any value"
    if search.field == INTERVAL:
        return wanted
    return f"{wanted} {_say_how_often(run, {search.field: value}, search.field)}"


def _name_rates(run: RunRequest, search: FieldSearch) -> str:
    """Name the rates of the file system at which an interval holds; only goodput depends on reading."""
    names = {"write": WRITE_RATE} | ({"read": READ_RATE} if search.target == GOODPUT else {})
    raised = {name: min_rate_text(search.beside[path]) for name, path in names.items() if path in search.beside}
    given = {name: rate_text(rate) for name, path in names.items() if (rate := run.given(path)) is not None}
    parts = [f"{name} bandwidth {(given | raised)[name]}" for name in names if name in given | raised]
    return f" at {' and '.join(parts)}" if parts else ""


def explain_rates(run: RunRequest, joint: JointSearch, solution: Solution | None) -> str:
    """Name the target that needs rates together; where no storage is enough, say what prevents it."""
    wanted = _name_target(run, joint.target)
    with_it = solution.values if solution else {}
    at_interval = f" {_say_how_often(run, with_it)}" if joint.target in _AT_THE_INTERVAL else ""
    if solution is None:
        obstacle = _explain_obstacle(run.with_values(run.unlimited), joint.target)
        return f"{wanted}{at_interval}: {obstacle}{with_cached_plans_text(run, joint.target)}"
    if solution.is_any:
        return f"{wanted}{at_interval}: met at any value"
    if joint.target != GOODPUT:
        return wanted if joint.direction == "read" else f"{wanted} {_say_how_often(run, solution.values)}"
    other, path = ("read", READ_RATE) if joint.direction == "write" else ("write", WRITE_RATE)
    rate = solution.values.get(path, run.given(path))
    beside = "" if rate is None else f" beside {min_rate_text(rate)} {other} bandwidth"
    return f"{wanted}{beside} {_say_how_often(run, solution.values)}"


def _say_how_often(run: RunRequest, values: Mapping[str, float | None], field: str = "") -> str:
    """Say how often a checkpoint is saved with some values, and why that is not as often as the run asks for.

    For the copy rate of GPUs, to the first tier in front of the storage.
    """
    figures = run.at(values)
    first = figures.tiers[0] if figures.tiers and field == COPY_RATE else None
    if first is not None and first.kind not in (MAIN, ARCHIVE):
        return f"with one save to the {first.kind} tier every {seconds_text(first.effective_interval_seconds)}"
    asked = run.inputs.checkpoint.interval_seconds
    is_another = not math.isclose(figures.interval.interval_seconds, asked, rel_tol=1e-9)
    return f"with one checkpoint every {every_text(figures.interval)}{NOT_AS_ASKED if is_another else ''}"


def _name_target(run: RunRequest, target: str) -> str:
    if target == DRAINED:
        return "drain before the next save"
    wanted = getattr(run.inputs.targets, target)
    match target:
        case "max_stall_seconds":
            return f"max stall {seconds_text(wanted)}"
        case "max_overhead_fraction":
            return f"max overhead {percent_text(wanted)}"
        case "recovery_seconds":
            return f"max recovery (RTO) {seconds_text(wanted)}"
        case _:
            return f"min goodput (ETTR) {percent_text(wanted)}"


def _explain_obstacle(run: RunRequest, target: str, *, is_interval: bool = False) -> str:
    """Say what still prevents a target in a run whose fields are as good as they can be."""
    figures = run.at({})
    match target:
        case "min_goodput_fraction":
            return _explain_obstacle_to_goodput(run, is_interval, figures.interval.goodput_at_interval_fraction or 0.0)
        case "recovery_seconds":
            return _explain_obstacle_to_recovery(run, figures.restore)
    assert figures.write is not None  # noqa: S101  the stall was found
    if target == DRAINED:
        return _explain_obstacle_to_draining(figures.write, figures.interval.effective_interval_seconds or 0.0)
    return _explain_obstacle_to_saving(run, figures, figures.write)


def _explain_obstacle_to_draining(write: Write, effective_interval_seconds: float) -> str:
    takes = write.stall_seconds + write.drain_seconds
    if takes < effective_interval_seconds:
        return (
            f"not met at any value; the burst buffer allows one save every {seconds_text(effective_interval_seconds)}"
        )
    return f"not met at any value; a save still takes {seconds_text(takes)}, limited by {limit_text(write.bottleneck)}"


def _explain_obstacle_to_saving(run: RunRequest, figures: RunReport, write: Write) -> str:
    if run.inputs.checkpoint.tiers:
        share = percent_text(figures.overhead.fraction or 0.0)
        max_stall = seconds_text(sum(row.stall_seconds for row in figures.tiers))
        return f"not met at any value; overhead is still {share} and max stall {max_stall}, all tiers included"
    waits = {
        "device-to-host": write.stalled_by_copy_seconds,
        "planning": write.stalled_by_planning_seconds,
        "staging": write.stalled_by_staging_seconds,
    }
    limit = name_of_max(waits) if run.is_async else limit_text(write.bottleneck)
    assumed = planning_text(run) if limit == "planning" else ""
    export = export_to_wait_for(figures)
    if export is not None:
        limit, assumed = "the export", process_text(run)
    stall = write.stall_seconds + ((figures.export.stall_seconds or 0.0) if figures.export else 0.0)
    return f"not met at any value; the stall is still {seconds_text(stall)}, limited by {limit}{assumed}"


def _explain_obstacle_to_goodput(run: RunRequest, is_interval: bool, at_interval: float) -> str:
    if is_interval:
        less = goodput_with_less_text(run, best_goodput_fraction)
        return f"not met at any interval; the best one has {percent_text(at_interval)}{less}"
    best = best_goodput_fraction(run) or 0.0
    held = f", limited by {limit_text(NETWORK)}" if is_held_by_adapters(run, GOODPUT) else ""
    return (
        f"not met at any value; goodput is still {percent_text(at_interval)} at this interval and {percent_text(best)} "
        f"at the best interval{held}{goodput_with_less_text(run, best_goodput_fraction)}"
    )


def _explain_obstacle_to_recovery(run: RunRequest, restore: Restore) -> str:
    reliability = run.inputs.reliability
    measured = reliability.restart_seconds if reliability else None
    if beyond := beyond_reading_text(run):
        return f"not met at any value; {beyond}"
    if measured is not None and measured > (restore.seconds or 0.0):
        return f"not met at any value; reliability.restart_seconds alone is {seconds_text(measured)}"
    reading = seconds_text(restore.seconds or 0.0)
    limit = limit_text(restore.bottleneck) if restore.bottleneck else "what comes before it"
    return f"not met at any value; the restore still takes {reading}, limited by {limit}"
