"""What of a decision is not certain: inputs as ranges, and how many draws are taken of them."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.explore.decisions.distributions import DISTRIBUTIONS, Distribution, DistributionName
from sizing.spelling import AnySpelling

DEFAULT_NUM_DRAWS = 100_000
"""The standard error of a probability is then at most 0.16 %."""
MIN_NUM_DRAWS = 100
"""With fewer, one draw is more than a percent."""
MAX_NUM_DRAWS = 1_000_000
"""A standard error of 0.05 %, far below that of any range that people know."""
_MAX_RANGES = 30
"""Each is varied alone for its share of the variance."""


class OddsRange(BaseModel):
    """From where to where an input may turn out, and how it lies between."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


class OddsRequest(BaseModel):
    """What is not certain for all offers alike, and how many draws are taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
