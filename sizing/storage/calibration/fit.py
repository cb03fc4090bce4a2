"""One direction fitted: limits with verdicts, errors, draws, and every measurement with its prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizing.storage.calibration.calibration import Covered, DirectionFit, FittedPoint, LimitEstimate
from sizing.storage.calibration.candidates import Candidate, candidates, design_of
from sizing.storage.calibration.explanation import Explanation, explained
from sizing.storage.calibration.roofline import Array, Design, largest_shared, log_seconds
from sizing.storage.calibration.series import Series
from sizing.storage.calibration.uncertainty import drawn, held_out_log_seconds, interval

LEAST_BINDING = 3
"""Configurations in which a limit must bind to count as measured."""

MOST_RATIO_OF_A_TIME = 20.0
"""Of an interval's ends, from which on a time that adds up was not seen."""

_UNCHECKED = "as many limits as configurations, so no configuration checks it"

_ONE_SIZE = "all runs have one size, so it cannot be separated from the"

_KEPT_DRAWS = 200
_DIGITS = 5


def fit_of(series: Series, *, num_draws: int, seed: int) -> DirectionFit:
    """The fit to the rows of a series."""
    design, measured = design_of(series.demand, series.direction), series.log_seconds
    explanation = explained(design, measured, repetition_noise=series.repetition_noise)
    draws = drawn(design, measured, explanation, num_draws=num_draws, seed=seed)
    groups = [row.configuration for row in series.rows]
    held_out = held_out_log_seconds(design, measured, explanation, groups)
    errors = np.abs(np.expm1(held_out - measured))
    names = candidates(series.direction)
    return DirectionFit(
        limits=tuple(_limits(design, explanation, draws, names, groups)),
        covered=Covered.of(series.demand),
        num_configurations=series.num_configurations,
        noise_fraction=explanation.noise,
        held_out_error_fraction=float(np.median(errors)),
        worst_held_out_error_fraction=float(errors.max()),
        draws={
            name.field: tuple(_rounded(name.value(draws[:_KEPT_DRAWS, column])))
            for column, name in enumerate(names)
            if explanation.kept[column]
        },
        rivals=tuple(_fields(names, rival) for rival in explanation.rivals),
        points=_points(series, np.exp(log_seconds(design, explanation.parameters)[0]), np.exp(held_out)),
    )


def _limits(
    design: Design, explanation: Explanation, draws: Array, names: Sequence[Candidate], groups: Sequence[object]
) -> list[LimitEstimate]:
    _, binding = largest_shared(design, explanation.parameters)
    is_checked = explanation.is_checked_by(len(set(groups)))
    found = []
    for column, name in enumerate(names):
        if not design.coefficients[:, column].any():
            continue
        num_binding = len({group for group, slowest in zip(groups, binding, strict=True) if slowest == column})
        if name.is_shared:
            found.append(_shared_limit(design, explanation, draws, names, column, num_binding, is_checked=is_checked))
        else:
            found.append(_serial_limit(explanation, draws, names, column, is_checked=is_checked))
    return found


def _shared_limit(
    design: Design,
    explanation: Explanation,
    draws: Array,
    names: Sequence[Candidate],
    column: int,
    num_binding: int,
    *,
    is_checked: bool,
) -> LimitEstimate:
    name = names[column]
    taken_by = [rival for rival in explanation.rivals if np.isfinite(rival[column]) != explanation.kept[column]]
    others = sorted({names[i].resource for rival in taken_by for i in _exchanged(explanation, rival) if i != column})
    is_told = not (taken_by or explanation.fixed_in_rates)
    if is_checked and explanation.kept[column] and num_binding >= LEAST_BINDING and is_told:
        values = name.value(draws[:, column])
        return LimitEstimate(
            field=name.field,
            resource=name.resource,
            verdict="measured",
            value=float(name.value(explanation.parameters[column])),
            interval=interval(values),
            num_binding=num_binding,
            reason=f"binds in {num_binding} configurations",
        )
    if taken_by:
        reason = f"these runs cannot separate it from {' and '.join(others)}"
    elif explanation.kept[column] and explanation.fixed_in_rates:
        reason = f"{_ONE_SIZE} fixed time, which it contains"
    elif explanation.kept[column] and num_binding >= LEAST_BINDING:
        reason = _UNCHECKED
    elif explanation.kept[column]:
        reason = f"binds in {num_binding} configuration(s), {LEAST_BINDING} are required"
    else:
        reason = "never reached: no run was limited by it"
    return LimitEstimate(
        field=name.field,
        resource=name.resource,
        verdict="lower-bound",
        value=min_rate(design, explanation, column),
        interval=None,
        num_binding=num_binding,
        reason=reason,
    )


def _serial_limit(
    explanation: Explanation, draws: Array, names: Sequence[Candidate], column: int, *, is_checked: bool
) -> LimitEstimate:
    name = names[column]
    low, high = interval(name.value(draws[:, column])) if explanation.kept[column] else (0.0, 0.0)
    is_narrow = explanation.kept[column] and high < MOST_RATIO_OF_A_TIME * low
    is_seen = is_checked and is_narrow
    if is_seen:
        reason = "adds to the time of every configuration"
    elif is_narrow:
        reason = _UNCHECKED
    elif explanation.fixed_in_rates and name.resource == "fixed":
        reason = f"{_ONE_SIZE} rates, which contain it"
    elif column in explanation.twins:
        reason = f"these runs cannot separate it from {names[explanation.twins[column]].resource}"
    else:
        reason = "smaller than the noise"
    return LimitEstimate(
        field=name.field,
        resource=name.resource,
        verdict="measured" if is_seen else "unknown",
        value=float(name.value(explanation.parameters[column])) if is_narrow else None,
        interval=(low, high) if is_seen else None,
        num_binding=0,
        reason=reason,
    )


def min_rate(design: Design, explanation: Explanation, column: int) -> float:
    """The min rate of a shared resource at which no explanation of the data would look different.

    Its term is nowhere longer than the slowest, so the rate is at least the largest coefficient over slowest; of rival
    explanations the one with the min. Of a resource that is in none of them only the whole time is sure to be
    longer, as it may stand in what they take for time that adds up.
    """
    if not any(np.isfinite(parameters[column]) for parameters in (explanation.parameters, *explanation.rivals)):
        return float((design.coefficients[:, column] / np.exp(log_seconds(design, explanation.parameters)[0])).max())
    bounds = []
    for parameters in (explanation.parameters, *explanation.rivals):
        slowest, _ = largest_shared(design, parameters)
        bounds.append(float((design.coefficients[:, column] / slowest).max()))
    return min(bounds)


def _exchanged(explanation: Explanation, rival: Array) -> list[int]:
    return [int(i) for i in np.flatnonzero(np.isfinite(rival) != explanation.kept)]


def _points(series: Series, predicted: Array, held_out: Array) -> tuple[FittedPoint, ...]:
    return tuple(
        FittedPoint(
            run_id=row.run_id,
            num_nodes=row.measurement.num_nodes,
            num_streams=row.measurement.num_ranks,
            total_bytes=row.measurement.total_bytes,
            num_files=row.num_files,
            seconds=row.seconds,
            predicted_seconds=float(predicted[i]),
            held_out_seconds=float(held_out[i]),
        )
        for i, row in enumerate(series.rows)
    )


def _fields(names: Sequence[Candidate], parameters: Array) -> dict[str, float]:
    return {
        name.field: float(name.value(value))
        for name, value in zip(names, parameters, strict=True)
        if np.isfinite(value)
    }


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]
