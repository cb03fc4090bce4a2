"""Answer of a question for requirements: what each target needs, alone and together, and the capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sizing.questions.require.reasons import explain_field, explain_rates
from sizing.questions.require.report import (
    AtFreeInterval,
    CapacityCause,
    CapacityNeed,
    CapacityPart,
    Needed,
    Requirement,
    RequirementsReport,
    Status,
)
from sizing.questions.require.searches import FieldSearch, JointSearch, Sense, list_field_searches, list_joint_searches
from sizing.report import find_layout
from sizing.run.evaluation import evaluate
from sizing.run.remedies import planning_warnings
from sizing.run.request import (
    INTERVAL,
    READ_RATE,
    WRITE_RATE,
    RunRequest,
    Solution,
    best_goodput_fraction,
    last_that_meets,
)
from sizing.run.retention import Capacity, Retention
from sizing.run.solver import (
    GOODPUT,
    free_interval_solution,
    joint_solution,
    known_targets,
    min_rates_below,
    solution_of_what_can_be_met,
)
from sizing.run.storage_warnings import needed_warnings
from sizing.run.targets import TargetCheck
from sizing.scenario import Scenario
from sizing.sized_layout import size_layout
from sizing.storage.storage import resolve_storage
from sizing.units import bytes_text, percent_text, seconds_text


def answer_requirements(scenario: Scenario) -> RequirementsReport:
    """Solve for what the targets of a Scenario ask of the storage and the interval.

    Raises InvalidInput where the scenario has no answer.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> needed = answer_requirements(scenario_from(REFERENCE_SCENARIO)).needed
    >>> round(needed.write_bytes_per_second / 1e9, 2), needed.capacity_bytes / 1e12
    (19.17, 27.6)
    """
    with_layout = find_layout(scenario)
    scenario = with_layout.scenario
    layout = size_layout(scenario)
    run = RunRequest(layout.workload, scenario.run_inputs)
    known = known_targets(run)
    solution, beyond = solution_of_what_can_be_met(run, known)
    together = solution.values if solution else {}
    requirements = _mark_strictest(list(_list_requirements(run, together)))
    capacity = evaluate(run.workload, run.inputs).report.capacity
    return RequirementsReport(
        needed=Needed(
            write_bytes_per_second=together.get(WRITE_RATE),
            read_bytes_per_second=together.get(READ_RATE),
            together_with={field: value for field, value in together.items() if field not in (WRITE_RATE, READ_RATE)},
            capacity_bytes=capacity.capacity_bytes,
            min_interval_seconds=_find_value(requirements, INTERVAL, "min"),
            max_interval_seconds=_find_value(requirements, INTERVAL, "max"),
        ),
        targets_beyond_storage=beyond,
        capacity=explain_capacity(capacity, run.inputs.retention),
        at_free_interval=find_rates_at_free_interval(
            run, tuple(name for name in known if name not in beyond), solution
        ),
        requirements=requirements,
        warnings=[
            *with_layout.warnings,
            *_warn(run, requirements, has_solution=bool(together)),
            *planning_warnings(run, together, beyond),
            *needed_warnings(
                {field.removeprefix("storage.profile."): value for field, value in together.items()},
                resolve_storage(scenario.storage),
                node=layout.node,
                steps=run.workload.steps(scenario.checkpoint.restore),
            ),
        ],
    )


def _list_requirements(run: RunRequest, together: Mapping[str, float]) -> Iterator[Requirement]:
    """List the rates of each direction that each target needs, then the fields that vary alone.

    Every interval goes with the same rates: those given where they reach the goodput, else those needed.
    """
    raised: Mapping[str, float] = {}
    for joint in list_joint_searches(run):
        if (best := run.check(joint.target, run.unlimited)) is None:
            continue
        solution = joint_solution(run, (joint.target,), first=joint.direction)
        if joint.target == GOODPUT and solution is not None and not raised:
            raised = {} if _is_met_at_best_interval(run) else together or solution.values
        if joint.target == GOODPUT and solution is not None and together:
            solution = _solve_beside_the_others(run, joint, together)
        yield from _list_rows(run, joint, solution, best)
    for search in list_field_searches(run, raised):
        if (requirement := _solve(run, search)) is not None:
            yield requirement


def _solve_beside_the_others(run: RunRequest, joint: JointSearch, together: Mapping[str, float]) -> Solution:
    """Solve for the min rates of a direction, beside the interval and the rates of the other direction as bought.

    No rate is above the one bought, which is enough. Any rate will do where the others are enough alone.
    """
    own = set(run.rate_paths(joint.direction))
    others = {field: value for field, value in together.items() if field not in own}
    bought = {field: together.get(field, run.given(field)) for field in own}
    at_most = {field: rate for field, rate in bought.items() if rate is not None}
    solution = min_rates_below(run.with_values(others), (joint.target,), joint.direction, at_most)
    if solution is None or solution.is_any:
        return solution or Solution(dict(together))
    return Solution(others | solution.values)


def _list_rows(
    run: RunRequest, joint: JointSearch, solution: Solution | None, best: TargetCheck
) -> Iterator[Requirement]:
    """List a requirement for each limit of a direction; a limit that need not rise keeps the scenario's rate."""
    check = run.check(joint.target, solution.values) if solution else best
    as_given = run.check(joint.target, {})
    for path in run.rate_paths(joint.direction):
        given = run.given(path)
        value = None if solution is None else solution.values.get(path, given)
        if solution and not solution.is_any and value is None:
            continue
        status: Status = "none" if solution is None else "any" if solution.is_any else "solved"
        others = {field: rate for field, rate in (solution.values if solution else {}).items() if field != path}
        yield Requirement(
            field=path,
            sense="min",
            target=joint.target,
            wanted=best.wanted,
            status=status,
            value=value if status == "solved" else None,
            found=check.found if check else None,
            given=given,
            together_with=others,
            met_in_scenario=as_given.met if as_given else None,
            binds=False,
            reason=explain_rates(run, joint, solution),
        )


def _is_met_at_best_interval(run: RunRequest) -> bool:
    """Return whether the rates as given reach the goodput at some interval."""
    wanted = run.inputs.targets.min_goodput_fraction
    return wanted is not None and (best_goodput_fraction(run) or 0.0) >= wanted


def _solve(run: RunRequest, search: FieldSearch) -> Requirement | None:
    """Search for the value that a target needs; None where the scenario cannot tell what the target gets."""
    best = run.check(search.target, {**search.beside, search.field: search.best})
    if best is None:
        return None
    status, value = _judge_bounds(run, search) if best.met else ("none", None)
    check = best if value is None else run.check(search.target, {**search.beside, search.field: value})
    return Requirement(
        field=search.field,
        sense=search.sense,
        target=search.target,
        wanted=best.wanted,
        status=status,
        value=value,
        found=check.found if check else None,
        given=run.given(search.field),
        together_with=dict(search.beside),
        binds=False,
        reason=explain_field(run, search, status, value),
    )


def _judge_bounds(run: RunRequest, search: FieldSearch) -> tuple[Status, float | None]:
    """Find the last value that meets a target which the best value meets; no value where any meets it."""

    def meets(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        tried = values if len(values) > 1 else float(values[0])
        check = run.check(search.target, {**search.beside, search.field: tried})
        return np.atleast_1d(np.asarray(check.met if check else False))

    if meets(np.array([search.worst]))[0]:
        return "any", None
    edge = last_that_meets(meets, good=search.best, bad=search.worst)
    return "solved", float(run.whole_interval_seconds(edge)) if search.field == INTERVAL else edge


def _mark_strictest(requirements: Sequence[Requirement]) -> list[Requirement]:
    """Mark the strictest requirement of each field, of mins and of maxes apart: it is the one that binds."""
    strictest: dict[tuple[str, Sense], Requirement] = {}
    for requirement in requirements:
        rival = strictest.setdefault((requirement.field, requirement.sense), requirement)
        if _rate_strictness(requirement) > _rate_strictness(rival):
            strictest[requirement.field, requirement.sense] = requirement
    return [
        requirement.model_copy(update={"binds": requirement == strictest[requirement.field, requirement.sense]})
        for requirement in requirements
    ]


def _rate_strictness(requirement: Requirement) -> float:
    """Rate how strict a requirement is: least where any value will do, most where no value is enough."""
    if requirement.value is None:
        return np.inf if requirement.status == "none" else -np.inf
    return requirement.value if requirement.sense == "min" else -requirement.value


def _find_value(requirements: Sequence[Requirement], field: str, sense: Sense) -> float | None:
    """Find the value of the strictest requirement of a field."""
    return next((r.value for r in requirements if r.binds and (r.field, r.sense) == (field, sense)), None)


def _warn(run: RunRequest, requirements: Sequence[Requirement], *, has_solution: bool) -> Iterator[str]:
    if run.asks(GOODPUT) and not any(requirement.target == GOODPUT for requirement in requirements):
        yield "targets.min_goodput_fraction is not checked: goodput is unknown. Give reliability and storage"
    statuses = {requirement.status for requirement in requirements}
    if not has_solution and "none" not in statuses and "solved" in statuses:
        yield "No storage meets all targets together, at any interval. Relax a target"
    low, high = (_find_value(requirements, INTERVAL, sense) for sense in ("min", "max"))
    is_as_given = not any(row.together_with for row in requirements if row.field == INTERVAL)
    if is_as_given and low is not None and high is not None and low > high:
        yield (
            f"At the bandwidths given no interval meets all targets: the min interval of {seconds_text(low)} is longer "
            f"than the max interval of {seconds_text(high)}. Raise the write bandwidth or relax a target"
        )


def find_rates_at_free_interval(
    run: RunRequest, targets: tuple[str, ...], fixed: Solution | None
) -> AtFreeInterval | None:
    """Find the rates when the interval may be chosen: none is above that of the solution `fixed`, which keeps it.

    None without a goodput target that can be met, without a solution, and without a write rate.
    """
    if fixed is None or GOODPUT not in targets:
        return None
    values = free_interval_solution(run, targets, fixed).values
    figures = run.at(values)
    rate = values.get(WRITE_RATE, run.given(WRITE_RATE))
    if rate is None or figures.write is None:
        return None
    return AtFreeInterval(
        write_bytes_per_second=rate,
        interval_seconds=figures.interval.interval_seconds,
        together_with={field: value for field, value in values.items() if field not in (WRITE_RATE, INTERVAL)},
        stall_seconds=figures.write.stall_seconds,
        overhead_fraction=figures.overhead.fraction or 0.0,
        goodput_fraction=figures.interval.goodput_at_interval_fraction or 0.0,
    )


_CAPACITY_WORDS: dict[CapacityCause, str] = {
    "keep_last": "the last checkpoints kept whole",
    "keep_best": "the best checkpoints kept whole",
    "in-flight": "the checkpoint being written",
    "keep_weights_every": "the kept weights",
    "export": "the exports",
    "publication": "the newest publication",
    "free_fraction": "what stays free",
    "redundancy_fraction": "the redundancy of the drives",
}


def explain_capacity(capacity: Capacity, retention: Retention) -> CapacityNeed:
    """Split a capacity into parts by what asks for them, as the fields of retention; of equal parts the first binds.

    >>> from sizing.run.evaluation import evaluate
    >>> from sizing.sized_layout import size_layout
    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> scenario = scenario_from(REFERENCE_SCENARIO | {"retention": {"keep_last": 3, "redundancy_fraction": 0.25}})
    >>> figures = evaluate(size_layout(scenario).workload, scenario.run_inputs).report
    >>> need = explain_capacity(figures.capacity, scenario.retention)
    >>> need.binds, [(part.cause, round(part.fraction, 6)) for part in need.parts]
    ('keep_last', [('keep_last', 0.6), ('in-flight', 0.2), ('redundancy_fraction', 0.2)])
    """
    raw = capacity.raw_bytes
    parts = [
        CapacityPart(cause=cause, bytes=size, fraction=size / raw) for cause, size in _list_parts(capacity, retention)
    ]
    largest = max(parts, key=lambda part: part.bytes)
    return CapacityNeed(
        capacity_bytes=capacity.capacity_bytes,
        usable_bytes=capacity.usable_bytes,
        raw_bytes=raw,
        parts=parts,
        binds=largest.cause,
        reason=f"{_CAPACITY_WORDS[largest.cause]}: {bytes_text(largest.bytes)}, "
        f"{percent_text(largest.fraction)} of the drives",
    )


def _list_parts(capacity: Capacity, retention: Retention) -> Iterator[tuple[CapacityCause, float]]:
    each = capacity.checkpoints_bytes / capacity.num_checkpoints
    parts: dict[CapacityCause, float] = {
        "keep_last": retention.keep_last * each,
        "keep_best": retention.keep_best * each,
        "in-flight": (capacity.num_checkpoints - retention.keep_last - retention.keep_best) * each,
        "keep_weights_every": capacity.kept_weights_bytes,
        "export": capacity.exported_bytes,
        "publication": capacity.published_bytes,
        "free_fraction": capacity.usable_bytes - capacity.capacity_bytes,
        "redundancy_fraction": capacity.raw_bytes - capacity.usable_bytes,
    }
    return ((cause, size) for cause, size in parts.items() if size)
