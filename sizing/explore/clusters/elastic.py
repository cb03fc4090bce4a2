"""What sharing costs on average, in closed form: transfers that slow each other down on one file system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_Array = npt.NDArray[np.float64]
_Counts = npt.NDArray[np.int_]

_UNITS = 840
"""In which capacity is counted: the least number that 1 to 8 divide. For rates between them the stretch was 0.04 % off
what ten times as many units give."""
_SMALLEST = 1e-300
"""Weights begin here, as only their ratios count and they grow with every unit; from 1 they would overflow."""
_ROUNDING = 1 + 1e-9
"""So that 1/3 of the capacity counts as 280 units and not as 279."""


class Traffic(NamedTuple):
    """`num_jobs` equal jobs that together write `bytes_per_second` on average, each at most so fast."""

    num_jobs: int
    bytes_per_second: float
    max_bytes_per_second: float


class Elastic(NamedTuple):
    """What sharing does: `stretch` of each group is the mean time of its transfers over the time alone.

    For `limited_fraction` of the time the file system gives less than its transfers could take.
    """

    stretch: list[float]
    limited_fraction: float


def elastic(traffic: Sequence[Traffic], *, bytes_per_second: float) -> Elastic | None:
    """Mean slow-down of transfers that arrive at random and share a file system, or None where it is overloaded.

    With capacity C, loads rho_i, rates alone c_i and p(n) the weight of a total draw n: p(0) = 1 and
    min(n, C) p(n) = sum_i rho_i p(n - c_i). Above C the sums are geometric. A job never meets itself, so each group
    sees its own load less one job, as in mean-value analysis (Reiser and Lavenberg 1980; Schweitzer 1979).
    Source: Bonald and Virtamo 2005, IEEE Communications Letters 9(8), DOI 10.1109/LCOMM.2005.1496605. Exact for
    Poisson arrivals of equal jobs, where it is M/G/1-PS for c >= C (1 / (1 - rho)) and M/M/m where C = m c, whatever
    the sizes; for unequal ones it is balanced fairness, close to equal shares. Rates are rounded down to C / 840,
    a number with many divisors.

    >>> found = elastic([Traffic(1_000_000, 0.5, 2.0)], bytes_per_second=1.0)
    >>> round(found.stretch[0], 4), round(found.limited_fraction, 4)
    (2.0, 0.25)
    """
    loads = np.array([group.bytes_per_second for group in traffic]) / bytes_per_second * _UNITS
    if loads.sum() >= _UNITS:
        return None
    rates = np.array([_units(group.max_bytes_per_second / bytes_per_second) for group in traffic])
    counts = np.array([group.num_jobs for group in traffic])
    seen = loads[:, None] - np.diag(loads / counts)
    stretch = [float(value) for value in _stretch(seen, rates)]
    return Elastic(stretch, _limited_fraction(loads, rates))


def _units(rate: float) -> int:
    return max(1, math.floor(min(rate, 1.0) * _UNITS * _ROUNDING))


def _weights(seen: _Array, rates: _Counts) -> _Array:
    """p(n) up to C of each column of loads: rows n are preceded by as many zeros as the largest rate has units."""
    weights = np.zeros((2 * _UNITS + 1, seen.shape[1]))
    weights[_UNITS] = _SMALLEST
    for n in range(1, _UNITS + 1):
        weights[_UNITS + n] = (seen * weights[_UNITS + n - rates]).sum(axis=0) / n
    return weights


def _above(seen: _Array, rates: _Counts, weights: _Array) -> _Array:
    """Sum over groups of load x the weights of the last c_i totals up to C, for each column of loads."""
    sums = np.cumsum(weights, axis=0)
    above: _Array = (seen * (sums[-1] - sums[2 * _UNITS - rates])).sum(axis=0)
    return above


def _stretch(seen: _Array, rates: _Counts) -> _Array:
    columns = np.arange(len(rates))
    left = _UNITS - seen.sum(axis=0)
    weights = _weights(seen, rates)
    number = np.zeros_like(weights)
    for n in range(1, _UNITS + 1):
        number[_UNITS + n] = weights[_UNITS + n - rates, columns] / rates
    beyond = _above(seen, rates, weights) / left
    own_last = np.cumsum(weights, axis=0)[-1] - np.cumsum(weights, axis=0)[2 * _UNITS - rates, columns]
    number_beyond = (_above(seen, rates, number) + own_last + beyond) / left
    stretch: _Array = rates * (number.sum(axis=0) + number_beyond) / (weights.sum(axis=0) + beyond)
    return stretch


def _limited_fraction(loads: _Array, rates: _Counts) -> float:
    seen = loads[:, None]
    weights = _weights(seen, rates)
    beyond = _above(seen, rates, weights) / (_UNITS - loads.sum())
    return float((beyond / (weights.sum(axis=0) + beyond))[0])
