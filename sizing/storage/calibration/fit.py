"""One direction fitted: limits with verdicts, errors, draws, and every measurement with its prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizing.storage.calibration.calibration import Covered, DirectionFit, FittedPoint, Frontier, WrongHere
from sizing.storage.calibration.candidates import Candidate, all_candidates, figures_of
from sizing.storage.calibration.contention import not_excluded
from sizing.storage.calibration.explanation import Explanation, explained
from sizing.storage.calibration.frontier import HeldOutFrontier, frontier_masks, held_out_frontiers
from sizing.storage.calibration.misfits import Cell, Misfit, local_noise, misfits
from sizing.storage.calibration.roofline import Array, Design, log_seconds
from sizing.storage.calibration.rows import Row
from sizing.storage.calibration.series import Series
from sizing.storage.calibration.shapes import Shape, shape_of
from sizing.storage.calibration.uncertainty import drawn, held_out_log_seconds
from sizing.storage.calibration.verdicts import limit_estimates
from sizing.storage.rates import Direction
from sizing.storage.terms import Demand

_KEPT_DRAWS = 200
"""Of those drawn, in the document: the ends of a prediction's interval rest on the outer 10, and it takes 20 kB."""
_DIGITS = 5
"""Of a draw; intervals are shown with three."""


def fit_of(series: Series, *, num_draws: int, seed: int) -> DirectionFit:
    """The fit to the rows of a series."""
    demand, measured, repetition_noise = series.demand, series.log_seconds, series.repetition_noise
    shape = shape_of(demand, series.direction, measured, repetition_noise=repetition_noise)
    design = shape.design
    explanation = explained(design, measured, repetition_noise=repetition_noise)
    draws = drawn(design, measured, explanation, num_draws=num_draws, seed=seed)
    groups = [row.configuration for row in series.rows]
    held_out = held_out_log_seconds(design, measured, explanation, groups)
    errors = np.abs(np.expm1(held_out - measured))
    names = all_candidates(series.direction)
    predicted = log_seconds(design, explanation.parameters)[0]
    wrong = _misfits(series, measured - predicted, explanation)
    believed = predicted.copy()
    believed[[misfit.row for misfit in wrong]] = measured[[misfit.row for misfit in wrong]]
    frontiers = held_out_frontiers(design, measured, explanation, demand, groups)
    return DirectionFit(
        limits=tuple(limit_estimates(design, explanation, draws, names, groups)),
        covered=Covered.of(demand),
        num_configurations=series.num_configurations,
        noise_fraction=explanation.noise,
        held_out_error_fraction=float(np.median(errors)),
        worst_held_out_error_fraction=float(errors.max()),
        frontiers=tuple(_frontier(found, names, groups, measured, believed) for found in frontiers),
        wrong_here=tuple(_wrong_here(series.rows[misfit.row], misfit) for misfit in wrong),
        chosen=_chosen(shape, explanation, series.direction) | _chosen_stripes(demand, explanation, series.direction),
        not_excluded=_not_excluded(design, measured, explanation, demand, names),
        draws={field: tuple(_rounded(values[:_KEPT_DRAWS])) for field, values in figures_of(names, draws).items()},
        rivals=tuple(_fields(names, rival) for rival in explanation.rivals),
        points=_points(series, np.exp(predicted), np.exp(held_out)),
    )


def _frontier(
    found: HeldOutFrontier,
    names: Sequence[Candidate],
    groups: Sequence[object],
    measured: Array,
    believed: Array,
) -> Frontier:
    """Args: `believed`, log seconds without the noise of one measurement: of the fit, measured where that is wrong."""
    errors, misses = (np.abs(np.expm1(found.log_seconds - times))[found.rows] for times in (believed, measured))
    return Frontier(
        axis=found.axis,
        num_configurations=len({group for group, is_out in zip(groups, found.rows, strict=True) if is_out}),
        worst_error_fraction=float(errors.max()),
        worst_measured_error_fraction=float(misses.max()),
        only_here=tuple(names[int(column)].field for column in np.flatnonzero(found.unseen)),
    )


def _misfits(series: Series, log_misses: Array, explanation: Explanation) -> list[Misfit]:
    """Where the model is wrong, the worst miss first."""
    frontier = np.logical_or.reduce([np.zeros(len(log_misses), bool), *frontier_masks(series.demand).values()])
    cells = [_cell(row) for row in series.rows]
    noise = local_noise(log_misses, noise=explanation.noise, repetition_noise=series.repetition_noise, cells=cells)
    found = misfits(log_misses, noise=noise, num_parameters=int(explanation.kept.sum()), cells=cells, frontier=frontier)
    return sorted(found, key=lambda misfit: -abs(misfit.log_miss))


def _wrong_here(row: Row, misfit: Misfit) -> WrongHere:
    return WrongHere(
        num_nodes=row.measurement.num_nodes,
        num_streams=row.measurement.num_ranks,
        total_bytes=row.measurement.total_bytes,
        miss_fraction=float(np.expm1(misfit.log_miss)),
        reason=misfit.reason,
    )


def _cell(row: Row) -> Cell:
    nodes, ranks, size, files, stripes = row.configuration
    return nodes, ranks / nodes, size, files / ranks, stripes


def _chosen(shape: Shape, explanation: Explanation, direction: Direction) -> dict[str, float]:
    """The knee, and the size of the cache where its rate was kept."""
    found = {}
    if shape.knee_power is not None:
        found[f"{direction}_knee_power"] = shape.knee_power
    if shape.cache_bytes is not None and explanation.kept[-1]:
        found[f"{direction}_cache_bytes"] = float(round(shape.cache_bytes))
    return found


def _chosen_stripes(demand: Demand, explanation: Explanation, direction: Direction) -> dict[str, float]:
    """The most stripes that were measured, where they limit: what predictions take, as whoever sets stripes would."""
    column = [name.resource for name in all_candidates(direction)].index("stripe")
    is_read = any(np.isfinite(parameters[column]) for parameters in (explanation.parameters, *explanation.rivals))
    if demand.num_stripes is None or not is_read:
        return {}
    return {f"{direction}_stripe_count": float(np.max(demand.num_stripes))}


def _not_excluded(
    design: Design, measured: Array, explanation: Explanation, demand: Demand, names: Sequence[Candidate]
) -> tuple[dict[str, float], ...]:
    fields = [name.field for name in names if name.is_fraction]
    units = np.stack(np.broadcast_arrays(demand.num_streams, demand.num_nodes), axis=-1)
    return tuple(
        _fields(names, parameters) | {fields[column]: fraction}
        for column, fraction, parameters in not_excluded(design, measured, explanation, units)
        if fraction > 0
    )


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
    return {field: float(value) for field, value in figures_of(names, parameters).items()}


def _rounded(values: Array) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values]
