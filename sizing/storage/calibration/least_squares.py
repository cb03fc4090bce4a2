"""The transfer model as fitted, and robust, bounded least squares on log time.

    T_i = sum over serial terms of c_ij x_j + max over shared resources of sum of c_ij x_j,        x_j = exp(u_j)

over configurations i. A resource has one term, or several that add up: what moving the bytes takes and what contention
adds to it. A soft knee is a p-norm in place of the maximum. The coefficients c are the terms of `storage.terms` at a
rate of 1 or a time of 1 s, so x is the inverse of a rate, or a time. In log T every slope is the term's share of the
time, between 0 and 1.

One fit is made by scipy, and thousands of them side by side here. Both minimise the sum over configurations of
w c^2 log(1 + (r / (c s))^2) of the residuals r = log(predicted / measured), Cauchy's loss: quadratic for residuals
within the noise s, flat for outliers. With c = 2.385 an estimate is 95 % as sharp as least squares where the noise is
normal (Holland and Welsch 1977, Communications in Statistics 6(9)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from sizing.storage.transfer import Floats

Mask = npt.NDArray[np.bool_]

SHARP = 6
"""Squarings of the smooth maximum that stands for the maximum: power 64, 1.1 % above it where two terms are equal."""

SMOOTH = 3
"""Squarings with which a fit begins: power 8."""

_TUNING = 2.385
"""Tuning constant c of the loss, as the module says: 95 % efficiency where the noise is normal."""

_MAX_STEPS = 40
"""In 12 simulated scans (40, 12, 10 and 20 configurations, noise of 2 to 10 %) twice as many steps changed no loss by
1e-4 and no end of a bootstrap interval at all; half as many left a loss 1.2 too high."""

_MIN_GAIN = 1e-9
"""Relative gain of a loss below which a row rests. In the same scans 1e-6 moved ends of intervals by up to 5 %, 1e-12
by 0.1 %."""

_FIRST_DAMPING = 1e-3
_DAMPING_AFTER_A_GAIN, _DAMPING_AFTER_A_LOSS = 1 / 5, 6.0
_MAX_DAMPING = 1e9
"""Damping of Levenberg-Marquardt (Marquardt 1963, SIAM 11(2)): from nearly Gauss-Newton towards short steps downhill. A
guess: other factors find the same minimum in more or fewer steps. At the last a step changes nothing, and the row
rests."""

_RIDGE = 1e-12
"""On the diagonal, so that columns which a fit leaves out do not make the matrix singular."""

_MAX_STEP = 2.0
"""Max step of a logarithm: no rate changes by more than a factor of 7 at once, so that no term jumps out of the
maximum."""

_ROOM_BELOW = 14.0
"""Distance of logarithms: a term at its lower bound takes less than a millionth of the shortest time: as good as
absent. With 8, 10 and 20 the same terms were kept in all of the scans."""

MAX_RATE_OVER_SEEN = 10.0
"""Max rate over the highest that any run got: in a maximum, and where contention is added to it. Beyond, a term takes
less than a tenth of every time, and a fit would make any number of it."""

_ROOM_ABOVE = 1.0
"""Above the longest that a term can take if its configuration's time is exact: outliers are up to a factor of e too
fast. With 2 the same terms were kept in all of the scans, with 0.5 and with 4 in 11 of 12."""

_STARTS = ((0.0, 0.05), (-0.7, 0.3), (0.0, 0.001))
"""Shared terms from their bound, in the logarithm; serial ones as a fraction of theirs: small, large, nearly none. Each
alone ended in a worse minimum in 1 to 6 of the scans; sixteen starts found a better one than these three in one."""


@dataclass(frozen=True, slots=True)
class Design:
    """Coefficients of the terms: a row per configuration, a column per term; which columns are of shared resources.

    `added_to` has, for each column, the column whose resource it is part of; without it each is a resource of its own.
    `squarings` k is the sharpness of the knee where one resource takes over from another: p = 2^k.
    """

    coefficients: Floats
    is_shared: Mask
    added_to: tuple[int, ...] = ()
    squarings: int = SHARP

    @property
    def num_terms(self) -> int:
        """Number of terms, which are the columns of the design."""
        return len(self.is_shared)

    def rows(self, chosen: Mask) -> Design:
        """Keep the rows of some of the configurations."""
        return replace(self, coefficients=self.coefficients[chosen])

    def columns(self, chosen: Mask) -> Design:
        """The design of some of the terms, each with the term that it is added to."""
        places = np.cumsum(chosen) - 1
        added_to = tuple(int(places[self.added_to[j]]) for j in np.flatnonzero(chosen)) if self.added_to else ()
        return replace(
            self, coefficients=self.coefficients[:, chosen], is_shared=self.is_shared[chosen], added_to=added_to
        )

    @property
    def is_claimed(self) -> Mask:
        """Mask of the shared resources of which a fit claims a rate: all in a maximum, else what contention adds to."""
        owners = np.array(self.added_to or range(self.num_terms))
        owns = owners == np.arange(self.num_terms)
        is_added_to = np.bincount(owners, minlength=self.num_terms) > 1
        return np.asarray(self.is_shared & owns & ((self.squarings == SHARP) | is_added_to))

    def resources(self) -> Floats | None:
        """1 where a shared column (rows) is part of a resource (columns); None where each is one of its own."""
        if all(place == j for j, place in enumerate(self.added_to)):
            return None
        owners = np.array(self.added_to)[self.is_shared]
        return np.asarray(owners[:, None] == np.unique(owners), dtype=np.float64)


def log_seconds(design: Design, parameters: Floats, *, squarings: int | None = None) -> tuple[Floats, Floats]:
    """Log T by configuration i, and its slopes by configuration and term.

    T_i = sum over serial j of c_ij x_j + (sum over shared resources r of (sum over j in r of c_ij x_j)^p)^(1/p),
    x_j = e^(u_j), p = 2^k. The slope d log T_i / d u_j is the share of T_i that the term takes.
    Args: `parameters` u, in the last axis one per term, -inf where the term is left out; other axes are kept.
    `squarings` k, where not that of the design. Returns two arrays, of shapes (..., configurations) and
    (..., configurations, terms).
    Source: `transfer.transfer_seconds`, with a p-norm for the maximum, which of n terms is at most n^(1/p) times too
    long, and has slopes everywhere.

    >>> design = Design(np.array([[1.0, 1.0, 3.0]]), np.array([True, True, False]))
    >>> logs, slopes = log_seconds(design, np.zeros(3))
    >>> round(float(np.exp(logs[0])) - 3.0, 4) == round(2 ** (1 / 64), 4), slopes[0].round(2).tolist()
    (True, [0.13, 0.13, 0.75])
    """
    squarings = design.squarings if squarings is None else squarings
    terms = design.coefficients * np.exp(parameters)[..., None, :]
    columns, resources = terms[..., design.is_shared], design.resources()
    shared = columns if resources is None else columns @ resources
    largest = shared.max(axis=-1, keepdims=True)
    powers = shared / largest
    for _ in range(squarings):
        powers = powers * powers
    total = powers.sum(axis=-1, keepdims=True)
    slowest = largest * total ** (0.5**squarings)
    seconds = terms[..., ~design.is_shared].sum(axis=-1, keepdims=True) + slowest
    slopes = terms / seconds
    shares = slowest / seconds * powers / total
    if resources is not None:
        shares = columns * ((shares / np.where(shared > 0, shared, 1.0)) @ resources.T)
    slopes[..., design.is_shared] = shares
    return np.log(seconds[..., 0]), slopes


def largest_shared(design: Design, parameters: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
    """Seconds of the slowest shared resource by configuration, and its column: max over j of c_ij e^(u_j).

    Of a resource of several terms the column that the others are added to stands for all.

    Args: `parameters` u, one per term.
    Source: `transfer.transfer_seconds`.

    >>> design = Design(np.array([[1.0, 2.0, 9.0]]), np.array([True, True, False]))
    >>> seconds, column = largest_shared(design, np.zeros(3))
    >>> seconds.tolist(), column.tolist()
    ([2.0], [1])
    """
    terms = np.where(design.is_shared, design.coefficients * np.exp(parameters), 0.0)
    for j, owner in enumerate(design.added_to):
        if owner != j and design.is_shared[j]:
            terms[:, owner] += terms[:, j]
            terms[:, j] = 0.0
    terms = np.where(design.is_shared, terms, -1.0)
    column = terms.argmax(axis=-1)
    return np.take_along_axis(terms, column[:, None], axis=-1)[:, 0], column


def fit_one(design: Design, measured: Floats, *, noise: float) -> Floats:
    """The parameters that explain the measured log seconds best, by scipy from several starts.

    Args: `measured`, log seconds by configuration; `noise` s of the loss. Returns u, one per term.
    Source: scipy.optimize.least_squares, trust region reflective: Branch, Coleman and Li 1999, SIAM Journal on
    Scientific Computing 21(1).

    >>> moved = Design(np.array([[2.0], [8.0]]), np.array([True]))  # 2 and 8 GB
    >>> round(float(np.exp(-fit_one(moved, np.log([1.0, 4.0]), noise=0.05)[0])), 6)  # GB/s
    2.0
    """
    from scipy.optimize import least_squares  # noqa: PLC0415 - half a second that only fitting needs

    lower, upper = bounds(design, measured)
    best: tuple[float, Floats] | None = None
    for start in starts(design, measured):
        point = start
        for squarings in _squarings(design):

            def residuals(parameters: Floats, squarings: int = squarings) -> Floats:
                return log_seconds(design, parameters, squarings=squarings)[0] - measured

            def slopes(parameters: Floats, squarings: int = squarings) -> Floats:
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


def fit_many(
    design: Design,
    measured: Floats,
    *,
    noise: float,
    start: Floats,
    weights: Floats | None = None,
    squarings: tuple[int, ...] | None = None,
) -> tuple[Floats, Floats]:
    """Parameters and losses (in units of s^2) of many fits at once, by damped Gauss-Newton steps.

    Args: `measured` log seconds and `weights` with a row per fit, or one row for all; `start` with a row per fit,
    -inf in the columns that a fit leaves out. Returns arrays with a row per fit.
    Source: Marquardt 1963, SIAM Journal 11(2); the weights of the loss as Holland and Welsch 1977 iterate them.

    >>> moved, seconds = Design(np.array([[2.0], [8.0]]), np.array([True])), np.log([[1.0, 4.0], [0.5, 2.0]])
    >>> parameters, losses = fit_many(moved, seconds, noise=0.05, start=np.zeros((2, 1)))
    >>> np.exp(-parameters).round(6).tolist(), losses.round(6).tolist()
    ([[2.0], [4.0]], [0.0, 0.0])
    """
    lower, upper = bounds(design, np.atleast_2d(measured).min(axis=0))
    parameters = np.where(np.isneginf(start), start, np.clip(start, lower, upper))
    weights = np.ones(design.coefficients.shape[0]) if weights is None else weights
    loss = np.zeros(len(parameters))
    for sharpness in (design.squarings,) if squarings is None else squarings:
        parameters, loss = _descend(design, measured, weights, noise, parameters, (lower, upper), sharpness)
    return parameters, loss


def fit_columns(design: Design, measured: Floats, kept: Mask, noise: float) -> tuple[Floats, float]:
    """The polished fit of some columns, -inf in the others, and its loss in units of s^2.

    Args: `kept`, the columns; `noise` s.
    Source: `fit_one`, then `fit_many`.

    >>> design = Design(np.array([[2.0, 1.0], [8.0, 1.0]]), np.array([True, False]))
    >>> parameters, loss = fit_columns(design, np.log([1.0, 4.0]), np.array([True, False]), 0.05)
    >>> np.exp(-parameters).round(6).tolist(), round(loss, 6)
    ([2.0, inf], 0.0)
    """
    part = design.columns(kept)
    parameters = np.full(design.num_terms, -np.inf)
    polished, loss = fit_many(part, measured, noise=noise, start=fit_one(part, measured, noise=noise)[None])
    parameters[kept] = polished[0]
    return parameters, float(loss[0])


def find_best_fits(design: Design, measured: Floats, masks: list[Mask], noise: float) -> tuple[Floats, Floats]:
    """The best fit of each set of columns over all starts, and its loss in units of s^2.

    Args: `masks`, the sets; `noise` s. Returns arrays with a row per set.
    Source: `fit_many` from each of `starts`.

    >>> design = Design(np.array([[2.0, 1.0], [8.0, 1.0]]), np.array([True, False]))
    >>> sets = [np.array([True, False]), np.array([True, True])]
    >>> parameters, _ = find_best_fits(design, np.log([1.5, 4.5]), sets, 0.05)
    >>> np.exp(-parameters[1, 0]).round(3), np.exp(parameters[1, 1]).round(3)  # 2 GB/s and half a second
    (np.float64(2.0), np.float64(0.5))
    """
    points = np.array([np.where(mask, start, -np.inf) for start in starts(design, measured) for mask in masks])
    parameters, found = fit_many(design, measured, noise=noise, start=points, squarings=_squarings(design))
    shape = (-1, len(masks))
    best = found.reshape(shape).argmin(axis=0)
    rows = best * len(masks) + np.arange(len(masks))
    return parameters[rows], found[rows]


def starts(design: Design, measured: Floats) -> list[Floats]:
    """Where fits begin: every shared term at or below the longest that it can be, serial ones at fractions of that.

    u_j = log(min over i of T_i / c_ij) + a for shared terms, + log b for serial ones, for each (a, b) of _STARTS.
    Source: chosen, with the reason at _STARTS.

    >>> [start.round(3).tolist() for start in starts(Design(np.array([[2.0]]), np.array([True])), np.log([2.0]))]
    [[0.0], [-0.7], [0.0]]
    """
    _, upper = bounds(design, measured)
    longest = upper - _ROOM_ABOVE
    return [np.where(design.is_shared, longest + shared, longest + np.log(serial)) for shared, serial in _STARTS]


def bounds(design: Design, measured: Floats) -> tuple[Floats, Floats]:
    """The range of each parameter: no term may take longer than e times the shortest time that it is part of.

    log(min over i of T_i / c_ij) - 14 <= u_j <= log(min over i of T_i / c_ij) + 1. A shared resource takes at least a
    tenth of that time where the slowest hides the others, and where contention is added to it: there an even shorter
    one is not told from one that is absent.
    Source: every term is part of T_i; how far beyond is chosen, with the reason at _ROOM_BELOW, _ROOM_ABOVE and
    MAX_RATE_OVER_SEEN.

    >>> low, high = bounds(Design(np.array([[2.0], [4.0]]), np.array([True])), np.log([2.0, 8.0]))
    >>> low.round(3).tolist(), high.tolist()
    ([-2.303], [1.0])
    """
    with np.errstate(divide="ignore"):
        longest = (measured[:, None] - np.log(design.coefficients)).min(axis=0)
    below = np.where(design.is_claimed, np.log(MAX_RATE_OVER_SEEN), _ROOM_BELOW)
    return longest - below, longest + _ROOM_ABOVE


def losses(residuals: Floats, weights: Floats, *, noise: float) -> Floats:
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


def _descend(
    design: Design,
    measured: Floats,
    weights: Floats,
    noise: float,
    parameters: Floats,
    limits: tuple[Floats, Floats],
    squarings: int,
) -> tuple[Floats, Floats]:
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


def _steps(slopes: Floats, residuals: Floats, weights: Floats, noise: float, damping: Floats) -> Floats:
    """The damped Gauss-Newton step of each row, no parameter by more than e^2."""
    weighted = slopes * (weights / (1 + (residuals / (_TUNING * noise)) ** 2))[..., None]
    curvature = weighted.swapaxes(-1, -2) @ slopes
    gradient = (weighted * residuals[..., None]).sum(axis=-2)
    diagonal = np.arange(slopes.shape[-1])
    curvature[:, diagonal, diagonal] *= 1 + damping[:, None]
    curvature[:, diagonal, diagonal] += _RIDGE
    step = -np.linalg.solve(curvature, gradient[..., None])[..., 0]
    return np.asarray(np.clip(step, -_MAX_STEP, _MAX_STEP))
