"""How sure a fit is: bootstrap draws of its parameters, and what it says of configurations that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sizing.storage.calibration.calibration import INTERVAL_TAIL, NORMAL_QUANTILE
from sizing.storage.calibration.explanation import Explanation
from sizing.storage.calibration.least_squares import many_fitted
from sizing.storage.calibration.roofline import Array, Design, log_seconds

_MAX_LEVERAGE = 0.9
"""A configuration that alone decides a limit has leverage 1, and its residual would be divided by 0; at 0.9 it is made
three times as large."""


def drawn(design: Design, measured: Array, explanation: Explanation, *, num_draws: int, seed: int) -> Array:
    """Parameters refitted to resampled data, a row per draw.

    Residual bootstrap: predicted log seconds + residuals drawn with replacement, each first divided by
    sqrt(1 - leverage), so that the design stays and configurations at its edges count as unsure as they are; few
    degrees of freedom widen them by the ratio of Student's to the normal quantile. Where there are none, the residuals
    are zero and say nothing: the noise that is assumed then stands for them.
    Args: `measured` log seconds by configuration.
    Source: Davison and Hinkley 1997, Bootstrap Methods and their Application, section 6.2.

    >>> moved, exact = Design(np.array([[2.0], [8.0]]), np.array([True])), Explanation(-np.log([2.0]), 0.05, (), {})
    >>> np.exp(-drawn(moved, np.log([1.0, 4.0]), exact, num_draws=3, seed=0)).round(6).tolist()  # nothing to resample
    [[2.0], [2.0], [2.0]]
    """
    predicted, slopes = log_seconds(design, explanation.parameters)
    shape, generator = (num_draws, len(measured)), np.random.default_rng(seed)
    if explanation.is_checked_by(len(measured)):
        residuals = (measured - predicted) / np.sqrt(1 - _leverages(slopes[:, explanation.kept]))
        errors = residuals[generator.integers(len(measured), size=shape)]
    else:
        errors = generator.normal(0.0, explanation.noise, shape)
    errors *= student_over_normal(len(measured) - int(explanation.kept.sum()))
    kept = explanation.kept
    draws = np.tile(explanation.parameters, (num_draws, 1))
    part = design.columns(kept)
    draws[:, kept] = many_fitted(part, predicted + errors, noise=explanation.noise, start=draws[:, kept])[0]
    return draws


def held_out_log_seconds(design: Design, measured: Array, explanation: Explanation, groups: Sequence[object]) -> Array:
    """What the fit to all other configurations predicts for each: leave-one-configuration-out.

    Args: `measured` log seconds; `groups`, the configuration of each, of which those of one are left out together.
    Source: cross-validation, Stone 1974, Journal of the Royal Statistical Society B 36(2).

    >>> moved, found = Design(np.array([[2.0], [8.0]]), np.array([True])), Explanation(-np.log([2.0]), 0.05, (), {})
    >>> np.exp(held_out_log_seconds(moved, np.log([1.0, 2.0]), found, ["small", "large"])).round(6).tolist()
    [0.5, 4.0]
    """
    names = list(dict.fromkeys(groups))
    weights = np.array([[float(group != name) for group in groups] for name in names])
    part, kept = design.columns(explanation.kept), explanation.kept
    start = np.tile(explanation.parameters[kept], (len(names), 1))
    fits = many_fitted(part, measured, noise=explanation.noise, start=start, weights=weights)[0]
    predicted = log_seconds(part, fits)[0]
    return np.array([predicted[names.index(group), i] for i, group in enumerate(groups)])


def student_over_normal(degrees_of_freedom: int) -> float:
    """How much wider an interval is for a noise that few data have estimated: t / z at the interval's ends.

    Args: `degrees_of_freedom` of the noise, 1 at least; t and z are the quantiles at 95 %.
    Source: Student 1908, Biometrika 6(1).

    >>> round(student_over_normal(10), 3) == round(1.8125 / 1.6449, 3)  # as tables have them
    True
    """
    return student_quantile(degrees_of_freedom) / NORMAL_QUANTILE


def student_quantile(degrees_of_freedom: int) -> float:
    """Student's t that a twentieth lies above.

    Args: `degrees_of_freedom`, 1 at least. Source: Student 1908, Biometrika 6(1).

    >>> round(student_quantile(10), 3)
    1.812
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - only fitting needs it

    return float(stdtrit(max(degrees_of_freedom, 1), 1 - INTERVAL_TAIL))


def interval(draws: Array) -> tuple[float, float]:
    """The interval that holds 90 % of the draws, as much left out below as above.

    Source: the percentile interval, Davison and Hinkley 1997, section 5.3.

    >>> interval(np.arange(101.0))
    (5.0, 95.0)
    """
    low, high = np.quantile(draws, [INTERVAL_TAIL, 1 - INTERVAL_TAIL])
    return float(low), float(high)


def _leverages(slopes: Array) -> Array:
    """The diagonal of the hat matrix of the linearised fit."""
    orthogonal, _ = np.linalg.qr(slopes)
    return np.asarray(np.minimum((orthogonal**2).sum(axis=1), _MAX_LEVERAGE))
