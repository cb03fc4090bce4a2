"""What would meet the targets that are missed, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sizing.run.failures import seconds_before_reading
from sizing.run.requirements.asked import COPY_RATE, INTERVAL, READ_RATE, WRITE_RATE, Asked
from sizing.run.requirements.best_interval import best_goodput_fraction
from sizing.run.requirements.edge import last_that_meets
from sizing.run.requirements.joint import GOODPUT, is_held_by_adapters, joint_solution
from sizing.run.targets import TargetCheck
from sizing.storage.limits import limit_text
from sizing.units import MAX_BYTES, percent_text, rate_text, seconds_text

_NAMES = {WRITE_RATE: "min write bandwidth", READ_RATE: "min read bandwidth"}
_ADAPTERS = "no storage meets it at any interval: the adapters of the nodes are too slow (cluster.storage_nics)"
_NO_STORAGE = "no storage meets it at any interval: "
_OF_SAVES = ("max_stall_seconds", "max_overhead_fraction")


def with_remedies(checks: Sequence[TargetCheck], asked: Asked, *, given: Collection[str]) -> list[TargetCheck]:
    """The checks; the missed ones of the targets that are `given` with what would meet each of them alone.

    To solve takes a hundred times as long as to answer, so a default that is missed gets no remedy.
    """
    return [
        check.model_copy(update={"remedy": _remedy(asked, check.target)})
        if check.met is False and check.target in given
        else check
        for check in checks
    ]


def rates_text(values: Mapping[str, float]) -> str:
    """Rates of a joint solution, and the interval that goes with them."""
    parts = [f"{_name(field)} {_figure(field, value)}" for field, value in sorted(values.items(), key=_order)]
    return " and ".join(parts)


def _remedy(asked: Asked, target: str) -> str:
    is_stall = asked.is_async and target in _OF_SAVES
    if is_stall and not asked.waits_for_room:
        return _copy_remedy(asked, target)
    before = seconds_before_reading(asked.inputs.reliability)
    if target == "recovery_seconds" and before >= (asked.inputs.targets.recovery_seconds or 0.0):
        return f"no storage meets it: detection and relaunch alone take {seconds_text(float(before))}"
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
        return f"unlimited bandwidth reaches {percent_text(best_goodput_fraction(best) or 0.0)}"
    write = best.at({}).write
    if write is None or target not in _OF_SAVES:
        return "other steps take too long"
    return f"{limit_text(write.bottleneck)} alone takes {seconds_text(write.stall_seconds)}"


def _copy_remedy(asked: Asked, target: str) -> str:
    """Where the share fits host memory, no write rate shortens the stall of an asynchronous save."""
    most = float(MAX_BYTES)

    def meets(rates: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        check = asked.check(target, {COPY_RATE: rates if len(rates) > 1 else float(rates[0])})
        return np.atleast_1d(np.asarray(check.met if check else False))

    if not meets(np.array([most]))[0]:
        return "no rate of the copy from GPU to host meets it: what comes beside the copy stalls for longer"
    return f"min GPU-to-host bandwidth {rate_text(last_that_meets(meets, good=most, bad=1.0))} would meet it"


def _name(field: str) -> str:
    if field in _NAMES:
        return _NAMES[field]
    if field == INTERVAL:
        return "one checkpoint every"
    unit = "per node" if "node_" in field else "per writer"
    direction = "write" if "write_bytes" in field else "read"
    return f"{direction} bandwidth {unit}"


def _figure(field: str, value: float) -> str:
    return seconds_text(value) if field == INTERVAL else rate_text(value)


def _order(item: tuple[str, float]) -> tuple[bool, bool]:
    """The file system first, the interval last."""
    return item[0] == INTERVAL, item[0] not in _NAMES
