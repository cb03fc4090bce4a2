"""One direction fitted: limits with verdicts, errors, draws, and every measurement with its prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizing.storage.calibration.calibration import Covered, DirectionFit, FittedPoint
from sizing.storage.calibration.candidates import Candidate, candidates, design_of
from sizing.storage.calibration.explanation import explained
from sizing.storage.calibration.roofline import Array, log_seconds
from sizing.storage.calibration.series import Series
from sizing.storage.calibration.uncertainty import drawn, held_out_log_seconds
from sizing.storage.calibration.verdicts import limit_estimates

_KEPT_DRAWS = 200
"""Of those drawn, in the document: the ends of a prediction's interval rest on the outer 10, and it takes 20 kB."""
_DIGITS = 5
"""Of a draw; intervals are shown with three."""


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
        limits=tuple(limit_estimates(design, explanation, draws, names, groups)),
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
