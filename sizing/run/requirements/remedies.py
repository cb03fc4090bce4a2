"""What would meet the targets that are missed, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sizing.run.evaluation import RunReport
from sizing.run.failures import seconds_before_reading
from sizing.run.requirements.asked import COPY_RATE, INTERVAL, READ_RATE, WRITE_RATE, Asked, interval_bounds
from sizing.run.requirements.assumed import (
    before_reading_text,
    goodput_with_less_text,
    planning_text,
    with_least_planning,
)
from sizing.run.requirements.best_interval import best_goodput_fraction
from sizing.run.requirements.edge import last_that_meets
from sizing.run.requirements.joint import (
    GOODPUT,
    ROUNDED_UP,
    is_held_by_adapters,
    joint_solution,
    min_interval_for_overhead_seconds,
)
from sizing.run.saving import saving_of
from sizing.run.stall import PLANNING
from sizing.run.targets import TargetCheck, check_targets
from sizing.storage.limits import limit_text
from sizing.units import MAX_BYTES, figure_text, min_rate_text, min_seconds_text, percent_text, seconds_text

_NAMES = {WRITE_RATE: "min write bandwidth", READ_RATE: "min read bandwidth", COPY_RATE: "min GPU-to-host bandwidth"}
_ADAPTERS = "no storage meets it at any interval: the adapters of the nodes are too slow (cluster.storage_nics)"
_NO_STORAGE = "no storage meets it at any interval: "
_NO_SINGLE_VALUE = "no bandwidth alone and no interval that the tiers allow meets it"
_OF_SAVES = ("max_stall_seconds", "max_overhead_fraction")


def with_remedies(
    checks: Sequence[TargetCheck], asked: Asked, figures: RunReport, *, given: Collection[str]
) -> list[TargetCheck]:
    """The checks, the missed ones with what would meet each of them alone.

    To solve takes a hundred times as long as to answer. So a default that is missed, of overhead, gets the values that
    the `figures` of the answer have in closed form, and only targets that are `given` are solved for.
    """
    return [
        check
        if check.met is not False
        else check.model_copy(
            update={"remedy": _remedy(asked, check.target) if check.target in given else _of_overhead(asked, figures)}
        )
        for check in checks
    ]


def _of_overhead(asked: Asked, figures: RunReport) -> str:
    """What meets the max overhead: a rate or an interval alone, each tried; the rate of the copy is another one."""
    required = figures.required
    interval = float(asked.whole_interval_seconds(min_interval_for_overhead_seconds(figures) * ROUNDED_UP))
    ways: list[dict[str, float | None]] = [
        {WRITE_RATE: required.write_bytes_per_second},
        {COPY_RATE: required.device_to_host_bytes_per_second},
        {INTERVAL: interval if interval <= interval_bounds(asked)[1] else None},
    ]
    known = [{field: value for field, value in way.items() if value is not None} for way in ways]
    meeting = [rates_text(way) for way in known if way and _meets_overhead(asked.with_values(way))]
    return f"{', or '.join(meeting)} would meet it" if meeting else _NO_SINGLE_VALUE


def _meets_overhead(asked: Asked) -> bool:
    inputs = asked.inputs
    saving = saving_of(
        asked.demands, checkpoint=inputs.checkpoint, profile=inputs.profile, reliability=inputs.reliability
    )
    checks = check_targets(inputs.targets, saving.of_targets)
    return all(check.met is True for check in checks if check.target == "max_overhead_fraction")


def rates_text(values: Mapping[str, float]) -> str:
    """Rates of a joint solution, and the interval that goes with them."""
    parts = [f"{_name(field)} {_figure(field, value)}" for field, value in sorted(values.items(), key=_order)]
    return " and ".join(parts)


def _remedy(asked: Asked, target: str) -> str:
    is_stall = asked.is_async and target in _OF_SAVES
    if is_stall and not asked.waits_for_room:
        return _copy_remedy(asked, target)
    wanted, reliability = asked.inputs.targets.recovery_seconds or 0.0, asked.inputs.reliability
    if target == "recovery_seconds" and seconds_before_reading(reliability) >= wanted:
        return f"no storage meets it: {before_reading_text(reliability, max_seconds=wanted)}"
    solution = joint_solution(asked, (target,))
    if solution is None or not solution.values:
        if is_held_by_adapters(asked, target):
            return _ADAPTERS
        return _copy_remedy(asked, target) if is_stall else _NO_STORAGE + _what_is_left(asked, target)
    return f"{rates_text(_raised(asked, solution.values))} would meet it"


def _raised(asked: Asked, values: Mapping[str, float]) -> Mapping[str, float]:
    """Of rates that together meet a target, those that the scenario does not give already."""
    return {
        field: value
        for field, value in values.items()
        if field == INTERVAL or (given := asked.given(field)) is None or value > given
    }


def _what_is_left(asked: Asked, target: str) -> str:
    """What takes too long where storage takes no time."""
    best = asked.with_values(asked.unlimited)
    if target == GOODPUT:
        reached = percent_text(best_goodput_fraction(best) or 0.0)
        return f"unlimited bandwidth reaches {reached}{goodput_with_less_text(best, best_goodput_fraction)}"
    write = best.at({}).write
    if write is None or target not in _OF_SAVES:
        return "other steps take too long"
    assumed = planning_text(asked) if write.bottleneck == "planning" else ""
    taken = seconds_text(write.stall_seconds)
    return f"{limit_text(write.bottleneck)}{assumed} alone takes {taken}{_with_least_planning(asked, target)}"


def _with_least_planning(asked: Asked, target: str) -> str:
    """What would meet a target if plans took as short as they may; empty where that is not so, or nobody assumed."""
    least = with_least_planning(asked)
    solution = joint_solution(least, (target,)) if least else None
    if least is None or solution is None:
        return ""
    low = figure_text(PLANNING, float(least.given(PLANNING) or 0.0))
    rates = rates_text(_raised(least, solution.values)) or "the rates given"
    return f"; with planning {low} per rank, {rates} would meet it"


def _copy_remedy(asked: Asked, target: str) -> str:
    """Where the share fits host memory, no write rate shortens the stall of an asynchronous save."""
    most = float(MAX_BYTES)

    def meets(rates: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        check = asked.check(target, {COPY_RATE: rates if len(rates) > 1 else float(rates[0])})
        return np.atleast_1d(np.asarray(check.met if check else False))

    if not meets(np.array([most]))[0]:
        planning = planning_text(asked)
        beside = f", planning{planning} included," if planning else ""
        return f"no rate of the copy from GPU to host meets it: what comes beside the copy{beside} stalls for longer"
    return f"{rates_text({COPY_RATE: last_that_meets(meets, good=most, bad=1.0)})} would meet it"


def _name(field: str) -> str:
    if field in _NAMES:
        return _NAMES[field]
    if field == INTERVAL:
        return "one checkpoint every"
    unit = "per node" if "node_" in field else "per writer"
    direction = "write" if "write_bytes" in field else "read"
    return f"{direction} bandwidth {unit}"


def _figure(field: str, value: float) -> str:
    return min_seconds_text(value) if field == INTERVAL else min_rate_text(value)


def _order(item: tuple[str, float]) -> tuple[bool, bool]:
    """The file system first, the interval last."""
    return item[0] == INTERVAL, item[0] not in _NAMES
