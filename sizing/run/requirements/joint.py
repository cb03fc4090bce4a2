"""The rates that together meet targets: all limits of a direction raised at once, and the interval if it must change.

Raising one limit alone meets no target where another is short too. So all limits of a direction get the rates that go
with one time (`storage.joint_rates`), and the longest time that meets the targets gives the min of each rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sizing.run.evaluation import RunReport
from sizing.run.requirements.asked import (
    DRAINED,
    INTERVAL,
    READ_RATE,
    WRITE_RATE,
    Asked,
    Solution,
    check_of,
    checks_of,
    interval_bounds,
    profile_path,
)
from sizing.run.requirements.best_interval import best_interval_seconds
from sizing.run.requirements.edge import last_that_meets
from sizing.run.targets import TargetCheck
from sizing.storage.joint_rates import JointRates
from sizing.storage.limits import Direction
from sizing.storage.rates import RateField
from sizing.storage.transfer import Numbers
from sizing.units import MAX_BYTES

GOODPUT = "min_goodput_fraction"
TARGETS_OF: dict[Direction, tuple[str, ...]] = {
    "write": ("max_stall_seconds", "max_overhead_fraction", DRAINED),
    "read": ("recovery_seconds",),
}
"""The targets that one direction alone decides; goodput depends on both."""

Values = dict[str, Numbers]
"""Fields of a scenario by their dotted paths."""

_FREED = (DRAINED,)
"""Not checked at a free interval, which is never shorter than a save takes to drain."""
_FILE_SYSTEM = (WRITE_RATE, READ_RATE)
_SECTIONS = 256
"""Of the bracket, in each round."""
_SEARCHED_SECTIONS = 16
"""Fewer where every one of them needs a search of its own for the best interval."""
_BELOW = 1 - 1e-12
"""Keeps the slowest rate at or above 1 B/s after rounding."""
ROUNDED_UP = 1 + 1e-12
"""So that stall / interval is not above the target by the last digit."""
_TINY = 1e-30
"""Where the tiers alone miss the target: an interval without end, but no division by 0."""


def all_targets(asked: Asked) -> tuple[str, ...]:
    """The targets that the scenario sets."""
    known = (*TARGETS_OF["write"], *TARGETS_OF["read"], GOODPUT)
    return tuple(target for target in known if asked.asks(target))


def joint_solution(asked: Asked, targets: tuple[str, ...], *, first: Direction = "write") -> Solution | None:
    """The min rates that together meet targets, or None where no storage does at any interval.

    At the interval asked for, else at the best one. For goodput the limits of direction `first` are raised alone where
    that is enough, else those of the other direction, else both by one factor.
    """
    bases = {direction: _base(asked, targets, direction) for direction in TARGETS_OF}
    if bases["read"] is None:
        return None
    if GOODPUT in targets:
        return _for_goodput(asked, targets, first)
    if bases["write"] is None:
        return _at_longer_interval(asked, targets, bases["read"])
    both = bases["write"].values | bases["read"].values
    return Solution(both, is_any=not both)


def is_held_by_adapters(asked: Asked, target: str) -> bool:
    """Whether storage could meet a target that none meets, if the adapters of the nodes carried more."""
    freed = asked.without_adapters
    return freed is not None and joint_solution(freed, (target,)) is not None


def values_for_all_targets(asked: Asked) -> tuple[dict[str, float], list[str]]:
    """The values that together meet the targets that the scenario sets, and the targets that no storage meets.

    Those are left out; no value where the others cannot be met together, or goodput is among those left out: the
    others are met direction by direction.
    """
    wanted = all_targets(asked)
    solution, beyond = solution_of_what_can_be_met(asked, wanted)
    return ({} if solution is None or GOODPUT in beyond else solution.values), beyond


def solution_of_what_can_be_met(asked: Asked, wanted: tuple[str, ...]) -> tuple[Solution | None, list[str]]:
    """The values that together meet targets, and those of the targets that no storage meets, which are left out."""
    if (solution := joint_solution(asked, wanted)) is not None:
        return solution, []
    beyond = [target for target in wanted if joint_solution(asked, (target,)) is None]
    others = tuple(target for target in wanted if target not in beyond)
    return (joint_solution(asked, others) if beyond and others else None), beyond


def free_interval_solution(asked: Asked, targets: tuple[str, ...], fixed: Solution) -> Solution:
    """A goodput target's solution where the interval may be chosen too: `fixed`, with no rate higher and some lower.

    Once for each direction the write rates are lowered alone, or the read rates, or both by one factor: what leaves the
    min total of the file system's rates. `fixed` where none can be lowered.
    """
    of = [name for name in TARGETS_OF if not fixed.values.keys().isdisjoint(_paths(asked.joint(name).unit_bytes))]
    directions: tuple[Direction | None, ...] = (*of, None) if len(of) > 1 else tuple(of)
    for _ in of:
        fixed = _lowered(asked, targets, fixed, directions)
    return fixed


def _lowered(
    asked: Asked, targets: tuple[str, ...], solution: Solution, directions: tuple[Direction | None, ...]
) -> Solution:
    rates = {path: rate for path, rate in solution.values.items() if path != INTERVAL}
    stages = _goodput_stages(asked.with_values(rates), targets, directions, is_free=True)
    found = (_none_higher(asked, targets, solution.values | stage.values, rates) for stage in stages)
    none_higher = (one for one in found if one is not None)
    return min((solution, *none_higher), key=lambda one: sum(one.values.get(path, 0.0) for path in _FILE_SYSTEM))


def _none_higher(
    asked: Asked, targets: tuple[str, ...], values: dict[str, float], rates: Mapping[str, float]
) -> Solution | None:
    """Values none of whose rates is higher than those, less what rounding has added; None where there are none."""
    if all(values[path] <= rate for path, rate in rates.items()):
        return Solution(values)
    cut = values | {path: min(values[path], rate) for path, rate in rates.items()}
    checked = tuple(target for target in targets if target not in _FREED)
    is_rounding = all(values[path] <= rate * ROUNDED_UP for path, rate in rates.items())
    return Solution(cut) if is_rounding and _met(checked, asked.checks_at(cut), 1)[0] else None


def _base(asked: Asked, targets: tuple[str, ...], direction: Direction) -> Solution | None:
    """The min rates for the targets that this direction alone decides; None where none is enough."""
    own = tuple(target for target in TARGETS_OF[direction] if target in targets)
    if not own:
        return Solution({}, is_any=True)
    if (own, direction) not in asked.bases:
        joint = asked.joint(direction)
        asked.bases[own, direction] = _slowest(
            asked, own, lambda seconds: _paths(joint.rates(seconds)), _bounds([(joint, 1.0)]), is_free=False
        )
    return asked.bases[own, direction]


def _for_goodput(asked: Asked, targets: tuple[str, ...], first: Direction) -> Solution | None:
    other: Direction = "read" if first == "write" else "write"
    order = (first, other, None)
    stages = (solution for is_free in (False, True) for solution in _goodput_stages(asked, targets, order, is_free))
    return next(stages, None)


def _goodput_stages(
    asked: Asked, targets: tuple[str, ...], order: tuple[Direction | None, ...], is_free: bool
) -> Iterator[Solution]:
    """What raising each direction alone, or both where `order` says None, finds."""
    checked = tuple(target for target in targets if not (is_free and target in _FREED))
    floors = {direction: _raised(asked, targets, direction, is_free=is_free) for direction in TARGETS_OF}
    for direction in order:
        if any(floor is None for floor in floors.values()):
            return
        found = _raising(asked, checked, {name: floor or {} for name, floor in floors.items()}, direction, is_free)
        if found is not None:
            yield found


def _raising(
    asked: Asked,
    targets: tuple[str, ...],
    floors: Mapping[Direction, Values],
    direction: Direction | None,
    is_free: bool,
) -> Solution | None:
    scales = _scales(asked, floors) if direction is None else {direction: 1.0}
    joints = {name: asked.joint(name) for name in scales}
    kept = {path: rate for name, floor in floors.items() if name not in scales for path, rate in floor.items()}

    def values(factor: Numbers) -> Values:
        raised = {
            path: rate
            for name, joint in joints.items()
            for path, rate in _paths(joint.rates(np.multiply(factor, scales[name]))).items()
        }
        return kept | raised

    bounds = _bounds([(joints[name], scale) for name, scale in scales.items()])
    return _slowest(asked, targets, values, bounds, is_free=is_free)


def _raised(asked: Asked, targets: tuple[str, ...], direction: Direction, *, is_free: bool) -> Values | None:
    """Rates as given, or as the targets of the direction need them where that is more; None where none is enough."""
    freed = (DRAINED, "max_overhead_fraction") if is_free else ()
    base = _base(asked, tuple(target for target in targets if target not in freed), direction)
    if base is None:
        return None
    most = _paths(asked.joint(direction).max_rates)
    return {path: np.minimum(max(rate, asked.given(path) or 0.0), most[path]) for path, rate in base.values.items()}


def _scales(asked: Asked, floors: Mapping[Direction, Values]) -> dict[Direction, float]:
    """The time of each direction at its rates as given; where there are none, at the other's file system rate."""
    seconds = {name: _seconds_as_given(asked, floors[name], name) for name in floors}
    known = {name: found for name, found in seconds.items() if found is not None}
    rates = [float(asked.joint(name).total_bytes) / found for name, found in known.items()]
    rate = rates[0] if rates else 1.0
    return {name: known.get(name, float(asked.joint(name).total_bytes) / rate) for name in floors}


def _seconds_as_given(asked: Asked, floor: Values, direction: Direction) -> float | None:
    unit_bytes = _paths(asked.joint(direction).unit_bytes)
    given = {path: floor.get(path, asked.given(path)) for path in unit_bytes}
    return max((float(unit_bytes[path] / rate) for path, rate in given.items() if rate is not None), default=None)


def _at_longer_interval(asked: Asked, targets: tuple[str, ...], read: Solution) -> Solution | None:
    """Where no rate is enough at the interval asked for: the rates as given and the min interval that goes with them.

    Where no write rate is given, those with which bytes take as long as all that comes beside them.
    """
    stall = _raised(asked, tuple(target for target in targets if target == "max_stall_seconds"), "write", is_free=False)
    if stall is None:
        return None
    joint = asked.joint("write")
    write = stall or _as_given(asked, joint) or _paths(joint.rates(np.maximum(_TINY, joint.serial_seconds)))
    own = tuple(target for target in targets if target in TARGETS_OF["write"])
    rates: Values = {path: float(rate) for path, rate in write.items()}

    def meets(intervals: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        return _met(own, asked.checks_at(rates | {INTERVAL: _plain(intervals)}), len(intervals))

    as_asked, longest = float(asked.inputs.checkpoint.interval_seconds), interval_bounds(asked)[1]
    if meets(np.array([as_asked]))[0]:  # tiers in front may take what no rate of the main storage gives
        return Solution(_floats(rates) | read.values)
    if not meets(np.array([longest]))[0]:
        return None
    interval = last_that_meets(meets, good=longest, bad=as_asked)
    return Solution(_floats(rates) | read.values | {INTERVAL: float(asked.whole_interval_seconds(interval))})


def _as_given(asked: Asked, joint: JointRates) -> Values:
    given = {path: asked.given(path) for path in _paths(joint.unit_bytes)}
    return {path: rate for path, rate in given.items() if rate is not None}


def _slowest(
    asked: Asked,
    targets: tuple[str, ...],
    values: Callable[[Numbers], Values],
    bounds: tuple[float, float],
    *,
    is_free: bool,
) -> Solution | None:
    """The slowest rates that meet targets: `values` slow down with the factor between the bounds."""

    def tried(factor: Numbers) -> Values:
        return at_best_interval(asked, values(factor))[0] if is_free else values(factor)

    def checks(factor: Numbers) -> list[TargetCheck]:
        given = values(factor)
        return checks_of(at_best_interval(asked, given)[1]) if is_free else asked.checks_at(given)

    def meets(factors: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        return _met(targets, checks(_plain(factors)), len(factors))

    fast, slow = bounds
    if not meets(np.array([fast]))[0]:
        return None
    if meets(np.array([slow]))[0]:
        return Solution({INTERVAL: float(tried(slow)[INTERVAL])} if is_free else {}, is_any=True)
    sections = _SEARCHED_SECTIONS if is_free and asked.inputs.checkpoint.tiers else _SECTIONS
    edge = last_that_meets(meets, good=fast, bad=slow, num_sections=sections)
    return Solution(_floats(tried(edge)))


def at_best_interval(asked: Asked, rates: Values) -> tuple[Values, RunReport]:
    """Rates with the interval of the max goodput, or the longer one that the overhead target needs."""
    figures = asked.at(rates)
    best = best_interval_seconds(asked, figures, rates)
    wanted = _whole(asked, np.maximum(best, min_interval_for_overhead_seconds(figures) * ROUNDED_UP))
    found = asked.at(rates | {INTERVAL: wanted})
    effective = found.interval.effective_interval_seconds
    every = _whole(asked, wanted if effective is None else effective)
    given = rates | {INTERVAL: every}
    return given, asked.at(given) if asked.inputs.checkpoint.front_tiers else found


def _whole(asked: Asked, seconds: Numbers) -> Numbers:
    """An interval within the bounds that goes with the tiers."""
    low, high = interval_bounds(asked)
    return np.minimum(asked.whole_interval_seconds(np.clip(seconds, low, high)), high)


def min_interval_for_overhead_seconds(figures: RunReport) -> Numbers:
    """The min interval for the overhead target: stall / (target - overhead of the tiers); no end where they miss.

    Source: definition of the overhead, `goodput.overhead.overhead_fraction`, solved for the interval.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized import sized
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> round(float(min_interval_for_overhead_seconds(Asked(sized(scenario).demands, scenario.run_inputs).at({}))))
    1011
    """
    if figures.write is None:
        return 0.0
    main = next((row for row in figures.tiers if row.kind == "storage"), None)
    others = sum((row.overhead_fraction for row in figures.tiers if row is not main), start=0.0)
    stall = figures.write.stall_seconds if main is None else main.stall_seconds
    needed: Numbers = np.divide(stall, np.maximum(_TINY, figures.overhead.max_overhead_fraction - others))
    return needed


def _met(targets: tuple[str, ...], checks: Sequence[TargetCheck], num_rows: int) -> npt.NDArray[np.bool_]:
    """Whether all of the targets are met; one of which nothing is known is not."""
    met = np.ones(num_rows, dtype=bool)
    for target in targets:
        check = check_of(target, checks)
        met &= np.equal(np.asarray(check.met if check else None, dtype=np.float64), 1.0)
    return met


def _bounds(scaled: list[tuple[JointRates, float]]) -> tuple[float, float]:
    """Factors from which every file system rate is at most the highest that a scenario takes, and every rate 1 B/s."""
    fast = max(float(joint.total_bytes) / (MAX_BYTES * scale) for joint, scale in scaled)
    slow = _BELOW * min(float(size) / scale for joint, scale in scaled for size in joint.unit_bytes.values())
    return fast, slow


def _paths(rates: Mapping[RateField, Numbers]) -> Values:
    return {profile_path(field): rate for field, rate in rates.items()}


def _plain(values: npt.NDArray[np.float64]) -> Numbers:
    return values if len(values) > 1 else float(values[0])


def _floats(values: Values) -> dict[str, float]:
    return {path: float(value) for path, value in values.items()}
