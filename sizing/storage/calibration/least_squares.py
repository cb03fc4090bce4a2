"""Robust, bounded least squares on log time: one fit by scipy, and thousands of them side by side.

Both minimise the sum over configurations of w c^2 log(1 + (r / (c s))^2) of the residuals r = log(predicted /
measured), Cauchy's loss: quadratic for residuals within the noise s, flat for outliers. With c = 2.385 an estimate
is 95 % as sharp as least squares where the noise is normal (Holland and Welsch 1977, Communications in Statistics
6(9)).
"""

from __future__ import annotations

import numpy as np

from sizing.storage.calibration.roofline import SMOOTH, Array, Design, Mask, log_seconds

_TUNING = 2.385
"""As the module says: 95 % efficiency where the noise is normal."""
_MAX_STEPS = 40
"""In 12 simulated scans (40, 12, 10 and 20 configurations, noise of 2 to 10 %) twice as many steps changed no loss by
1e-4 and no end of a bootstrap interval at all; half as many left a loss 1.2 too high."""
_MIN_GAIN = 1e-9
"""Of a loss over itself, below which a row rests. In the same scans 1e-6 moved ends of intervals by up to 5 %, 1e-12 by
0.1 %."""
_FIRST_DAMPING = 1e-3
_DAMPING_AFTER_A_GAIN, _DAMPING_AFTER_A_LOSS = 1 / 5, 6.0
_MAX_DAMPING = 1e9
"""Of Levenberg-Marquardt (Marquardt 1963, SIAM 11(2)): from nearly Gauss-Newton towards short steps downhill. A guess:
other factors find the same minimum in more or fewer steps. At the last a step changes nothing, and the row rests."""
_RIDGE = 1e-12
"""On the diagonal, so that columns which a fit leaves out do not make the matrix singular."""
_MAX_STEP = 2.0
"""Of a logarithm: no rate changes by more than a factor of 7 at once, so that no term jumps out of the maximum."""
_ROOM_BELOW = 14.0
"""Of logarithms: a term at its lower bound takes less than a millionth of the shortest time: as good as absent. With 8,
10 and 20 the same terms were kept in all of the scans."""
_ROOM_ABOVE = 1.0
"""Above the longest that a term can take if its configuration's time is exact: outliers are up to a factor of e too
fast. With 2 the same terms were kept in all of the scans, with 0.5 and with 4 in 11 of 12."""
_STARTS = ((0.0, 0.05), (-0.7, 0.3), (0.0, 0.001))
"""Shared terms from their bound, in the logarithm; serial ones as a fraction of theirs: small, large, nearly none. Each
alone ended in a worse minimum in 1 to 6 of the scans; sixteen starts found a better one than these three in one."""


def fitted(design: Design, measured: Array, *, noise: float) -> Array:
    """The parameters that explain the measured log seconds best, by scipy from several starts.

    Args: `measured`, log seconds by configuration; `noise` s of the loss. Returns u, one per term.
    Source: scipy.optimize.least_squares, trust region reflective: Branch, Coleman and Li 1999, SIAM Journal on
    Scientific Computing 21(1).

    >>> moved = Design(np.array([[2.0], [8.0]]), np.array([True]))  # 2 and 8 GB
    >>> round(float(np.exp(-fitted(moved, np.log([1.0, 4.0]), noise=0.05)[0])), 6)  # GB/s
    2.0
    """
    from scipy.optimize import least_squares  # noqa: PLC0415 - half a second that only fitting needs

    lower, upper = bounds(design, measured)
    best: tuple[float, Array] | None = None
    for start in starts(design, measured):
        point = start
        for squarings in _squarings(design):

            def residuals(parameters: Array, squarings: int = squarings) -> Array:
                return log_seconds(design, parameters, squarings=squarings)[0] - measured

            def slopes(parameters: Array, squarings: int = squarings) -> Array:
                return log_seconds(design, parameters, squarings=squarings)[1]

            found = least_squares(
                residuals,
                point,
                jac=slopes,
                bounds=(lower, upper),
                loss="cauchy",
                f_scale=_TUNING * noise,
                method="trf",
            )
            point = np.clip(found.x, lower + 1e-9, upper - 1e-9)
        if best is None or found.cost < best[0]:
            best = (float(found.cost), point)
    assert best is not None  # noqa: S101 - there are starts
    return best[1]


def many_fitted(
    design: Design,
    measured: Array,
    *,
    noise: float,
    start: Array,
    weights: Array | None = None,
    squarings: tuple[int, ...] | None = None,
) -> tuple[Array, Array]:
    """Parameters and losses (in units of s^2) of many fits at once, by damped Gauss-Newton steps.

    Args: `measured` log seconds and `weights` with a row per fit, or one row for all; `start` with a row per fit,
    -inf in the columns that a fit leaves out. Returns arrays with a row per fit.
    Source: Marquardt 1963, SIAM Journal 11(2); the weights of the loss as Holland and Welsch 1977 iterate them.

    >>> moved, seconds = Design(np.array([[2.0], [8.0]]), np.array([True])), np.log([[1.0, 4.0], [0.5, 2.0]])
    >>> parameters, losses = many_fitted(moved, seconds, noise=0.05, start=np.zeros((2, 1)))
    >>> np.exp(-parameters).round(6).tolist(), losses.round(6).tolist()
    ([[2.0], [4.0]], [0.0, 0.0])
    """
    lower, upper = bounds(design, np.atleast_2d(measured).min(axis=0))
    parameters = np.where(np.isneginf(start), start, np.clip(start, lower, upper))
    weights = np.ones(design.coefficients.shape[0]) if weights is None else weights
    loss = np.zeros(len(parameters))
    for sharpness in (design.squarings,) if squarings is None else squarings:
        parameters, loss = _descended(design, measured, weights, noise, parameters, (lower, upper), sharpness)
    return parameters, loss


def fitted_columns(design: Design, measured: Array, kept: Mask, noise: float) -> tuple[Array, float]:
    """The polished fit of some columns, -inf in the others, and its loss in units of s^2.

    Args: `kept`, the columns; `noise` s.
    Source: `fitted`, then `many_fitted`.

    >>> design = Design(np.array([[2.0, 1.0], [8.0, 1.0]]), np.array([True, False]))
    >>> parameters, loss = fitted_columns(design, np.log([1.0, 4.0]), np.array([True, False]), 0.05)
    >>> np.exp(-parameters).round(6).tolist(), round(loss, 6)
    ([2.0, inf], 0.0)
    """
    part = design.columns(kept)
    parameters = np.full(design.num_terms, -np.inf)
    polished, loss = many_fitted(part, measured, noise=noise, start=fitted(part, measured, noise=noise)[None])
    parameters[kept] = polished[0]
    return parameters, float(loss[0])


def best_fits(design: Design, measured: Array, masks: list[Mask], noise: float) -> tuple[Array, Array]:
    """The best fit of each set of columns over all starts, and its loss in units of s^2.

    Args: `masks`, the sets; `noise` s. Returns arrays with a row per set.
    Source: `many_fitted` from each of `starts`.

    >>> design = Design(np.array([[2.0, 1.0], [8.0, 1.0]]), np.array([True, False]))
    >>> sets = [np.array([True, False]), np.array([True, True])]
    >>> parameters, _ = best_fits(design, np.log([1.5, 4.5]), sets, 0.05)
    >>> np.exp(-parameters[1, 0]).round(3), np.exp(parameters[1, 1]).round(3)  # 2 GB/s and half a second
    (np.float64(2.0), np.float64(0.5))
    """
    points = np.array([np.where(mask, start, -np.inf) for start in starts(design, measured) for mask in masks])
    parameters, found = many_fitted(design, measured, noise=noise, start=points, squarings=_squarings(design))
    shape = (-1, len(masks))
    best = found.reshape(shape).argmin(axis=0)
    rows = best * len(masks) + np.arange(len(masks))
    return parameters[rows], found[rows]


def starts(design: Design, measured: Array) -> list[Array]:
    """Where fits begin: every shared term at or below the longest that it can be, serial ones at fractions of that.

    u_j = log(min over i of T_i / c_ij) + a for shared terms, + log b for serial ones, for each (a, b) of _STARTS.
    Source: chosen, with the reason at _STARTS.

    >>> [start.round(3).tolist() for start in starts(Design(np.array([[2.0]]), np.array([True])), np.log([2.0]))]
    [[0.0], [-0.7], [0.0]]
    """
    _, upper = bounds(design, measured)
    longest = upper - _ROOM_ABOVE
    return [np.where(design.is_shared, longest + shared, longest + np.log(serial)) for shared, serial in _STARTS]


def bounds(design: Design, measured: Array) -> tuple[Array, Array]:
    """The range of each parameter: no term may take longer than e times the shortest time that it is part of.

    log(min over i of T_i / c_ij) - 14 <= u_j <= log(min over i of T_i / c_ij) + 1.
    Source: every term is part of T_i; how far beyond is chosen, with the reason at _ROOM_BELOW and _ROOM_ABOVE.

    >>> low, high = bounds(Design(np.array([[2.0], [4.0]]), np.array([True])), np.log([2.0, 8.0]))
    >>> low.tolist(), high.tolist()
    ([-14.0], [1.0])
    """
    with np.errstate(divide="ignore"):
        longest = (measured[:, None] - np.log(design.coefficients)).min(axis=0)
    return longest - _ROOM_BELOW, longest + _ROOM_ABOVE


def losses(residuals: Array, weights: Array, *, noise: float) -> Array:
    """The loss of each row of residuals r, in units of s^2: sum of w c^2 log(1 + (r / (c s))^2).

    Args: `weights` w; `noise` s.
    Source: Cauchy's, as the module says.

    >>> round(float(losses(np.array([0.1]), np.ones(1), noise=0.1)), 4)  # one noise off: a little less than 1
    0.9212
    """
    return np.asarray((weights * _TUNING**2 * np.log1p((residuals / (_TUNING * noise)) ** 2)).sum(axis=-1))


def _squarings(design: Design) -> tuple[int, ...]:
    """A smooth maximum first, then that of the design."""
    return (min(SMOOTH, design.squarings), design.squarings)


def _descended(
    design: Design,
    measured: Array,
    weights: Array,
    noise: float,
    parameters: Array,
    limits: tuple[Array, Array],
    squarings: int,
) -> tuple[Array, Array]:
    """Levenberg-Marquardt on every row at once; rows that gain nothing more rest."""
    measured = np.broadcast_to(measured, (len(parameters), design.coefficients.shape[0]))
    weights = np.broadcast_to(weights, measured.shape)
    parameters = parameters.copy()
    predicted, slopes = log_seconds(design, parameters, squarings=squarings)
    residuals = predicted - measured
    loss = losses(residuals, weights, noise=noise)
    damping = np.full(len(parameters), _FIRST_DAMPING)
    moving = np.arange(len(parameters))
    for _ in range(_MAX_STEPS):
        step = _steps(slopes[moving], residuals[moving], weights[moving], noise, damping[moving])
        tried = np.clip(parameters[moving] + step, *limits)
        tried = np.where(np.isneginf(parameters[moving]), -np.inf, tried)
        new_predicted, new_slopes = log_seconds(design, tried, squarings=squarings)
        new_residuals = new_predicted - measured[moving]
        new_loss = losses(new_residuals, weights[moving], noise=noise)
        gain = loss[moving] - new_loss
        better = gain > 0
        rows = moving[better]
        parameters[rows], residuals[rows], slopes[rows] = tried[better], new_residuals[better], new_slopes[better]
        loss[rows] = new_loss[better]
        damping[moving] *= np.where(better, _DAMPING_AFTER_A_GAIN, _DAMPING_AFTER_A_LOSS)
        rests = (better & (gain < _MIN_GAIN * (1 + new_loss))) | (damping[moving] > _MAX_DAMPING)
        moving = moving[~rests]
        if not len(moving):
            break
    return parameters, loss


def _steps(slopes: Array, residuals: Array, weights: Array, noise: float, damping: Array) -> Array:
    """The damped Gauss-Newton step of each row, no parameter by more than e^2."""
    weighted = slopes * (weights / (1 + (residuals / (_TUNING * noise)) ** 2))[..., None]
    curvature = weighted.swapaxes(-1, -2) @ slopes
    gradient = (weighted * residuals[..., None]).sum(axis=-2)
    diagonal = np.arange(slopes.shape[-1])
    curvature[:, diagonal, diagonal] *= 1 + damping[:, None]
    curvature[:, diagonal, diagonal] += _RIDGE
    step = -np.linalg.solve(curvature, gradient[..., None])[..., 0]
    return np.asarray(np.clip(step, -_MAX_STEP, _MAX_STEP))
