"""From a Scenario to its RequirementsReport."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sizing.explore.requirements.asked import INTERVAL, READ_RATE, WRITE_RATE, Asked
from sizing.explore.requirements.capacity import capacity_need
from sizing.explore.requirements.edge import last_that_meets
from sizing.explore.requirements.free_interval import AtFreeInterval, at_free_interval
from sizing.explore.requirements.questions import Question, Sense, questions
from sizing.explore.requirements.reasons import reason
from sizing.explore.requirements.requirements_report import Needed, Requirement, RequirementsReport, Status
from sizing.run.evaluation import evaluate
from sizing.scenario import Scenario, scenario_from
from sizing.sized import sized
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
    asked = Asked(sized(scenario).demands, scenario.run_inputs)
    solved = [answered for question in questions(asked) if (answered := _solved(asked, question)) is not None]
    found = [requirement.model_copy(update={"binds": _binds(requirement, solved)}) for requirement in solved]
    free = at_free_interval(asked)
    capacity = evaluate(asked.demands, asked.inputs).report.capacity
    return RequirementsReport(
        needed=Needed(
            write_bytes_per_second=_value(found, WRITE_RATE, "min"),
            read_bytes_per_second=_value(found, READ_RATE, "min"),
            capacity_bytes=capacity.capacity_bytes,
            min_interval_seconds=_value(found, INTERVAL, "min"),
            max_interval_seconds=_value(found, INTERVAL, "max"),
        ),
        capacity=capacity_need(capacity, asked.inputs.retention),
        at_free_interval=free,
        requirements=found,
        warnings=list(_warnings(asked, found, free)),
    )


def _solved(asked: Asked, question: Question) -> Requirement | None:
    """The answer to a question, or None where the scenario cannot tell what the target gets."""
    best = asked.check(question.target, {question.field: question.best})
    if best is None:
        return None
    status, value = _edge(asked, question) if best.met else ("none", None)
    found = best if value is None else asked.check(question.target, {question.field: value})
    return Requirement(
        field=question.field,
        sense=question.sense,
        target=question.target,
        wanted=best.wanted,
        status=status,
        value=value,
        found=found.found if found else None,
        given=asked.given(question.field),
        binds=False,
        reason=reason(asked, question, status, value),
    )


def _edge(asked: Asked, question: Question) -> tuple[Status, float | None]:
    def meets(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        tried = values if len(values) > 1 else float(values[0])
        check = asked.check(question.target, {question.field: tried})
        return np.atleast_1d(np.asarray(check.met if check else False))

    if meets(np.array([question.worst]))[0]:
        return "any", None
    return "solved", last_that_meets(meets, good=question.best, bad=question.worst)


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


def _warnings(asked: Asked, found: Sequence[Requirement], free: AtFreeInterval | None) -> Iterator[str]:
    if asked.inputs.targets.min_goodput_fraction is not None and free is None:
        if any(requirement.target == "min_goodput_fraction" for requirement in found):
            yield "No write bandwidth meets the targets for stall, overhead and goodput, at any interval"
        else:
            yield ("targets.min_goodput_fraction is not checked: goodput is unknown. Give reliability and storage")
    low, high = (_value(found, INTERVAL, sense) for sense in ("min", "max"))
    if low is not None and high is not None and low > high:
        yield (
            f"No interval meets all targets: the min interval of {seconds_text(low)} is longer than the max interval "
            f"of {seconds_text(high)}. Raise the write bandwidth or relax a target"
        )
