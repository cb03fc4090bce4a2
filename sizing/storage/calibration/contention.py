"""How much contention the measurements do not exclude, where they need none for their explanation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sizing.storage.calibration.candidates import FILE_SYSTEM
from sizing.storage.calibration.explanation import Explanation
from sizing.storage.calibration.least_squares import losses, many_fitted
from sizing.storage.calibration.roofline import Array, Design, Mask, log_seconds
from sizing.storage.calibration.uncertainty import student_quantile

_FRACTIONS = np.geomspace(1e-4, 10.0, 11)
"""That are tried: from 1 % at a hundred more units to where the rate falls as their number, faster than any storage."""


def not_excluded(
    design: Design, measured: Array, explanation: Explanation, units: Array
) -> Iterator[tuple[int, float, Array]]:
    """For each kind of contention the max fraction that the data allow, and the other parameters with it.

    The fraction rises until the fit to all else is worse by the squared quantile of t, one-sided 95 %. Where the file
    system was the limit at one number of nodes alone, its rate elsewhere makes up for any contention of nodes: then the
    max that is tried is allowed.
    Args: `units`, a column for each kind: writers, nodes. Yields its column of `units`, the fraction, the parameters.
    Source: profile-likelihood interval, Venzon and Moolgavkar 1988, Applied Statistics 37(1).
    """
    if not explanation.kept[FILE_SYSTEM] or any(
        explanation.kept[j] for j, owner in enumerate(design.added_to) if owner != j
    ):
        return
    allowed = student_quantile(len(measured) - int(explanation.kept.sum())) ** 2
    for column in range(units.shape[1]):
        if np.ptp(units[:, column]) > 0:
            yield column, *_largest(design, measured, explanation, units[:, column] - 1.0, allowed)


def _largest(
    design: Design, measured: Array, explanation: Explanation, more: Array, allowed: float
) -> tuple[float, Array]:
    """The max fraction whose loss is allowed, between the tried ones by interpolation of its logarithm."""
    part, kept = design.columns(explanation.kept), explanation.kept
    parameters, share = explanation.parameters.copy(), log_seconds(design, explanation.parameters)[1][:, FILE_SYSTEM]
    typical = float(np.average(more, weights=share + 1e-12))
    base = _loss(part, measured, parameters[kept], explanation.noise)
    fraction, worse, best = 0.0, 0.0, parameters
    for tried in _FRACTIONS:
        contended = part.coefficients.copy()
        contended[:, 0] *= 1.0 + tried * more
        start = parameters.copy()
        start[FILE_SYSTEM] += np.log((1.0 + fraction * typical) / (1.0 + tried * typical))
        moved = Design(contended, part.is_shared, part.added_to, part.squarings)
        found, loss = many_fitted(moved, measured, noise=explanation.noise, start=start[None, kept])
        now = float(loss[0]) - base
        if now > allowed:
            reach = np.clip((allowed - worse) / (now - worse), 0.0, 1.0)
            between = float(tried * reach + fraction * (1 - reach))
            return between, _with(best, kept, found[0], reach)
        fraction, worse = float(tried), max(now, 0.0)
        parameters = _with(parameters, kept, found[0], 1.0)
        best = parameters
    return fraction, best


def _with(parameters: Array, kept: Mask, found: Array, reach: float) -> Array:
    moved = parameters.copy()
    moved[kept] = (1 - reach) * parameters[kept] + reach * found
    return moved


def _loss(design: Design, measured: Array, parameters: Array, noise: float) -> float:
    residuals = log_seconds(design, parameters)[0] - measured
    return float(losses(residuals, np.ones(len(residuals)), noise=noise))
