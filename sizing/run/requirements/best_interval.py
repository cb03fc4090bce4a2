"""The interval of the main storage with the max goodput, everything else as the scenario says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from sizing.run.evaluation import RunReport
from sizing.run.requirements.asked import INTERVAL, Asked, interval_bounds
from sizing.storage.transfer import Numbers

_Array = npt.NDArray[np.float64]

_SECTIONS = 64
"""Tried at once, as arrays cost little more than numbers: eight rounds find the place where halving takes fifty."""
_PRECISION = 1e-10
"""Relative error of the place of the max. The value there is more exact, as the curve is flat at its max."""


def best_interval_seconds(
    asked: Asked, figures: RunReport, values: Mapping[str, Numbers] | None = None
) -> float | _Array:
    """The best interval, one for each row of `values` where they are arrays; `figures` are those with the values set.

    By formula with one level. With tiers in front, whose intervals stay, by search of the same goodput that answers.
    Source: `goodput.single_level.optimal_seconds`; else `peak`.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized import sized
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> asked = Asked(sized(scenario).demands, scenario.run_inputs)
    >>> round(float(best_interval_seconds(asked, asked.at({}))) / 60, 1)
    31.5
    """
    bounds = interval_bounds(asked)
    optimal = figures.interval.optimal_period_seconds
    if optimal is None or figures.interval.method == "exact":
        clipped: float | _Array = np.clip(np.inf if optimal is None else optimal, *bounds)
        return clipped
    rows = {path: np.asarray(value, dtype=np.float64) for path, value in (values or {}).items()}
    shape = np.broadcast_shapes(*(row.shape for row in rows.values()))
    num_rows = shape[0] if shape else 1

    def goodput(intervals: _Array) -> _Array:
        given = {path: np.repeat(row, intervals.shape[1]) if row.ndim else row for path, row in rows.items()}
        found = asked.at(given | {INTERVAL: intervals.ravel()}).interval.goodput_at_interval_fraction
        return np.broadcast_to(np.asarray(found, dtype=np.float64), intervals.size).reshape(intervals.shape)

    step = asked.inputs.checkpoint.front_tiers[-1].interval_seconds
    low, high = (np.full(num_rows, bound) for bound in bounds)
    near = peak(goodput, low=low, high=high, near_enough=step)
    tried = np.clip(_whole_intervals_near(asked, near), *bounds)
    best = np.take_along_axis(tried, np.argmax(np.nan_to_num(goodput(tried), nan=-np.inf), axis=1)[:, None], axis=1)
    return best[:, 0] if shape else float(best[0, 0])


def _whole_intervals_near(asked: Asked, seconds: _Array) -> _Array:
    """The multiples of the interval in front that are next to each, as the goodput is the same between two of them."""
    step = asked.inputs.checkpoint.front_tiers[-1].interval_seconds
    whole: _Array = np.asarray(asked.whole_interval_seconds(seconds), dtype=np.float64)
    near: _Array = whole[:, None] + step * np.arange(-1, 2)
    return near


def best_goodput_fraction(asked: Asked) -> float | None:
    """The goodput at the best interval; None where it is not known, or only without the restore.

    Source: `goodput.single_level.goodput_fraction` at `best_interval_seconds`, or that of several levels.

    >>> from sizing.scenario import REFERENCE_SCENARIO, scenario_from
    >>> from sizing.sized import sized
    >>> scenario = scenario_from(REFERENCE_SCENARIO)
    >>> round(best_goodput_fraction(Asked(sized(scenario).demands, scenario.run_inputs)), 4)  # as published
    0.9469
    """
    best = best_interval_seconds(asked, asked.at({}))
    found = asked.at({INTERVAL: best}).interval
    return None if found.leaves_out_restore else found.goodput_at_interval_fraction


def peak(value: Callable[[_Array], _Array], *, low: _Array, high: _Array, near_enough: float = 0.0) -> _Array:
    """Where a value that rises and then falls has its max, for each row between its bounds, or within `near_enough`.

    Each round cuts every bracket into 64 sections of equal ratio and keeps the two next to the max.
    Source: search of a unimodal function, Kiefer 1953, Proceedings of the AMS 4(3), by grids instead of golden
    sections.

    >>> peak(lambda x: -np.square(np.log(x / 7.0)), low=np.array([1.0]), high=np.array([1e9])).round(6)
    array([7.])
    """
    while np.any((high / low - 1 > _PRECISION) & (high - low > near_enough)):
        tried = np.geomspace(low, high, _SECTIONS + 1, axis=-1)
        best = np.argmax(np.nan_to_num(value(tried), nan=-np.inf), axis=1)[:, None]
        low = np.take_along_axis(tried, np.maximum(best - 1, 0), axis=-1)[:, 0]
        high = np.take_along_axis(tried, np.minimum(best + 1, _SECTIONS), axis=-1)[:, 0]
    return np.sqrt(low * high)
