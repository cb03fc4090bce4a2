"""From a Scenario to its RequirementsReport."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sizing.explore.requirements.capacity import capacity_need
from sizing.explore.requirements.free_interval import at_free_interval
from sizing.explore.requirements.questions import JointQuestion, Question, Sense, joint_questions, questions
from sizing.explore.requirements.reasons import joint_reason, reason
from sizing.explore.requirements.requirements_report import Needed, Requirement, RequirementsReport, Status
from sizing.report import laid_out
from sizing.run.evaluation import evaluate
from sizing.run.node_warnings import needed_warnings
from sizing.run.requirements.asked import INTERVAL, READ_RATE, WRITE_RATE, Asked, Solution, profile_path
from sizing.run.requirements.best_interval import best_goodput_fraction
from sizing.run.requirements.edge import last_that_meets
from sizing.run.requirements.joint import GOODPUT, all_targets, joint_solution, solution_of_what_can_be_met
from sizing.run.targets import TargetCheck
from sizing.scenario import Scenario, scenario_from
from sizing.sized import sized
from sizing.storage.storage import resolve_storage
from sizing.units import seconds_text


def requirements(document: object) -> RequirementsReport:
    """What the targets of a parsed Scenario document ask of the storage and the interval.

    Raises InvalidInput where the document breaks a rule or has no answer.
    """
    return requirements_of(scenario_from(document))


def requirements_of(scenario: Scenario) -> RequirementsReport:
    """The same of a Scenario.

    >>> from sizing.scenario import REFERENCE_SCENARIO
    >>> found = requirements_of(scenario_from(REFERENCE_SCENARIO)).needed
    >>> round(found.write_bytes_per_second / 1e9, 2), found.capacity_bytes / 1e12
    (19.17, 27.6)
    """
    found_layout = laid_out(scenario)
    scenario = found_layout.scenario
    layout = sized(scenario)
    asked = Asked(layout.demands, scenario.run_inputs)
    known = _known_targets(asked)
    solution, beyond = solution_of_what_can_be_met(asked, known)
    together = solution.values if solution else {}
    solved = list(_requirements(asked, together))
    found = [requirement.model_copy(update={"binds": _binds(requirement, solved)}) for requirement in solved]
    capacity = evaluate(asked.demands, asked.inputs).report.capacity
    return RequirementsReport(
        needed=Needed(
            write_bytes_per_second=together.get(WRITE_RATE),
            read_bytes_per_second=together.get(READ_RATE),
            together_with={field: value for field, value in together.items() if field not in (WRITE_RATE, READ_RATE)},
            capacity_bytes=capacity.capacity_bytes,
            min_interval_seconds=_value(found, INTERVAL, "min"),
            max_interval_seconds=_value(found, INTERVAL, "max"),
        ),
        targets_beyond_storage=beyond,
        capacity=capacity_need(capacity, asked.inputs.retention),
        at_free_interval=at_free_interval(asked, tuple(name for name in known if name not in beyond), solution),
        requirements=found,
        warnings=[
            *found_layout.warnings,
            *_warnings(asked, found, has_solution=bool(together)),
            *needed_warnings(
                {field.removeprefix("storage.profile."): value for field, value in together.items()},
                resolve_storage(scenario.storage),
                node=layout.node,
                steps=asked.demands.steps(scenario.checkpoint.restore),
            ),
        ],
    )


def _requirements(asked: Asked, together: Mapping[str, float]) -> Iterator[Requirement]:
    """The rows: the rates of each direction for each target, then what varies alone.

    Every interval goes with the same rates: as given where these reach the goodput, else as needed.
    """
    raised: Mapping[str, float] = {}
    for joint in joint_questions(asked):
        if (best := asked.check(joint.target, asked.unlimited)) is None:
            continue
        solution = joint_solution(asked, (joint.target,), first=joint.direction)
        if joint.target == GOODPUT and solution is not None and not raised:
            raised = {} if _is_met_at_best_interval(asked) else together or solution.values
        if joint.target == GOODPUT and solution is not None and together:
            solution = _beside_the_others(asked, joint, together)
        yield from _rows(asked, joint, solution, best)
    for question in questions(asked, raised):
        if (answered := _solved(asked, question)) is not None:
            yield answered


def _beside_the_others(asked: Asked, joint: JointQuestion, together: Mapping[str, float]) -> Solution:
    """The min rates of a direction with the interval and the rates of the other direction as bought together.

    None is above what is bought, which is enough; at any rate where the others are enough without them.
    """
    own = set(map(profile_path, asked.joint(joint.direction).unit_bytes))
    others = {field: value for field, value in together.items() if field not in own}
    found = joint_solution(asked.with_values(others), (joint.target,), first=joint.direction)
    if found is None or found.is_any:
        return found or Solution(dict(together))
    bought = {field: together.get(field, asked.given(field)) for field in own}
    mins = {field: rate for field, rate in found.values.items() if field in own}
    return Solution(others | {field: min(rate, bought[field] or rate) for field, rate in mins.items()})


def _rows(asked: Asked, joint: JointQuestion, solution: Solution | None, best: TargetCheck) -> Iterator[Requirement]:
    """One row for each limit of the direction; where others are raised instead, those that the scenario gives stay."""
    check = asked.check(joint.target, solution.values) if solution else best
    as_given = asked.check(joint.target, {})
    for path in map(profile_path, asked.joint(joint.direction).unit_bytes):
        given = asked.given(path)
        value = None if solution is None else solution.values.get(path, given)
        if solution and not solution.is_any and value is None:
            continue
        status: Status = "none" if solution is None else "any" if solution.is_any else "solved"
        beside = {field: one for field, one in (solution.values if solution else {}).items() if field != path}
        yield Requirement(
            field=path,
            sense="min",
            target=joint.target,
            wanted=best.wanted,
            status=status,
            value=value if status == "solved" else None,
            found=check.found if check else None,
            given=given,
            together_with=beside,
            met_in_scenario=as_given.met if as_given else None,
            binds=False,
            reason=joint_reason(asked, joint, solution),
        )


def _is_met_at_best_interval(asked: Asked) -> bool:
    """Whether the rates as given reach the goodput at some interval."""
    wanted = asked.inputs.targets.min_goodput_fraction
    return wanted is not None and (best_goodput_fraction(asked) or 0.0) >= wanted


def _known_targets(asked: Asked) -> tuple[str, ...]:
    """The targets of which something is known where no rate limits."""
    return tuple(target for target in all_targets(asked) if asked.check(target, asked.unlimited) is not None)


def _solved(asked: Asked, question: Question) -> Requirement | None:
    """The answer to a question, or None where the scenario cannot tell what the target gets."""
    best = asked.check(question.target, {**question.beside, question.field: question.best})
    if best is None:
        return None
    status, value = _edge(asked, question) if best.met else ("none", None)
    found = best if value is None else asked.check(question.target, {**question.beside, question.field: value})
    return Requirement(
        field=question.field,
        sense=question.sense,
        target=question.target,
        wanted=best.wanted,
        status=status,
        value=value,
        found=found.found if found else None,
        given=asked.given(question.field),
        together_with=dict(question.beside),
        binds=False,
        reason=reason(asked, question, status, value),
    )


def _edge(asked: Asked, question: Question) -> tuple[Status, float | None]:
    def meets(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        tried = values if len(values) > 1 else float(values[0])
        check = asked.check(question.target, {**question.beside, question.field: tried})
        return np.atleast_1d(np.asarray(check.met if check else False))

    if meets(np.array([question.worst]))[0]:
        return "any", None
    edge = last_that_meets(meets, good=question.best, bad=question.worst)
    return "solved", float(asked.whole_interval_seconds(edge)) if question.field == INTERVAL else edge


def _binds(requirement: Requirement, among: Sequence[Requirement]) -> bool:
    rivals = [r for r in among if (r.field, r.sense) == (requirement.field, requirement.sense)]
    return requirement == max(rivals, key=_strictness)


def _strictness(requirement: Requirement) -> float:
    """Grows with what is asked: nothing, a value, more than there can be."""
    if requirement.value is None:
        return np.inf if requirement.status == "none" else -np.inf
    return requirement.value if requirement.sense == "min" else -requirement.value


def _value(found: Sequence[Requirement], field: str, sense: Sense) -> float | None:
    return next((r.value for r in found if r.binds and (r.field, r.sense) == (field, sense)), None)


def _warnings(asked: Asked, found: Sequence[Requirement], *, has_solution: bool) -> Iterator[str]:
    if asked.asks(GOODPUT) and not any(requirement.target == GOODPUT for requirement in found):
        yield "targets.min_goodput_fraction is not checked: goodput is unknown. Give reliability and storage"
    unmet = dict.fromkeys(requirement.target for requirement in found if requirement.status == "none")
    if not has_solution and not unmet and any(requirement.status == "solved" for requirement in found):
        yield "No storage meets all targets together, at any interval. Relax a target"
    low, high = (_value(found, INTERVAL, sense) for sense in ("min", "max"))
    is_as_given = not any(row.together_with for row in found if row.field == INTERVAL)
    if is_as_given and low is not None and high is not None and low > high:
        yield (
            f"At the bandwidths given no interval meets all targets: the min interval of {seconds_text(low)} is longer "
            f"than the max interval of {seconds_text(high)}. Raise the write bandwidth or relax a target"
        )
