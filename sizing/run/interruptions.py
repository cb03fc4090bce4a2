"""What of the `reliability` block belongs to a recovery strategy, to preemptions, and to the data on resume."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.units import PositiveSeconds, Seconds

StrategyName = Literal["restart", "spares", "peers", "shrink"]
"""Of the registry in `recovery.registry`."""

DEFAULT_STRATEGY: StrategyName = "restart"
"""What frameworks do by themselves."""

TAKE_SPARES: frozenset[StrategyName] = frozenset({"spares", "peers"})
"""Of which a replaced node may come from the reserve."""

MAX_SPARES = 10_000
"""Far more than any job keeps: larger numbers are slips."""


class Spares(BaseModel):
    """Nodes that stand idle beside the job to take the place of failed ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num: Annotated[int, Field(ge=1, le=MAX_SPARES)] = Field(description="Nodes that stand ready beside the job.")
    swap_seconds: Seconds | None = Field(
        None,
        description="Seconds from detection until the processes read the state, a spare in the failed node's place. "
        "Default: relaunch_seconds.",
    )


class Shrink(BaseModel):
    """How groups that hold the whole state go on without one of them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    min_groups: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, description="Groups below which training stops until one is back."
    )
    regroup_seconds: Seconds = Field(
        description="Seconds from detection until the other groups train on: a quorum, and their links made anew."
    )
    keeps_batch: bool = Field(
        True,
        description="Whether the global batch stays: the groups that are left take the microbatches of the lost one. "
        "Otherwise it shrinks with the groups; tokens per second are the same.",
    )


class Preemption(BaseModel):
    """How often the job loses all its nodes to others, as spot capacity does, and when it gets them back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per_hour: Annotated[float, Field(ge=1e-9, le=1e3, allow_inf_nan=False)] = Field(
        description="Mean preemptions of the job per hour that it has its nodes, beside failures."
    )
    notice_seconds: Seconds = Field(
        0.0,
        json_schema_extra={"source": "no notice"},
        description="Seconds from the notice until the nodes are gone. A save that ends within them loses no work.",
    )
    capacity_wait_seconds: Seconds = Field(
        description="Mean seconds until there are nodes again; processes start after that."
    )


class DataSkip(BaseModel):
    """How long the data loader takes to skip what was trained on already, where it cannot seek."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: PositiveSeconds | None = Field(
        None, description="Seconds that skipping takes on a resume. Default: from num_batches and batches_per_second."
    )
    num_batches: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = Field(
        None, description="Batches that are skipped, as a mean over resumes. Required with batches_per_second."
    )
    batches_per_second: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | None = Field(
        None, description="Batches per second that the loader passes over. Required with num_batches."
    )

    @model_validator(mode="after")
    def _says_one_way(self) -> Self:
        both = (self.num_batches is not None, self.batches_per_second is not None)
        if both != ((self.seconds is None),) * 2:
            raise broken_rule(
                "must have seconds alone, or num_batches and batches_per_second", "give one of the two ways"
            )
        return self

    @property
    def skipping_seconds(self) -> float:
        """Seconds that skipping takes on a resume.

        >>> DataSkip(num_batches=5000, batches_per_second=100).skipping_seconds
        50.0
        """
        if self.seconds is not None:
            return self.seconds
        return (self.num_batches or 0.0) / (self.batches_per_second or 1.0)
