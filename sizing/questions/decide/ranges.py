"""Inputs that are not certain, as a request gives them: both ends of a range, and the distribution between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sizing.errors import broken_rule
from sizing.spelling import AnySpelling
from sizing.storage.calibration.calibration import NORMAL_QUANTILE
from sizing.storage.transfer import Floats
from sizing.strict_model import InputModel

DistributionName = Literal["uniform", "log-uniform", "triangular", "log-normal"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """How an input lies between its ends; quantiles of a probability, low, high and the most likely value.

    `is_of_ratios`: equal ratios are as likely as each other, so both ends must be above 0.
    """

    quantiles: Callable[[Floats, float, float, float], Floats]
    is_of_ratios: bool = False
    has_peak: bool = False


def uniform_quantiles(probability: Floats, low: float, high: float, _: float) -> Floats:
    """Compute quantiles where every value is as likely as any other: a + p (b - a).

    Args: `probability` p of any shape, ends a and b. Source: inverse of the distribution function.

    >>> float(uniform_quantiles(np.array(0.25), 2.0, 6.0, 0.0))
    3.0
    """
    return low + probability * (high - low)


def log_uniform_quantiles(probability: Floats, low: float, high: float, _: float) -> Floats:
    """Compute quantiles where every ratio is as likely as any other: a (b / a)^p.

    Args: `probability` p of any shape, ends a and b above 0. Source: inverse of the distribution function.

    >>> float(log_uniform_quantiles(np.array(0.5), 1.0, 4.0, 0.0))
    2.0
    """
    quantiles: Floats = low * np.power(high / low, probability)
    return quantiles


def triangular_quantiles(probability: Floats, low: float, high: float, peak: float) -> Floats:
    """Compute quantiles of a density that rises straight from both ends to the most likely value.

    Up to that value c they are a + sqrt(p (b - a) (c - a)); beyond it, the mirror of this.
    Args: `probability` p of any shape, ends a and b, `peak` c. Source: inverse of the distribution function.

    >>> triangular_quantiles(np.array([0.0, 0.5, 1.0]), 0.0, 4.0, 2.0).tolist()
    [0.0, 2.0, 4.0]
    """
    span = high - low
    rising: Floats = low + np.sqrt(probability * span * (peak - low))
    falling = high - np.sqrt((1.0 - probability) * span * (high - peak))
    return np.where(probability * span < peak - low, rising, falling)


def log_normal_quantiles(probability: Floats, low: float, high: float, _: float) -> Floats:
    """Compute quantiles of a product of many chances, 90 % of it between both ends.

    They are sqrt(a b) (b / a)^(z(p) / (2 z(0.95))).
    Args: `probability` p of any shape, ends a and b above 0; z is the quantile of the standard normal distribution.
    Source: inverse of the distribution function.

    >>> log_normal_quantiles(np.array([0.05, 0.5, 0.95]), 1.0, 4.0, 0.0).round(6).tolist()
    [1.0, 2.0, 4.0]
    """
    from scipy.special import ndtri  # noqa: PLC0415 - only this one needs it

    quantiles: Floats = np.sqrt(low * high) * np.power(high / low, ndtri(probability) / (2 * NORMAL_QUANTILE))
    return quantiles


DISTRIBUTIONS: Mapping[DistributionName, Distribution] = {
    "uniform": Distribution(uniform_quantiles),
    "log-uniform": Distribution(log_uniform_quantiles, is_of_ratios=True),
    "triangular": Distribution(triangular_quantiles, has_peak=True),
    "log-normal": Distribution(log_normal_quantiles, is_of_ratios=True),
}
"""Distributions by the name that a request gives."""


DEFAULT_NUM_DRAWS = 100_000
"""The standard error of a probability is then at most 0.16 %."""
MIN_NUM_DRAWS = 100
"""With fewer, one draw is more than a percent."""
MAX_NUM_DRAWS = 100_000_000
"""A standard error of 0.005 % at most. Two minutes of one core, of two offers for one workload."""
_MAX_RANGES = 30
"""Each is varied alone for its share of the variance."""


class OddsRange(InputModel):
    """From where to where an input may turn out, and how it lies between."""

    low: float | str = Field(description="Lower end, in any unit that the field takes.")
    high: float | str = Field(description="Upper end, in any unit that the field takes.")
    distribution: AnySpelling[DistributionName] = Field(
        "uniform",
        description="How it lies between: every value or, log-uniform, every ratio as likely as any other; triangular, "
        "around most_likely; log-normal, 90 % of it between both ends. Default: uniform.",
    )
    most_likely: float | str | None = Field(
        None, description="Peak of a triangular distribution, in any unit that the field takes. Required with it."
    )

    @model_validator(mode="after")
    def _has_its_peak(self) -> Self:
        if self.shape.has_peak and self.most_likely is None:
            raise broken_rule(f"is {self.distribution} without most_likely", "give the most likely value")
        if not self.shape.has_peak and self.most_likely is not None:
            raise broken_rule(f"has most_likely, but is {self.distribution}", "give distribution: triangular")
        return self

    @property
    def shape(self) -> Distribution:
        """The distribution of that name."""
        return DISTRIBUTIONS[self.distribution]


Ranges = Annotated[dict[Annotated[str, Field(min_length=1, max_length=200)], OddsRange], Field(max_length=_MAX_RANGES)]


class OddsRequest(InputModel):
    """What is not certain for all offers alike, and how many draws are taken."""

    ranges: Ranges = Field(
        default_factory=dict,
        description="Ranges of inputs by dotted path, the same draw for all offers and workloads: of reliability, of "
        "storage.profile, or per_lost_gpu_hour. Default: none beside those of the offers.",
    )
    guesses: bool = Field(
        False,
        description="Whether numbers that nobody stated are drawn from their plausible ranges too. "
        "Default: false, they are as assumed.",
    )
    num_draws: Annotated[int, Field(ge=MIN_NUM_DRAWS, le=MAX_NUM_DRAWS)] = Field(
        DEFAULT_NUM_DRAWS, description=f"How many draws are answered. Default: {DEFAULT_NUM_DRAWS}."
    )
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = Field(
        0, description="Seed of the draws; the same seed gives the same answer. Default: 0."
    )
