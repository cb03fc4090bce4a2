"""Distributions between two ends, each by its quantiles: what a draw of 0 to 1 makes of an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sizing.storage.calibration.calibration import NORMAL_QUANTILE

Array = npt.NDArray[np.float64]
DistributionName = Literal["uniform", "log-uniform", "triangular", "log-normal"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How an input lies between its ends; quantiles of a probability, low, high and the most likely value.

    `is_of_ratios`: equal ratios are as likely as each other, so both ends must be above 0.
    """

    quantiles: Callable[[Array, float, float, float], Array]
    is_of_ratios: bool = False
    has_peak: bool = False


def uniform_quantiles(probability: Array, low: float, high: float, _: float) -> Array:
    """Every value as likely as any other: a + p (b - a).

    Args: `probability` p of any shape, ends a and b. Source: inverse of the distribution function.

    >>> float(uniform_quantiles(np.array(0.25), 2.0, 6.0, 0.0))
    3.0
    """
    return low + probability * (high - low)


def log_uniform_quantiles(probability: Array, low: float, high: float, _: float) -> Array:
    """Every ratio as likely as any other: a (b / a)^p.

    Args: `probability` p of any shape, ends a and b above 0. Source: inverse of the distribution function.

    >>> float(log_uniform_quantiles(np.array(0.5), 1.0, 4.0, 0.0))
    2.0
    """
    found: Array = low * np.power(high / low, probability)
    return found


def triangular_quantiles(probability: Array, low: float, high: float, peak: float) -> Array:
    """From both ends straight up to the most likely value: a + sqrt(p (b - a) (c - a)) up to c, its mirror beyond.

    Args: `probability` p of any shape, ends a and b, `peak` c. Source: inverse of the distribution function.

    >>> triangular_quantiles(np.array([0.0, 0.5, 1.0]), 0.0, 4.0, 2.0).tolist()
    [0.0, 2.0, 4.0]
    """
    span = high - low
    rising: Array = low + np.sqrt(probability * span * (peak - low))
    falling = high - np.sqrt((1.0 - probability) * span * (high - peak))
    return np.where(probability * span < peak - low, rising, falling)


def log_normal_quantiles(probability: Array, low: float, high: float, _: float) -> Array:
    """A product of many chances, of which 90 % lie between both ends: sqrt(a b) (b / a)^(z(p) / (2 z(0.95))).

    Args: `probability` p of any shape, ends a and b above 0; z is the quantile of the standard normal distribution.
    Source: inverse of the distribution function.

    >>> log_normal_quantiles(np.array([0.05, 0.5, 0.95]), 1.0, 4.0, 0.0).round(6).tolist()
    [1.0, 2.0, 4.0]
    """
    from scipy.special import ndtri  # noqa: PLC0415 - only this one needs it

    found: Array = np.sqrt(low * high) * np.power(high / low, ndtri(probability) / (2 * NORMAL_QUANTILE))
    return found


DISTRIBUTIONS: Mapping[DistributionName, Distribution] = {
    "uniform": Distribution(uniform_quantiles),
    "log-uniform": Distribution(log_uniform_quantiles, is_of_ratios=True),
    "triangular": Distribution(triangular_quantiles, has_peak=True),
    "log-normal": Distribution(log_normal_quantiles, is_of_ratios=True),
}
"""By name, as a request has it."""
