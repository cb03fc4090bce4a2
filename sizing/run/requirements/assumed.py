"""What takes too long whatever the storage, with the parts of it that nobody stated and how short those may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from sizing.provenance import defaults_used
from sizing.ranges import plausible_range
from sizing.run.evaluation import run_assumptions
from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.requirements.asked import Asked
from sizing.run.stall import PLANNING
from sizing.units import figure_text, percent_text, seconds_text

_FIELDS = {"detection": "reliability.detection_seconds", "relaunch": "reliability.relaunch_seconds"}


def before_reading_text(reliability: Reliability | None, *, max_seconds: float) -> str:
    """What comes before a restore alone takes, and whether its assumed parts may be so short that storage matters.

    >>> short = Reliability(mtbf_seconds=3600, relaunch_seconds=300)
    >>> before_reading_text(short, max_seconds=480).partition(" and ")[0]
    'detection (assumed 5.0 min, may be 0 s to 10.0 min)'
    >>> before_reading_text(short, max_seconds=480).partition(" and ")[2]
    'relaunch alone take 10.0 min, but 5.0 min with detection 0 s'
    >>> before_reading_text(Reliability(mtbf_seconds=3600, detection_seconds=60, restart_seconds=300), max_seconds=30)
    'detection alone takes 60.00 s'
    """
    assumed = _assumed_before_reading(reliability)
    names = ["detection"] if reliability and reliability.restart_seconds is not None else ["detection", "relaunch"]
    parts = [f"{name}{range_text(_FIELDS[name], assumed[name]) if name in assumed else ''}" for name in names]
    taken = float(seconds_before_reading(reliability))
    text = f"{' and '.join(parts)} alone {'take' if len(parts) > 1 else 'takes'} {seconds_text(taken)}"
    low = {name: plausible_range(_FIELDS[name]).ends(value)[0] for name, value in assumed.items()}
    shortest = taken - sum(assumed[name] - low[name] for name in low)
    if shortest >= max_seconds:
        return text
    ends = " and ".join(f"{name} {seconds_text(seconds)}" for name, seconds in low.items())
    return f"{text}, but {seconds_text(shortest)} with {ends}"


def goodput_with_less_text(asked: Asked, goodput_of: Callable[[Asked], float | None]) -> str:
    """The goodput at the lower ends of assumed detection and relaunch, behind that as assumed; empty without any.

    `goodput_of` gives that goodput, of a run with other times.
    """
    reliability = asked.inputs.reliability
    assumed = _assumed_before_reading(reliability)
    if reliability is None or not assumed:
        return ""
    low = {name: plausible_range(_FIELDS[name]).ends(value)[0] for name, value in assumed.items()}
    shorter = reliability.model_copy(update={f"{name}_seconds": seconds for name, seconds in low.items()})
    reached = goodput_of(replace(asked, inputs=replace(asked.inputs, reliability=shorter)))
    if reached is None:
        return ""
    ends = (f"{name} {seconds_text(low[name])} (assumed {seconds_text(assumed[name])})" for name in low)
    return f", and {percent_text(reached)} with {' and '.join(ends)}"


def range_text(field: str, value: float, *, per: str = "") -> str:
    """What was assumed of a field, and from where to where it may lie; `per` says of what it is counted.

    >>> range_text("reliability.detection_seconds", 300.0)
    ' (assumed 5.0 min, may be 0 s to 10.0 min)'
    """
    low, high = (figure_text(field, end) for end in plausible_range(field).ends(value))
    return f" (assumed {figure_text(field, value)}{per}, may be {low} to {high})"


def planning_text(asked: Asked) -> str:
    """The range of the planning of a save where nobody stated it; empty where somebody did or nothing is planned."""
    return next((range_text(PLANNING, value, per=" per rank") for value in _assumed_planning(asked)), "")


def with_least_planning(asked: Asked) -> Asked | None:
    """The same at the lower end of an assumed planning; None where it is not assumed."""
    lows = (plausible_range(PLANNING).ends(value)[0] for value in _assumed_planning(asked))
    return next((asked.with_values({PLANNING: low}) for low in lows), None)


def _assumed_before_reading(reliability: Reliability | None) -> dict[str, float]:
    """Detection and relaunch in seconds, where nobody stated them."""
    used = defaults_used(reliability, "reliability.") if reliability else ()
    values = {each.field: each.value for each in used}
    return {name: value for name, field in _FIELDS.items() if isinstance(value := values.get(field), float)}


def _assumed_planning(asked: Asked) -> Iterator[float]:
    for each in run_assumptions(asked.demands, asked.inputs):
        if each.field == PLANNING and isinstance(each.value, float):
            yield each.value
