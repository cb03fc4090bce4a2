"""What would meet the targets that are missed, and what of the obstacles nobody stated, in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sizing.provenance import defaults_used
from sizing.ranges import plausible_range, range_text
from sizing.run.evaluation import RunReport, run_assumptions
from sizing.run.export import Exported
from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.recovery import wait_after_failure_seconds
from sizing.run.request import (
    COPY_RATE,
    INTERVAL,
    READ_RATE,
    TARGET_NAMES,
    UNIT_RATE_NAMES,
    WRITE_RATE,
    RunRequest,
    best_goodput_fraction,
    interval_bounds,
    last_that_meets,
    profile_path,
)
from sizing.run.solver import (
    GOODPUT,
    ROUNDED_UP,
    is_held_by_adapters,
    joint_solution,
    known_targets,
    min_interval_for_overhead_seconds,
)
from sizing.run.targets import TargetCheck
from sizing.run.workload import ONE_PROCESS
from sizing.run.write import CACHED_PLANS, PLANNING, cached_planning_fraction, process_assumed
from sizing.storage.limits import limit_text
from sizing.units import (
    MAX_BYTES,
    exact_number_text,
    min_rate_text,
    min_seconds_text,
    parse_bytes_per_second,
    parse_seconds,
    percent_text,
    seconds_text,
)

BEYOND_CACHE = profile_path("beyond_cache_bytes_per_second", "write")
_NAMES = {WRITE_RATE: "min write bandwidth", READ_RATE: "min read bandwidth", COPY_RATE: "min GPU-to-host bandwidth"}
_FIELDS = {"detection": "reliability.detection_seconds", "relaunch": "reliability.relaunch_seconds"}
_ADAPTERS = "no storage meets it at any interval: the adapters of the nodes are too slow (cluster.storage_nics)"
_NO_STORAGE = "no storage meets it at any interval: "
_NO_SINGLE_VALUE = "no bandwidth alone and no interval that the tiers allow meets it"
NOT_AS_ASKED = " (at the interval asked for no bandwidth is enough)"
"""Why a solution has another interval: one is searched for only where no rate is enough at that of the scenario."""
_OF_SAVES = ("max_stall_seconds", "max_overhead_fraction")
_MOSTLY_PLANNING = 2.0
"""Ratio of a rate to that with cached plans from which on a warning has both. A choice: an assumed planning time then
takes at least half of what the targets leave for a save."""


def with_remedies(
    checks: Sequence[TargetCheck], request: RunRequest, figures: RunReport, *, given: Collection[str]
) -> list[TargetCheck]:
    """The checks, the missed ones with what would meet each of them alone.

    To solve takes a hundred times as long as to answer. So a default that is missed, of overhead, gets the values that
    the `figures` of the answer have in closed form, and only targets that are `given` are solved for.
    """
    checks_with_remedies = []
    for check in checks:
        if check.met is not False:
            checks_with_remedies.append(check)
            continue
        remedy = _remedy(request, check.target) if check.target in given else _overhead_remedy(request, figures)
        checks_with_remedies.append(check.model_copy(update={"remedy": remedy}))
    return checks_with_remedies


def _overhead_remedy(request: RunRequest, figures: RunReport) -> str:
    """What meets the max overhead: a rate or an interval alone, each tried; the rate of the copy is another one."""
    required = figures.required
    interval = float(
        request.whole_interval_seconds(min_interval_for_overhead_seconds(request, request.timing_at({})) * ROUNDED_UP)
    )
    ways: dict[str, float | None] = {
        WRITE_RATE: required.write_bytes_per_second,
        COPY_RATE: required.device_to_host_bytes_per_second,
        INTERVAL: interval if interval <= interval_bounds(request)[1] else None,
    }
    alone = [{field: value} for field, value in ways.items() if value is not None]
    meeting = [
        (rates_text(way), _targets_broken(request, way))
        for way in alone
        if _is_met(request, "max_overhead_fraction", way)
    ]
    cached = with_cached_plans(request)
    if cached is not None and _is_met(cached, "max_overhead_fraction", {}):
        meeting.append((CACHED_PLANS, _targets_broken(request, {}, otherwise=cached)))
    return _ways_text(meeting) if meeting else _NO_SINGLE_VALUE


def _ways_text(ways: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Say which of several ways would meet a target: those that break no other, else all with what they break."""
    whole = [text for text, broken in ways if not broken]
    if whole:
        return f"{', or '.join(whole)} would meet it"
    return "; ".join(f"{text} would meet it, but miss {' and '.join(broken)}" for text, broken in ways)


def _is_met(request: RunRequest, target: str, values: Mapping[str, object]) -> bool:
    check = request.check(target, values)
    return check is not None and bool(check.met)


def rates_text(
    values: Mapping[str, float],
    *,
    seconds_text_of: Callable[[float], str] = min_seconds_text,
    instead: str = "",
) -> str:
    """Say rates, that of the file system first, and the interval that goes with them last.

    `instead` follows the interval, to say why it is not the one asked for.
    """
    parts = []
    for field, value in sorted(values.items(), key=lambda item: (item[0] == INTERVAL, item[0] not in _NAMES)):
        if field == INTERVAL:
            parts.append(f"one checkpoint every {seconds_text_of(value)}{instead}")
            continue
        parts.append(f"{(_NAMES | UNIT_RATE_NAMES)[field]} {min_rate_text(value)}")
    return " and ".join(parts)


def together_text(values: Mapping[str, float]) -> str:
    """Say rates and an interval that together meet targets, and why that is not the interval asked for.

    The interval has all digits that people type: a rounded one may lie beside the few that reach a goodput.

    >>> together_text({INTERVAL: 1153.7580438})
    'one checkpoint every 1153.7580438 s (19.2 min) (at the interval asked for no bandwidth is enough)'
    """
    return rates_text(values, seconds_text_of=exact_seconds_text, instead=NOT_AS_ASKED)


def exact_seconds_text(seconds: float) -> str:
    """Write a time to be typed back, with a rounded one to read."""
    return f"{exact_number_text(seconds)} s ({seconds_text(seconds)})"


def _remedy(request: RunRequest, target: str) -> str:
    is_stall = request.is_async and target in _OF_SAVES
    if is_stall and not request.waits_for_room:
        return _copy_remedy(request, target)
    if target == "recovery_seconds" and (beyond := beyond_reading_text(request)):
        return f"no storage meets it: {beyond}"
    solution = joint_solution(request, (target,), first="write")
    if solution is None or not solution.values:
        if is_held_by_adapters(request, target):
            return _ADAPTERS
        return _copy_remedy(request, target) if is_stall else _NO_STORAGE + _what_is_left(request, target)
    ways = [(_solution_text(request, target, solution.values), _targets_broken(request, solution.values))]
    cached = with_cached_plans(request)
    if cached is not None and _is_met(cached, target, {}):
        ways.append((CACHED_PLANS, _targets_broken(request, {}, otherwise=cached)))
    if ways[0][1] and (beside := joint_solution(request, (target, *_targets_met(request)), first="write")) is not None:
        ways = [(_solution_text(request, target, beside.values), []), *ways]
    return _ways_text(ways)


def _targets_met(request: RunRequest, values: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """The targets that are met, with some fields set."""
    return tuple(check.target for check in request.checks_at(values or {}) if check.met and request.asks(check.target))


def _targets_broken(
    request: RunRequest, values: Mapping[str, float], *, otherwise: RunRequest | None = None
) -> list[str]:
    """The targets that are met as asked and missed with what meets another one, in words."""
    still = _targets_met(otherwise or request, _rates_to_raise(request, values))
    return [TARGET_NAMES[target] for target in _targets_met(request) if target not in still]


def _solution_text(request: RunRequest, target: str, values: Mapping[str, float]) -> str:
    """What a scenario must change to reach a solution, rounded unless the target is missed then, as near a peak.

    There the rates for the rounded interval are solved for anew.
    """
    raised = _rates_to_raise(request, values)
    if _is_met(request, target, _as_printed(raised)):
        return rates_text(raised, instead=NOT_AS_ASKED)
    if INTERVAL in raised:
        every = {INTERVAL: parse_seconds(min_seconds_text(raised[INTERVAL]))}
        again = joint_solution(request.with_values(every), (target,), first="write")
        if again is not None and INTERVAL not in again.values:
            raised_again = {**_rates_to_raise(request, again.values), **every}
            if _is_met(request, target, _as_printed(raised_again)):
                return rates_text(raised_again, instead=NOT_AS_ASKED)
    return rates_text(raised, seconds_text_of=lambda seconds: f"{exact_number_text(seconds)} s", instead=NOT_AS_ASKED)


def _as_printed(values: Mapping[str, float]) -> dict[str, float]:
    """Rates and an interval as a reader types them, rounded."""
    return {
        field: parse_seconds(min_seconds_text(value))
        if field == INTERVAL
        else parse_bytes_per_second(min_rate_text(value))
        for field, value in values.items()
    }


def _rates_to_raise(request: RunRequest, values: Mapping[str, float]) -> Mapping[str, float]:
    """The rates that the scenario does not give already, of those that together meet a target."""
    return {
        field: value
        for field, value in values.items()
        if field == INTERVAL or (given := request.given(field)) is None or value > given
    }


def _what_is_left(request: RunRequest, target: str) -> str:
    """Say what takes too long where storage takes no time, and what would meet the target all the same."""
    best = request.with_values(request.unlimited)
    otherwise = with_cached_plans_text(request, target) + _beyond_cache_text(request, target)
    if target == GOODPUT:
        reached = percent_text(best_goodput_fraction(best) or 0.0)
        return f"unlimited bandwidth reaches {reached}{goodput_with_less_text(best, best_goodput_fraction)}{otherwise}"
    figures = best.at({})
    write, export = figures.write, export_to_wait_for(figures)
    if write is None or target not in _OF_SAVES:
        return "other steps take too long"
    if export is not None:
        return f"the export{process_text(best)} alone takes {seconds_text(export.stall_seconds or 0.0)}{otherwise}"
    assumed = planning_text(request) if write.bottleneck == "planning" else ""
    if write.bottleneck == "writer":
        assumed = process_text(best)
    return f"{limit_text(write.bottleneck)}{assumed} alone takes {seconds_text(write.stall_seconds)}{otherwise}"


def export_to_wait_for(figures: RunReport) -> Exported | None:
    """The export that holds up training for longer than the save before it does; None where none does."""
    export, write = figures.export, figures.write
    is_longer = export is not None and write is not None and (export.stall_seconds or 0.0) > write.stall_seconds
    return export if is_longer else None


def process_text(request: RunRequest) -> str:
    """The range of the rate at which one process writes a save or an export; empty where it is stated or no limit."""
    inputs = request.inputs
    rate = process_assumed(inputs.profile, workload=request.workload, checkpoint=inputs.checkpoint)
    return "" if rate is None else range_text(ONE_PROCESS, rate)


def planning_warnings(
    request: RunRequest, needed: Mapping[str, float], beyond_storage: Collection[str]
) -> Iterator[str]:
    """Warn of rates to buy that follow from a planning time that nobody stated, beside those with cached plans.

    `needed` are the rates, and the interval where it must change, that together meet the targets but those beyond
    storage.
    """
    assumed, cached = planning_text(request), with_cached_plans(request)
    if not (assumed and cached and needed):
        return
    targets = tuple(target for target in known_targets(request) if target not in beyond_storage)
    if GOODPUT in targets or INTERVAL in needed:
        solution = joint_solution(cached, targets)
        values = solution.values if solution else None
    else:  # in closed form, as to solve takes a hundred times as long as to answer
        rates = cached.at({}).required.file_system_rates
        values = {f"storage.profile.{field}": rate for field, rate in rates.items()}
        values = values if WRITE_RATE in values else None
    if values is None:
        return
    given = {path: request.given(path) or 0.0 for path in (WRITE_RATE, READ_RATE)}
    if all(needed.get(path, 0.0) <= _MOSTLY_PLANNING * values.get(path, rate) for path, rate in given.items()):
        return
    planning = next(_computed_planning(request)) * float(request.workload.write.num_planned_ranks)
    yield (
        f"Planning takes {seconds_text(planning)} of each save{assumed}, so to buy is "
        f"{together_text(needed)}; with {CACHED_PLANS} it is "
        f"{rates_text(values) or 'no more than given'}. Give checkpoint.cached_plans, or what you measured as "
        f"{PLANNING}"
    )


def with_cached_plans_text(request: RunRequest, target: str) -> str:
    """What would meet a target if saves reused their plans; empty where nothing would, or they do."""
    cached = with_cached_plans(request)
    solution = joint_solution(cached, (target,), first="write") if cached else None
    if cached is None or solution is None:
        return ""
    others = "any bandwidth" if solution.is_any else "the rates given"
    return f"; with {CACHED_PLANS}, {_solution_text(cached, target, solution.values) or others} would meet it"


def _copy_remedy(request: RunRequest, target: str) -> str:
    """Where the share fits host memory, no write rate shortens the stall of an asynchronous save."""
    rate = _min_rate(request, target, COPY_RATE)
    if rate is None:
        planning, export = planning_text(request), export_to_wait_for(request.at({}))
        beside = f", planning{planning} included," if planning else ""
        otherwise = with_cached_plans_text(request, target) + _beyond_cache_text(request, target)
        beside = f"what comes beside the copy{beside} stalls for longer"
        if export is not None:
            beside = f"the export{process_text(request)} alone takes {seconds_text(export.stall_seconds or 0.0)}"
        return f"no rate of the copy from GPU to host meets it: {beside}{otherwise}"
    return f"{rates_text({COPY_RATE: rate})} would meet it"


def _beyond_cache_text(request: RunRequest, target: str) -> str:
    """What would meet a target if a full cache of the storage drained faster; empty where nothing would."""
    if request.given(BEYOND_CACHE) is None:
        return ""
    solution = joint_solution(request.with_values({BEYOND_CACHE: float(MAX_BYTES)}), (target,), first="write")
    if solution is None:
        return ""
    rate = _min_rate(request.with_values(solution.values), target, BEYOND_CACHE)
    if rate is None:
        return ""
    faster = request.with_values({BEYOND_CACHE: parse_bytes_per_second(min_rate_text(rate))})
    rates = _solution_text(faster, target, solution.values) or "the rates given"
    return f"; with {BEYOND_CACHE} {min_rate_text(rate)}, {rates} would meet it"


def _min_rate(request: RunRequest, target: str, field: str) -> float | None:
    """The min rate of one field with which a target is met; None where none is enough."""
    most = float(MAX_BYTES)

    def meets(rates: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        check = request.check(target, {field: rates if len(rates) > 1 else float(rates[0])})
        return np.atleast_1d(np.asarray(check.met if check else False))

    return last_that_meets(meets, good=most, bad=1.0) if meets(np.array([most]))[0] else None


def beyond_reading_text(request: RunRequest) -> str:
    """What takes longer than a recovery may, however fast the storage is; empty where the storage decides."""
    wanted, reliability = request.inputs.targets.recovery_seconds, request.inputs.reliability
    if wanted is None or reliability is None:
        return ""
    workload = request.workload
    wait = float(wait_after_failure_seconds(reliability, workload=workload))
    if wait >= wanted:
        return f"the wait for a node takes {seconds_text(wait)} on average over all failures"
    lost = float(reliability.node_lost_fraction(num_nodes=workload.num_nodes, num_gpus=workload.num_gpus))
    if float(seconds_before_reading(reliability, node_lost_fraction=lost)) + wait < wanted:
        return ""
    waiting = f", beside {seconds_text(wait)} until there are nodes" if wait else ""
    return f"{before_reading_text(reliability, max_seconds=wanted - wait, node_lost_fraction=lost)}{waiting}"


def before_reading_text(reliability: Reliability | None, *, max_seconds: float, node_lost_fraction: float = 1.0) -> str:
    """What comes before a restore alone takes, and whether its assumed parts may be so short that storage matters.

    `node_lost_fraction` of the failures take a node, for which a spare may be swapped in.

    >>> short = Reliability(mtbf_seconds=3600, relaunch_seconds=300)
    >>> before_reading_text(short, max_seconds=480).partition(" and ")[0]
    'detection (assumed 72.60 s, may be 0 s to 10.0 min)'
    >>> before_reading_text(short, max_seconds=480).partition(" and ")[2]
    'relaunch alone take 6.2 min, but 5.0 min with detection 0 s'
    >>> before_reading_text(Reliability(mtbf_seconds=3600, detection_seconds=60, restart_seconds=300), max_seconds=30)
    'detection alone takes 60.00 s'
    """
    assumed = _assumed_before_reading(reliability)
    names = ["detection"] if reliability and reliability.restart_seconds is not None else ["detection", "relaunch"]
    parts = [f"{name}{range_text(_FIELDS[name], assumed[name]) if name in assumed else ''}" for name in names]
    taken = float(seconds_before_reading(reliability, node_lost_fraction=node_lost_fraction))
    text = f"{' and '.join(parts)} alone {'take' if len(parts) > 1 else 'takes'} {seconds_text(taken)}"
    low = {name: plausible_range(_FIELDS[name]).ends(value)[0] for name, value in assumed.items()}
    shortest = taken - sum(assumed[name] - low[name] for name in low)
    if shortest >= max_seconds:
        return text
    ends = " and ".join(f"{name} {seconds_text(seconds)}" for name, seconds in low.items())
    return f"{text}, but {seconds_text(shortest)} with {ends}"


def goodput_with_less_text(request: RunRequest, goodput_of: Callable[[RunRequest], float | None]) -> str:
    """The goodput at the lower ends of assumed detection and relaunch, behind that as assumed; empty without any.

    `goodput_of` gives that goodput, of a run with other times.
    """
    reliability = request.inputs.reliability
    assumed = _assumed_before_reading(reliability)
    if reliability is None or not assumed:
        return ""
    low = {name: plausible_range(_FIELDS[name]).ends(value)[0] for name, value in assumed.items()}
    shorter = reliability.model_copy(update={f"{name}_seconds": seconds for name, seconds in low.items()})
    reached = goodput_of(replace(request, inputs=replace(request.inputs, reliability=shorter)))
    if reached is None:
        return ""
    ends = (f"{name} {seconds_text(low[name])} (assumed {seconds_text(assumed[name])})" for name in low)
    return f", and {percent_text(reached)} with {' and '.join(ends)}"


def planning_text(request: RunRequest) -> str:
    """The range of the planning of a save where nobody stated it; empty where somebody did or nothing is planned."""
    if request.inputs.checkpoint.cached_plans is not None:
        return ""
    return next((range_text(PLANNING, value, per=" per rank") for value in _computed_planning(request)), "")


def with_cached_plans(request: RunRequest) -> RunRequest | None:
    """The request whose saves reuse their plans; None where they do, none are made, or their time is given."""
    shorter = cached_planning_fraction(request.inputs.checkpoint)
    if shorter == 1:
        return None
    return next((request.with_values({PLANNING: value * shorter}) for value in _computed_planning(request)), None)


def _assumed_before_reading(reliability: Reliability | None) -> dict[str, float]:
    """Detection and relaunch in seconds, where nobody stated them."""
    used = defaults_used(reliability, "reliability.") if reliability else ()
    values = {each.field: each.value for each in used}
    return {name: value for name, field in _FIELDS.items() if isinstance(value := values.get(field), float)}


def _computed_planning(request: RunRequest) -> Iterator[float]:
    """The planning of a rank, where nobody stated it."""
    for each in run_assumptions(request.workload, request.inputs):
        if each.field == PLANNING and isinstance(each.value, float):
            yield each.value
