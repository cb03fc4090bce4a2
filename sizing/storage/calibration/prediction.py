"""What a calibration says of a save or a restore: seconds, an interval, and whether it was measured so far out."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.calibration import INTERVAL_TAIL, NORMAL_QUANTILE, Calibration, DirectionFit
from sizing.storage.calibration.roofline import Array
from sizing.storage.rates import Direction, Rates, rates_of
from sizing.storage.terms import Demand, shared_terms, total_seconds
from sizing.storage.transfer import Numbers

MIN_ERROR_FRACTION = 0.02
"""Error per doubling beyond what was measured, where the held-out error is smaller still."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of a measurement as it would be made, with the interval that holds nine of ten.

    `extrapolated` names what lies outside the measured range.
    """

    seconds: Numbers
    low_seconds: Numbers
    high_seconds: Numbers
    extrapolated: tuple[str, ...]

    def ends_seconds(self, *, also: float = 0.0) -> tuple[float, float]:
        """The ends of the interval, of numbers alone, and `also` seconds that the calibration says nothing of."""
        return float(self.low_seconds) + also, float(self.high_seconds) + also


def predicted(calibration: Calibration, demands: Sequence[Demand], *, direction: Direction) -> Prediction | None:
    """The prediction for demands one after the other, or None where the direction was not calibrated.

    The interval has the bootstrap draws of the limits, the noise of measurements, and one held-out error for each
    doubling beyond the measured range of each figure, added as independent errors of log time. Its lower end also
    holds for every rival explanation, its upper end for limits that were never reached and may begin right beyond what
    was seen. Demands may hold arrays that broadcast together.
    """
    fit = calibration.fit(direction)
    if fit is None:
        return None
    known = calibration.profile.figures()
    seconds = total_seconds(rates_of(known, direction), demands)
    centre, low, high = _drawn_log_seconds(rates_of({**known, **_draws(fit, demands)}, direction), demands)
    readings = (total_seconds(rates_of(reading, direction), demands) for reading in _readings(fit))
    shortest = functools.reduce(np.minimum, readings, seconds)
    unseen = _unseen_seconds(rates_of(_unseen(fit, known), direction), demands)
    spread = NORMAL_QUANTILE**2 * (fit.noise_fraction**2 + _extrapolation_variance(fit, demands))
    return Prediction(
        seconds=seconds,
        low_seconds=shortest * np.exp(-np.sqrt((centre - low) ** 2 + spread)),
        high_seconds=np.maximum(unseen, seconds) * np.exp(np.sqrt((high - centre) ** 2 + spread)),
        extrapolated=_extrapolated(fit, demands),
    )


def _drawn_log_seconds(rates: Rates, demands: Sequence[Demand]) -> tuple[Array, Array, Array]:
    """Median and interval ends of log seconds over the draws, which are the first axis of the rates."""
    logs = np.sort(np.log(total_seconds(rates, demands)), axis=0)
    places = np.array([0.5, INTERVAL_TAIL, 1 - INTERVAL_TAIL]) * (len(logs) - 1)
    centre, low, high = logs[np.rint(places).astype(int)]
    return centre, low, high


def _draws(fit: DirectionFit, demands: Sequence[Demand]) -> dict[str, Numbers]:
    """The draws by field, along an axis before those of the demands."""
    num_axes = max(np.ndim(demand.total_bytes + demand.num_streams + demand.num_nodes) for demand in demands)
    return {field: np.reshape(values, (-1, *[1] * num_axes)) for field, values in fit.draws.items()}


def _readings(fit: DirectionFit) -> Iterator[Mapping[str, Numbers]]:
    """Every set of limits that explains the data: the one that was kept, and its rivals."""
    yield {limit.field: limit.value for limit in fit.limits if limit.field in fit.draws and limit.value is not None}
    yield from fit.rivals


def _unseen(fit: DirectionFit, known: Mapping[str, Numbers]) -> dict[str, float]:
    """The limits that were never reached, at their min."""
    return {
        limit.field: limit.value
        for limit in fit.limits
        if limit.verdict == "lower-bound" and limit.value is not None and limit.field not in known
    }


def _unseen_seconds(bounds: Rates, demands: Sequence[Demand]) -> Numbers:
    """What limits that were never reached would take alone."""
    steps = [shared_terms(bounds, demand).values() for demand in demands]
    return sum((functools.reduce(np.maximum, terms) for terms in steps if terms), start=np.float64(0.0))


def _extrapolation_variance(fit: DirectionFit, demands: Sequence[Demand]) -> Numbers:
    """Variance of log seconds by distance from what was measured: one error per doubling of each figure."""
    error = max(fit.held_out_error_fraction, fit.noise_fraction, MIN_ERROR_FRACTION)
    distances = [sum((by**2 for by in _doublings(fit, demand).values()), start=np.float64(0.0)) for demand in demands]
    farthest: Numbers = functools.reduce(np.maximum, distances)
    return error**2 * farthest


def _extrapolated(fit: DirectionFit, demands: Sequence[Demand]) -> tuple[str, ...]:
    names = (name for demand in demands for name, by in _doublings(fit, demand).items() if np.any(by > 0))
    return tuple(dict.fromkeys(names))


def _doublings(fit: DirectionFit, demand: Demand) -> dict[str, Numbers]:
    """By how many doublings each figure of a demand lies outside what was measured."""
    covered = fit.covered
    figures = {
        "nodes": (demand.num_nodes, covered.num_nodes),
        "ranks per node": (np.divide(demand.num_streams, demand.num_nodes), covered.streams_per_node),
        "bytes per rank": (np.divide(demand.total_bytes, demand.num_streams), covered.bytes_per_stream),
        "files per rank": (np.divide(demand.num_files, demand.num_streams), covered.files_per_stream),
    }
    return {
        name: np.maximum(0.0, np.maximum(np.log2(np.divide(value, high)), np.log2(np.divide(low, value))))
        for name, (value, (low, high)) in figures.items()
    }
