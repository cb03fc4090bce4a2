"""Where the model does not fit: misses beyond the noise that repeat, that neighbours share, or at the frontier."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sizing.storage.calibration.least_squares import Mask
from sizing.storage.calibration.term_selection import residual_noise
from sizing.storage.transfer import Floats

_CHANCE = 0.05
"""Probability that a scan that fits everywhere has a configuration named."""
_MAX_DEVIATIONS = 3.0
"""Max of deviations that one residual lends to the mean of its neighbours, so that an outlier makes none of them
suspect (Huber 1964, Annals of Mathematical Statistics 35(1), bounds the influence alike)."""
_MIN_DEVIATIONS = 1.6448536269514722
"""Min of deviations of a configuration's own residual: one of ten is as far off by noise."""
_MIN_MISS_FRACTION = 0.02
"""Smallest miss that is named: no decision depends on a smaller one."""

_MIN_PAIRS = 8
"""Min of pairs of neighbours on one axis whose differences say something of the noise."""

Place = tuple[float, ...]
"""Nodes, ranks per node, bytes per rank, files per rank."""


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """A measurement that the model misses: its row, log(measured / predicted), and why it is no outlier."""

    row: int
    log_miss: float
    reason: str


def find_lack_of_fit(
    log_misses: Floats, *, noise: float, num_parameters: int, places: Sequence[Place], frontier: Mask
) -> Iterator[LackOfFit]:
    """Find where the model is wrong, and where a run is an outlier.

    A residual is beyond the noise by a t test, 5 % divided by the number of configurations. Alone and inside it is an
    outlier. It is the model that is wrong where another run of the configuration misses alike, where the configuration
    has the max of nodes, ranks or bytes, so that nothing beyond could speak for the model, or where the mean of its
    own and of its neighbours' residuals is as unlikely.
    Args: `log_misses`, log(measured / predicted) by measurement; `noise`, their standard deviation; `places`, the
    configuration of each; `frontier`, which of them have the max of an axis.
    Source: outlier test with Bonferroni's bound, Cook and Weisberg 1982, Residuals and Influence, section 2.2.2; the
    sum over neighbours is the local form of the runs test (Wald and Wolfowitz 1940) for signed residuals.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - only fitting needs it

    freedom = max(len(log_misses) - num_parameters, 1)
    threshold = float(stdtrit(freedom, 1 - _CHANCE / (2 * len(log_misses))))
    deviations = log_misses / noise
    nearby = _neighbours(places)
    for row, (miss, deviation) in enumerate(zip(log_misses, deviations, strict=True)):
        if abs(deviation) < _MIN_DEVIATIONS or abs(miss) < _MIN_MISS_FRACTION:
            continue
        reason = _reason(row, deviations, nearby[row], threshold, is_frontier=bool(frontier[row]), places=places)
        if reason is not None:
            yield LackOfFit(row, float(miss), reason)


def local_noise(log_misses: Floats, *, noise: float, repetition_noise: float, places: Sequence[Place]) -> float:
    """The noise that neighbours on one axis do not share: what is left of `noise` without a miss that both have.

    s^2 = mean of (r_i - r_k)^2 / 2 over neighbours i, k, on the axis where it is least, outliers drawn in. It counts
    where an F test says that it is less than the noise around the fit, 5 % divided by the number of axes: then the
    model misses what neighbours have in common.
    Args: as `find_lack_of_fit`; `repetition_noise`, which it is not below.
    Source: von Neumann 1941, Annals of Mathematical Statistics 12(4): the mean square successive difference.

    >>> places = [(1, 1, size, 1) for size in range(1, 21)]  # each alternately fast and slow by 1 %, one half 10 % off
    >>> misses = np.array([0.01 * (-1) ** size + (0.1 if size > 10 else -0.1) for size in range(20)])
    >>> round(local_noise(misses, noise=0.1, repetition_noise=0.0, places=places), 3) < 0.05
    True
    """
    from scipy.special import fdtri  # noqa: PLC0415 - only fitting needs it

    levels, nearby, found = _steps(places), _neighbours(places), noise
    for axis in range(len(levels[0])):
        pairs = [
            (row, other)
            for row, near in enumerate(nearby)
            for other in near
            if levels[other][axis] == levels[row][axis] + 1
        ]
        if len(pairs) < _MIN_PAIRS:
            continue
        rows, others = np.array(pairs).T
        local = residual_noise((log_misses[rows] - log_misses[others]) / np.sqrt(2), 0, repetition_noise)
        bound = fdtri(len(log_misses), len(pairs), 1 - _CHANCE / len(levels[0]))
        if noise**2 > bound * local**2:
            found = min(found, local)
    return found


def _reason(
    row: int,
    deviations: Floats,
    nearby: Sequence[int],
    threshold: float,
    *,
    is_frontier: bool,
    places: Sequence[Place],
) -> str | None:
    own = deviations[row]
    if abs(own) > threshold:
        alike = [other for other in nearby if places[other] == places[row] and own * deviations[other] > 0]
        if any(abs(deviations[other]) > _MIN_DEVIATIONS for other in alike):
            return "another run of the configuration misses alike"
        if is_frontier:
            return "beyond the noise, and no larger configuration speaks for the model"
    bounded = np.clip(deviations[[row, *nearby]], -_MAX_DEVIATIONS, _MAX_DEVIATIONS)
    mean = float(bounded.sum() / len(bounded) ** 0.5)
    if len(nearby) > 0 and mean * own > 0 and abs(mean) > threshold:
        return f"{int((bounded[1:] * own > 0).sum())} of its {len(nearby)} neighbours miss to the same side"
    return None


def _neighbours(places: Sequence[Place]) -> list[list[int]]:
    """For each measurement the others of its configuration, and those one step away on one axis."""
    steps = _steps(places)
    rows: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, place in enumerate(steps):
        rows[place].append(row)
    return [
        [other for near in _around(place) if near in rows for other in rows[near] if other != row]
        for row, place in enumerate(steps)
    ]


def _steps(places: Sequence[Place]) -> list[tuple[int, ...]]:
    """Each configuration by the rank of its value on every axis."""
    levels = [{value: place for place, value in enumerate(sorted(set(values)))} for values in zip(*places, strict=True)]
    return [tuple(level[value] for level, value in zip(levels, place, strict=True)) for place in places]


def _around(place: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    yield place
    for axis, step in itertools.product(range(len(place)), (-1, 1)):
        yield (*place[:axis], place[axis] + step, *place[axis + 1 :])
