"""How sure a fit is: bootstrap draws, errors for what was left out, and contention that the data do not exclude."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sizing.storage.calibration.calibration import INTERVAL_TAIL, NORMAL_QUANTILE, Axis
from sizing.storage.calibration.least_squares import (
    SHARP,
    Design,
    Mask,
    fit_many,
    largest_shared,
    log_seconds,
    losses,
)
from sizing.storage.calibration.limit_shape import FILE_SYSTEM
from sizing.storage.calibration.term_selection import MIN_NOISE_FRACTION, TermSelection
from sizing.storage.terms import Demand
from sizing.storage.transfer import Floats, Numbers

_MAX_LEVERAGE = 0.9
"""A configuration that alone decides a limit has leverage 1, and its residual would be divided by 0; at 0.9 it is made
three times as large."""

_MIN_SHARE = 0.05
"""Share of a time from which on a configuration says something of a term. A guess: below, noise of 5 % hides it."""

_SAME = 0.99
"""Bytes of one number differ by headers of files."""

MIN_RUNS = 3
"""Min of runs whose differences say how much the storage differs between days."""
_CHANCE = 0.05
"""Probability with which runs of storage that stayed the same are taken to differ."""

_FRACTIONS = np.geomspace(1e-4, 10.0, 11)
"""Fractions that are tried: from 1 % at a hundred more units to where the rate falls as their number, faster than any
storage."""


def bootstrap(
    design: Design,
    measured: Floats,
    selection: TermSelection,
    *,
    num_draws: int,
    seed: int,
    runs: Sequence[object] = (),
) -> Floats:
    """Parameters refitted to resampled data, a row per draw.

    Residual bootstrap: predicted log seconds + residuals drawn with replacement, each first divided by
    sqrt(1 - leverage), so that the design stays and configurations at its edges count as unsure as they are; few
    degrees of freedom widen them by the ratio of Student's to the normal quantile. Where there are none, the residuals
    are zero and say nothing: the noise that is assumed then stands for them. Where three runs or more differ beyond
    chance, each draw has for every run the mean residual of one of them, drawn too: what a day does to all that it
    measured does not average out over its configurations.
    Args: `measured` log seconds by configuration; `runs`, the run of each.
    Source: Davison and Hinkley 1997, Bootstrap Methods and their Application, section 6.2.

    >>> moved, exact = Design(np.array([[2.0], [8.0]]), np.array([True])), TermSelection(-np.log([2.0]), 0.05, (), {})
    >>> np.exp(-bootstrap(moved, np.log([1.0, 4.0]), exact, num_draws=3, seed=0)).round(6).tolist()  # no residuals
    [[2.0], [2.0], [2.0]]
    """
    predicted, slopes = log_seconds(design, selection.parameters)
    shape, generator = (num_draws, len(measured)), np.random.default_rng(seed)
    if selection.is_checked_by(len(measured)):
        residuals = (measured - predicted) / np.sqrt(1 - _leverages(slopes[:, selection.kept]))
        of_run, effects = run_effects(residuals, runs)
        errors = (residuals - effects[of_run])[generator.integers(len(measured), size=shape)]
    else:
        of_run, effects = run_effects(measured, ())
        errors = generator.normal(0.0, selection.noise, shape)
    errors *= student_over_normal(len(measured) - int(selection.kept.sum()))
    if (num_runs := len(effects)) > 1:
        widened = effects * (num_runs / (num_runs - 1)) ** 0.5 * student_over_normal(num_runs - 1)
        errors += widened[generator.integers(num_runs, size=(num_draws, num_runs))][:, of_run]
    kept = selection.kept
    draws = np.tile(selection.parameters, (num_draws, 1))
    part = design.columns(kept)
    draws[:, kept] = fit_many(part, predicted + errors, noise=selection.noise, start=draws[:, kept])[0]
    return draws


def run_effects(residuals: Floats, runs: Sequence[object]) -> tuple[npt.NDArray[np.intp], Floats]:
    """The mean residual of each run, where three or more runs differ beyond chance; else one run of effect 0.

    Analysis of variance of one way: the variance between the means of runs over that within them, an F test at 5 %. Of
    two runs the variance between them is unknown within a factor of ten.
    Args: `residuals` of log seconds, `runs` of each. Returns the place of each residual's run, and the effects.
    Source: Fisher 1925, Statistical Methods for Research Workers, section 40.

    >>> of_run, effects = run_effects(np.array([0.1, 0.1, 0.1, -0.1, -0.1, -0.1, 0.0, 0.0, 0.03]), list("aaabbbccc"))
    >>> of_run.tolist(), effects.round(2).tolist()
    ([0, 0, 0, 1, 1, 1, 2, 2, 2], [0.1, -0.1, 0.01])
    """
    from scipy.special import fdtri  # noqa: PLC0415 - only fitting needs it

    names = list(dict.fromkeys(runs))
    of_run = np.array([names.index(run) for run in runs], dtype=np.intp)
    if len(names) >= MIN_RUNS and len(residuals) > len(names):
        counts = np.bincount(of_run)
        effects = np.bincount(of_run, residuals) / counts - residuals.mean()
        within = ((residuals - residuals.mean() - effects[of_run]) ** 2).sum() / (len(residuals) - len(names))
        between = (counts * effects**2).sum() / (len(names) - 1)
        if between > fdtri(len(names) - 1, len(residuals) - len(names), 1 - _CHANCE) * within:
            return of_run, effects
    return np.zeros(len(residuals), dtype=np.intp), np.zeros(1)


def predict_held_out(design: Design, measured: Floats, selection: TermSelection, groups: Sequence[object]) -> Floats:
    """What the fit to all other configurations predicts for each: leave-one-configuration-out.

    Args: `measured` log seconds; `groups`, the configuration of each, of which those of one are left out together.
    Source: cross-validation, Stone 1974, Journal of the Royal Statistical Society B 36(2).

    >>> moved, found = Design(np.array([[2.0], [8.0]]), np.array([True])), TermSelection(-np.log([2.0]), 0.05, (), {})
    >>> np.exp(predict_held_out(moved, np.log([1.0, 2.0]), found, ["small", "large"])).round(6).tolist()
    [0.5, 4.0]
    """
    names = list(dict.fromkeys(groups))
    weights = np.array([[float(group != name) for group in groups] for name in names])
    part, kept = design.columns(selection.kept), selection.kept
    start = np.tile(selection.parameters[kept], (len(names), 1))
    fits = fit_many(part, measured, noise=selection.noise, start=start, weights=weights)[0]
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


def interval(draws: Floats) -> tuple[float, float]:
    """The interval that holds 90 % of the draws, as much left out below as above.

    Source: the percentile interval, Davison and Hinkley 1997, section 5.3.

    >>> interval(np.arange(101.0))
    (5.0, 95.0)
    """
    low, high = np.quantile(draws, [INTERVAL_TAIL, 1 - INTERVAL_TAIL])
    return float(low), float(high)


def _leverages(slopes: Floats) -> Floats:
    """The diagonal of the hat matrix of the linearised fit."""
    orthogonal, _ = np.linalg.qr(slopes)
    return np.asarray(np.minimum((orthogonal**2).sum(axis=1), _MAX_LEVERAGE))


@dataclass(frozen=True, slots=True)
class HeldOutFrontier:
    """The configurations with the max of an axis, and the log seconds that the fit to all others predicts.

    `unseen` are the terms that no other configuration shows, and that this prediction does without.
    """

    axis: Axis
    rows: Mask
    log_seconds: Floats
    unseen: Mask


def frontier_masks(demand: Demand) -> dict[Axis, Mask]:
    """The measurements with the max of nodes, of ranks in all, and of bytes in all; an axis of one value has none.

    >>> masks = frontier_masks(Demand(np.array([8.0, 4.0, 4.0]), np.array([2.0, 2.0, 1.0]), np.ones(3), np.ones(3)))
    >>> {axis: mask.tolist() for axis, mask in masks.items()}
    {'ranks': [True, True, False], 'bytes': [True, False, False]}
    """
    figures: dict[Axis, Numbers] = {"nodes": demand.num_nodes, "ranks": demand.num_streams, "bytes": demand.total_bytes}
    masks = {axis: np.asarray(values) >= _SAME * np.max(values) for axis, values in figures.items()}
    return {axis: mask for axis, mask in masks.items() if not mask.all()}


def predict_frontiers(
    design: Design, measured: Floats, selection: TermSelection, demand: Demand, groups: Sequence[object]
) -> Iterator[HeldOutFrontier]:
    """Each frontier with its prediction from inside; those without which nothing could be fitted are left out.

    Args: `measured` log seconds; `groups`, the configuration of each.
    Source: forward validation, as for time series (Hyndman and Athanasopoulos 2021, Forecasting, section 5.10): errors
    of extrapolation show only where the fit ends before the data.
    """
    slopes, shows = log_seconds(design, selection.parameters)[1], _shows(design, selection)
    for axis, mask in frontier_masks(demand).items():
        seen = selection.kept & (slopes[~mask].max(axis=0) >= _MIN_SHARE) & shows[~mask].any(axis=0)
        seen &= seen[list(design.added_to)] if design.added_to else True
        inside = {group for group, is_left_out in zip(groups, mask, strict=True) if not is_left_out}
        if not (seen & design.is_shared).any() or len(inside) <= seen.sum():
            continue
        part, parameters = design.columns(seen), np.full(design.num_terms, -np.inf)
        start, weights = selection.parameters[None, seen], np.where(mask, 0.0, 1.0)
        parameters[seen] = fit_many(part, measured, noise=selection.noise, start=start, weights=weights)[0][0]
        predicted = log_seconds(design, parameters)[0]
        yield HeldOutFrontier(axis, mask, predicted, selection.kept & ~seen)


def _shows(design: Design, selection: TermSelection) -> Mask:
    """Whether a configuration (rows) says something of a term (columns).

    In a maximum a rate shows only where it is the slowest, and not by less than the noise: a limit that is nearly
    reached can have any value above. Of times that add, and of soft knees, every configuration may show a part.
    """
    shows = np.ones(design.coefficients.shape, dtype=bool)
    if design.squarings != SHARP:
        return shows
    slowest, _ = largest_shared(design, selection.parameters)
    owners = np.array(design.added_to or range(design.num_terms))
    for column in np.flatnonzero(selection.kept & design.is_shared & (owners == np.arange(design.num_terms))):
        others = np.where(owners == column, -np.inf, selection.parameters)
        shows[:, column] = slowest > (1 + MIN_NOISE_FRACTION + selection.noise) * largest_shared(design, others)[0]
    return shows


def max_contentions(
    design: Design, measured: Floats, selection: TermSelection, units: Floats
) -> Iterator[tuple[int, float, Floats]]:
    """For each kind of contention the max fraction that the data allow, and the other parameters with it.

    The fraction rises until the fit to all else is worse by the squared quantile of t, one-sided 95 %. Where the file
    system was the limit at one number of nodes alone, its rate elsewhere makes up for any contention of nodes: then the
    max that is tried is allowed.
    Args: `units`, a column for each kind: writers, nodes. Yields its column of `units`, the fraction, the parameters.
    Source: profile-likelihood interval, Venzon and Moolgavkar 1988, Applied Statistics 37(1).
    """
    if not selection.kept[FILE_SYSTEM] or any(
        selection.kept[j] for j, owner in enumerate(design.added_to) if owner != j
    ):
        return
    allowed = student_quantile(len(measured) - int(selection.kept.sum())) ** 2
    for column in range(units.shape[1]):
        if np.ptp(units[:, column]) > 0:
            yield column, *_largest(design, measured, selection, units[:, column] - 1.0, allowed)


def _largest(
    design: Design, measured: Floats, selection: TermSelection, more: Floats, allowed: float
) -> tuple[float, Floats]:
    """The max fraction whose loss is allowed, between the tried ones by interpolation of its logarithm."""
    part, kept = design.columns(selection.kept), selection.kept
    parameters, share = selection.parameters.copy(), log_seconds(design, selection.parameters)[1][:, FILE_SYSTEM]
    typical = float(np.average(more, weights=share + 1e-12))
    base = _loss(part, measured, parameters[kept], selection.noise)
    fraction, worse, best = 0.0, 0.0, parameters
    for tried in _FRACTIONS:
        contended = part.coefficients.copy()
        contended[:, 0] *= 1.0 + tried * more
        start = parameters.copy()
        start[FILE_SYSTEM] += np.log((1.0 + fraction * typical) / (1.0 + tried * typical))
        moved = Design(contended, part.is_shared, part.added_to, part.squarings)
        found, loss = fit_many(moved, measured, noise=selection.noise, start=start[None, kept])
        now = float(loss[0]) - base
        if now > allowed:
            reach = np.clip((allowed - worse) / (now - worse), 0.0, 1.0)
            between = float(tried * reach + fraction * (1 - reach))
            return between, _with(best, kept, found[0], reach)
        fraction, worse = float(tried), max(now, 0.0)
        parameters = _with(parameters, kept, found[0], 1.0)
        best = parameters
    return fraction, best


def _with(parameters: Floats, kept: Mask, found: Floats, reach: float) -> Floats:
    moved = parameters.copy()
    moved[kept] = (1 - reach) * parameters[kept] + reach * found
    return moved


def _loss(design: Design, measured: Floats, parameters: Floats, noise: float) -> float:
    residuals = log_seconds(design, parameters)[0] - measured
    return float(losses(residuals, np.ones(len(residuals)), noise=noise))
