"""The rates that together meet targets: all limits of a direction raised at once, and the interval if it must change.

Raising one limit alone meets no target where another is short too. So all limits of a direction get the rates that go
with one time (`storage.joint_rates`), and the longest time that meets the targets gives the min of each rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt

from sizing.run.levels import overhead_of_levels_fraction
from sizing.run.request import (
    DRAINED,
    EDGE_SECTIONS,
    INTERVAL,
    READ_RATE,
    WRITE_RATE,
    RunRequest,
    Solution,
    best_interval_seconds,
    check_of,
    interval_bounds,
    last_that_meets,
    profile_path,
)
from sizing.run.targets import TargetCheck
from sizing.run.timing import Timing
from sizing.storage.joint_rates import JointRates
from sizing.storage.limits import Direction
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

_SEARCHED_SECTIONS = 16
"""Fewer where every one of them needs a search of its own for the best interval."""
_BELOW = 1 - 1e-12
"""Keeps the slowest rate at or above 1 B/s after rounding."""
ROUNDED_UP = 1 + 1e-12
"""So that stall / interval is not above the target by the last digit."""
_TINY = 1e-30
"""Where the tiers alone miss the target: an interval without end, but no division by 0."""


def all_targets(request: RunRequest) -> tuple[str, ...]:
    """The targets that the scenario sets."""
    known = (*TARGETS_OF["write"], *TARGETS_OF["read"], GOODPUT)
    return tuple(target for target in known if request.asks(target))


def known_targets(request: RunRequest) -> tuple[str, ...]:
    """The targets of which something is known where no rate limits: goodput is not without failures."""
    return tuple(target for target in all_targets(request) if request.check(target, request.unlimited) is not None)


def joint_solution(request: RunRequest, targets: tuple[str, ...], *, first: Direction | None = None) -> Solution | None:
    """The min rates that together meet targets, or None where no storage does at any interval.

    At the interval asked for, else at the best one. For goodput the limits of direction `first` are raised alone where
    that is enough, else those of the other direction, else both by one factor. Without `first` all of these ways are
    tried, from the rates that targets of one direction need, or from those as given where these lead to none and where
    the interval is free. The one with the min total of the file system's rates is taken.
    """
    bases = {direction: _solve_direction(request, targets, direction) for direction in TARGETS_OF}
    if bases["read"] is None:
        return None
    if GOODPUT in targets:
        order: tuple[Direction | None, ...] = (first or "write", "read" if first != "read" else "write", None)
        needed = {path: rate for base in bases.values() if base is not None for path, rate in base.values.items()}
        given = request.given(READ_RATE)
        if READ_RATE not in needed and WRITE_RATE in needed and given is not None:  # reads no faster than writes
            needed[READ_RATE] = min(given, needed[WRITE_RATE])
        for is_free in (False, True):
            stages = _goodput_stages(request, targets, order, is_free)
            if first is None:
                lower = list(_goodput_stages(request.with_values(needed), targets, order, is_free)) if needed else []
                stages = chain(lower, stages if is_free or not lower else ())
            solution = next(stages, None) if first else min(stages, key=request.total_of_file_system, default=None)
            if solution is not None:
                return solution
        return None
    if bases["write"] is None:
        longer = _at_longer_interval(request, targets, bases["read"])
        return longer and _with_reads_of_exports(request, targets, longer, bases["read"])
    both = bases["write"].values | bases["read"].values
    return _with_reads_of_exports(request, targets, Solution(both, is_any=not both), bases["read"])


def _with_reads_of_exports(
    request: RunRequest, targets: tuple[str, ...], solution: Solution, read: Solution
) -> Solution:
    """The solution with read rates that are also enough for the exports that training waits for.

    Its write rates were solved for beside the read rates as given, which `read` may lower further than exports allow.
    Where none are given, they left the reading of exports out: then both directions are raised by one factor.
    """
    export = request.at(solution.values).export
    is_left_out = export is not None and export.stall_seconds is None
    if not is_left_out and (not read.values or _meets_all(targets, request.checks_at(solution.values), 1).all()):
        return solution
    at_most = {path: max(rate, request.given(path) or 0.0) for path, rate in read.values.items()}
    others = {path: value for path, value in solution.values.items() if path not in read.values}
    lowered = None if is_left_out else min_rates_below(request.with_values(others), targets, "read", at_most)
    if lowered is None and INTERVAL not in solution.values:
        of_saves = tuple(target for target in targets if target not in TARGETS_OF["read"])
        both = next(_goodput_stages(request, of_saves, (None,), is_free=False), solution)
        raised = {path: max(rate, both.values.get(path, 0.0)) for path, rate in at_most.items()}
        return replace(both, values=both.values | raised)
    return replace(solution, values=solution.values | (lowered.values if lowered else at_most))


def is_held_by_adapters(request: RunRequest, target: str) -> bool:
    """Whether storage could meet a target that none meets, if the adapters of the nodes carried more."""
    freed = request.without_adapters
    return freed is not None and joint_solution(freed, (target,)) is not None


def values_for_all_targets(request: RunRequest) -> tuple[dict[str, float], list[str]]:
    """The values that together meet the targets that the scenario sets, and the targets that no storage meets.

    Those are left out; no value where the others cannot be met together, or goodput is among those left out: the
    others are met direction by direction. Neither where goodput is not known.
    """
    wanted = known_targets(request)
    if GOODPUT not in wanted:
        return {}, []
    solution, beyond = solution_of_what_can_be_met(request, wanted)
    return ({} if solution is None or GOODPUT in beyond else solution.values), beyond


def solution_of_what_can_be_met(request: RunRequest, wanted: tuple[str, ...]) -> tuple[Solution | None, list[str]]:
    """The values that together meet targets, and those of the targets that no storage meets, which are left out."""
    if (solution := joint_solution(request, wanted)) is not None:
        return solution, []
    beyond = [target for target in wanted if joint_solution(request, (target,)) is None]
    others = tuple(target for target in wanted if target not in beyond)
    return (joint_solution(request, others) if beyond and others else None), beyond


def free_interval_solution(request: RunRequest, targets: tuple[str, ...], fixed: Solution) -> Solution:
    """A goodput target's solution where the interval may be chosen too: `fixed`, with no rate higher and some lower.

    Once for each direction the write rates are lowered alone, or the read rates, or both by one factor: what leaves the
    min total of the file system's rates. `fixed` where none can be lowered.
    """
    own = [name for name in TARGETS_OF if not fixed.values.keys().isdisjoint(request.rate_paths(name))]
    directions: tuple[Direction | None, ...] = (*own, None) if len(own) > 1 else tuple(own)
    best = fixed
    for _ in own:
        rates = {path: rate for path, rate in best.values.items() if path != INTERVAL}
        candidates = [best]
        for stage in _goodput_stages(request.with_values(rates), targets, directions, is_free=True):
            capped = _cap_rates(request, targets, best.values | stage.values, rates)
            if capped is not None:
                candidates.append(capped)
        best = min(candidates, key=request.total_of_file_system)
    return best


def _cap_rates(
    request: RunRequest, targets: tuple[str, ...], values: dict[str, float], rates: Mapping[str, float]
) -> Solution | None:
    """The values, less what rounding has added to rates; None where a rate is higher than in `rates` by more."""
    if all(values[path] <= rate for path, rate in rates.items()):
        return Solution(values)
    capped = values | {path: min(values[path], rate) for path, rate in rates.items()}
    checked = tuple(target for target in targets if target not in _FREED)
    is_rounding = all(values[path] <= rate * ROUNDED_UP for path, rate in rates.items())
    return Solution(capped) if is_rounding and _meets_all(checked, request.checks_at(capped), 1)[0] else None


def _solve_direction(request: RunRequest, targets: tuple[str, ...], direction: Direction) -> Solution | None:
    """The min rates for the targets that this direction alone decides; None where none is enough."""
    own = tuple(target for target in TARGETS_OF[direction] if target in targets)
    if not own:
        return Solution({}, is_any=True)
    if (own, direction) not in request.bases:
        solutions = (_slow_down(request, own, joint, at_most={}) for joint in request.joints(direction))
        request.bases[own, direction] = next(filter(None, solutions), None)
    return request.bases[own, direction]


def _goodput_stages(
    request: RunRequest, targets: tuple[str, ...], order: tuple[Direction | None, ...], is_free: bool
) -> Iterator[Solution]:
    """Solutions that raise one direction alone, or both by one factor where `order` says None, as far as there are."""
    checked = tuple(target for target in targets if not (is_free and target in _FREED))
    floors: dict[Direction, Values] = {}
    for name in TARGETS_OF:
        floor = _raise_rates(request, targets, name, is_free=is_free)
        if floor is None:
            return
        floors[name] = floor
    for direction in order:
        solution = _raise_direction(request, checked, floors, direction, is_free)
        if solution is not None:
            yield solution


def _raise_direction(
    request: RunRequest,
    targets: tuple[str, ...],
    floors: Mapping[Direction, Values],
    direction: Direction | None,
    is_free: bool,
) -> Solution | None:
    """The min rates that meet targets if one direction is raised, or both where it is None; the others are `floors`."""
    scales = _times_as_given(request, floors) if direction is None else {direction: 1.0}
    kept = {path: rate for name, floor in floors.items() if name not in scales for path, rate in floor.items()}
    alternatives = [{name: request.joint(name) for name in scales}]
    if direction is not None:
        alternatives = [{direction: joint} for joint in request.joints(direction)]

    def solve_along(joints: Mapping[Direction, JointRates]) -> Solution | None:
        def values(factor: Numbers) -> Values:
            raised = {
                path: rate
                for name, joint in joints.items()
                for path, rate in _by_path(joint, joint.rates(np.multiply(factor, scales[name]))).items()
            }
            return kept | raised

        bounds = _bounds([(joints[name], scale) for name, scale in scales.items()])
        return _solve_slowest(request, targets, values, bounds, is_free=is_free)

    slowest = next(filter(None, map(solve_along, alternatives)), None)
    if slowest is None:
        return None
    both = Solution(_floats(kept) | slowest.values, is_any=slowest.is_any and not kept)
    others = [name for name in TARGETS_OF if direction is None or name != direction]
    return _without_excess(request, targets, both, others)


def _without_excess(
    request: RunRequest, targets: tuple[str, ...], solution: Solution, directions: Sequence[Direction]
) -> Solution:
    """A solution whose rates of some directions are lowered, one direction after the other, as far as targets allow.

    The rates as given stand beside those that are raised for goodput. They may be higher than anything needs. Rates
    that only the scenario has become part of the solution where lower ones are enough.
    """
    values = solution.values
    for direction in directions:
        paths = request.rate_paths(direction)
        at_most = {path: rate for path in paths if (rate := values.get(path, request.given(path))) is not None}
        if not at_most:
            continue
        others = {path: value for path, value in values.items() if path not in paths}
        lowered = min_rates_below(request.with_values(others), targets, direction, at_most)
        if lowered is None:
            continue
        needed = {path: rate for path, rate in lowered.values.items() if path in at_most}
        if not values.keys().isdisjoint(paths) or any(
            rate * ROUNDED_UP < at_most[path] for path, rate in needed.items()
        ):
            values = others | needed
    if INTERVAL in values:  # saves at the lowered rates may drain for longer than it
        effective = request.at(values).interval.effective_interval_seconds
        values = values | {
            INTERVAL: float(_whole_interval(request, values[INTERVAL] if effective is None else effective))
        }
    return Solution(values, is_any=values.keys() <= {INTERVAL})


def min_rates_below(
    request: RunRequest, targets: tuple[str, ...], direction: Direction, at_most: Mapping[str, float]
) -> Solution | None:
    """The min rates of a direction that meet targets at the interval asked for, none above `at_most`.

    None where the targets are missed at those rates.
    """
    return _slow_down(request, targets, request.joint(direction), at_most)


def _slow_down(
    request: RunRequest, targets: tuple[str, ...], joint: JointRates, at_most: Mapping[str, float]
) -> Solution | None:
    """Slow down all limits together, each from its rate in `at_most` once the time that all have is longer."""

    def values(seconds: Numbers) -> Values:
        return {
            path: np.minimum(rate, at_most.get(path, np.inf))
            for path, rate in _by_path(joint, joint.rates(seconds)).items()
        }

    return _solve_slowest(request, targets, values, _bounds([(joint, 1.0)]), is_free=False)


def _raise_rates(
    request: RunRequest, targets: tuple[str, ...], direction: Direction, *, is_free: bool
) -> Values | None:
    """Rates as given, or as the targets of the direction need them where that is more; None where none is enough."""
    freed = (DRAINED, "max_overhead_fraction") if is_free else ()
    base = _solve_direction(request, tuple(target for target in targets if target not in freed), direction)
    if base is None:
        return None
    joint = request.joint(direction)
    most = _by_path(joint, joint.max_rates)
    return {path: np.minimum(max(rate, request.given(path) or 0.0), most[path]) for path, rate in base.values.items()}


def _times_as_given(request: RunRequest, floors: Mapping[Direction, Values]) -> dict[Direction, float]:
    """The time of each direction at its rates as given; where there are none, at the other's file system rate."""
    joints = {direction: request.joint(direction) for direction in floors}
    seconds: dict[Direction, float] = {}
    for direction, joint in joints.items():
        unit_bytes = _by_path(joint, joint.unit_bytes)
        given = {path: floors[direction].get(path, request.given(path)) for path in unit_bytes}
        times = [float(unit_bytes[path] / rate) for path, rate in given.items() if rate is not None]
        if times:
            seconds[direction] = max(times)
    total_bytes = {direction: float(joint.total_bytes) for direction, joint in joints.items()}
    rate = next((total_bytes[direction] / known for direction, known in seconds.items()), 1.0)
    return {direction: total_bytes[direction] / rate for direction in floors} | seconds


def _at_longer_interval(request: RunRequest, targets: tuple[str, ...], read: Solution) -> Solution | None:
    """Where no rate is enough at the interval asked for: the min interval at the rates as given, and the min of these.

    Where no write rate is given, those with which bytes take as long as all that comes beside them.
    """
    stall = _raise_rates(
        request, tuple(target for target in targets if target == "max_stall_seconds"), "write", is_free=False
    )
    if stall is None:
        return None
    joint = request.joint("write")
    given = {path: rate for path in request.rate_paths("write") if (rate := request.given(path)) is not None}
    beside = joint.serial_seconds + sum(joint.held_seconds)
    write = stall or given or _by_path(joint, joint.rates(np.maximum(_TINY, beside)))
    own = tuple(target for target in targets if target in TARGETS_OF["write"])
    rates: Values = {path: float(rate) for path, rate in write.items()}

    def meets(intervals: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        return _meets_all(own, request.checks_at(rates | {INTERVAL: _plain(intervals)}), len(intervals))

    as_asked, longest = float(request.inputs.checkpoint.interval_seconds), interval_bounds(request)[1]
    if meets(np.array([as_asked]))[0]:  # tiers in front may take what no rate of the main storage gives
        return Solution(_floats(rates) | read.values)
    if not meets(np.array([longest]))[0]:
        return None
    interval = float(request.whole_interval_seconds(last_that_meets(meets, good=longest, bad=as_asked)))
    at_interval = Solution(_floats(rates) | read.values | {INTERVAL: interval})
    return _without_excess(request, own, at_interval, ["write"])  # the drain of an asynchronous save may need less


def _solve_slowest(
    request: RunRequest,
    targets: tuple[str, ...],
    values: Callable[[Numbers], Values],
    bounds: tuple[float, float],
    *,
    is_free: bool,
) -> Solution | None:
    """The slowest rates that meet targets: `values` slow down with the factor between the bounds."""

    def meets(factors: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        given = values(_plain(factors))
        tried = at_best_interval(request, given, targets) if is_free else given
        return _meets_all(targets, request.checks_at(tried), len(factors))

    fast, slow = bounds
    if not meets(np.array([fast]))[0]:
        return None
    is_any = bool(meets(np.array([slow]))[0])
    edge = slow
    if not is_any:
        sections = _SEARCHED_SECTIONS if is_free and request.inputs.checkpoint.tiers else EDGE_SECTIONS
        edge = last_that_meets(meets, good=fast, bad=slow, num_sections=sections)
    solved = _floats(at_best_interval(request, values(edge), targets) if is_free else values(edge))
    if is_any:  # no rate has a min, so the interval alone is part of the solution
        solved = {path: value for path, value in solved.items() if path == INTERVAL}
    return Solution(solved, is_any=is_any)


def at_best_interval(request: RunRequest, rates: Values, targets: tuple[str, ...]) -> Values:
    """Rates with the interval of the max goodput, or the longer one where the max overhead among `targets` needs it."""
    timing = request.timing_at(rates)
    wanted: Numbers = best_interval_seconds(request, timing, rates)
    if "max_overhead_fraction" in targets:
        wanted = np.maximum(wanted, min_interval_for_overhead_seconds(request, timing) * ROUNDED_UP)
    wanted = _whole_interval(request, wanted)
    main = request.timing_at(rates | {INTERVAL: wanted}).main
    return rates | {INTERVAL: _whole_interval(request, wanted if main is None else main.interval_seconds)}


def _whole_interval(request: RunRequest, seconds: Numbers) -> Numbers:
    """The next interval within the bounds that goes with the tiers."""
    low, high = interval_bounds(request)
    return np.minimum(request.whole_interval_seconds(np.clip(seconds, low, high)), high)


def min_interval_for_overhead_seconds(request: RunRequest, timing: Timing) -> Numbers:
    """The min interval for the overhead target: stall / (target - overhead of the tiers); no end where they miss.

    The stall is the mean over saves, those with an export that training waits for among them.
    Source: definition of the overhead, `levels.overhead_fraction`, solved for the interval.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized_layout import size_layout
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> request = RunRequest(size_layout(scenario).workload, scenario.run_inputs)
    >>> round(float(min_interval_for_overhead_seconds(request, request.timing_at({}))))
    1011
    """
    if timing.main is None:
        return 0.0
    others = overhead_of_levels_fraction([level for level in timing.tiers if not level.is_main])
    max_fraction = request.inputs.targets.max_overhead_fraction
    needed: Numbers = np.divide(timing.main.stall_seconds, np.maximum(_TINY, max_fraction - others))
    return needed


def _meets_all(targets: tuple[str, ...], checks: Sequence[TargetCheck], num_rows: int) -> npt.NDArray[np.bool_]:
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


def _by_path(joint: JointRates, rates: Mapping[str, Numbers]) -> Values:
    return {profile_path(name, joint.direction): rate for name, rate in rates.items()}


def _plain(values: npt.NDArray[np.float64]) -> Numbers:
    return values if len(values) > 1 else float(values[0])


def _floats(values: Values) -> dict[str, float]:
    return {path: float(value) for path, value in values.items()}
