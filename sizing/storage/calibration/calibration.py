"""A Calibration: the profile that measurements say, how sure they are of it, and what they could not see."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Direction
from sizing.storage.terms import Demand, Resource
from sizing.units import MOST_BYTES

INTERVAL_TAIL = 0.05
"""Left out of every interval at either end, so that it holds 90 %."""

NORMAL_QUANTILE = 1.6448536269514722
"""Of the standard normal distribution at 1 - INTERVAL_TAIL."""

MOST_DRAWS = 1_000
MOST_POINTS = 10_000

Verdict = Literal["measured", "lower-bound", "unknown"]
"""`measured`: it binds in three or more configurations and no other limit explains them as well. `lower-bound`: a
rate is at least so much. `unknown`: no run shows it."""

Grade = Literal["A", "B", "C", "D"]

_Text = Annotated[str, Field(max_length=2000)]
_Name = Annotated[str, Field(min_length=1, max_length=64)]
_Positive = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, le=1e30, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, le=1_000_000_000)]
_Interval = tuple[_Positive, _Positive]
_Span = tuple[_Positive, _Positive]


class LimitEstimate(BaseModel):
    """One limit: its value in the unit that ends the field's name, its 90 % interval, and how much it is worth."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: _Name = Field(description="of the storage profile")
    resource: Resource
    verdict: Verdict
    value: _Positive | None = Field(
        None, description="for a lower bound the least that it can be, for an unknown time one that no run checks"
    )
    interval: _Interval | None = None
    num_binding: _Count = Field(description="configurations in which it takes longer than every other shared resource")
    reason: _Text


class Covered(BaseModel):
    """The least and the most of what was measured; beyond it a prediction is an extrapolation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_nodes: _Span
    streams_per_node: _Span
    bytes_per_stream: _Span
    files_per_stream: _Span

    @classmethod
    def of(cls, demand: Demand) -> Self:
        """The range of what configurations asked of the storage."""
        streams, nodes = np.asarray(demand.num_streams), np.asarray(demand.num_nodes)
        return cls(
            num_nodes=_span(nodes),
            streams_per_node=_span(streams / nodes),
            bytes_per_stream=_span(np.asarray(demand.total_bytes) / streams),
            files_per_stream=_span(np.asarray(demand.num_files) / streams),
        )


class FittedPoint(BaseModel):
    """One measurement beside what the fit says of it, and what a fit without its configuration says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: _Name
    num_nodes: _Count
    num_streams: _Count
    total_bytes: Annotated[int, Field(ge=1, le=MOST_BYTES)]
    num_files: _Count
    seconds: _Positive
    predicted_seconds: _Positive
    held_out_seconds: _Positive

    @property
    def bytes_per_second(self) -> float:
        """As measured."""
        return self.total_bytes / self.seconds


class DirectionFit(BaseModel):
    """The fit to all writes, or to all reads.

    `noise_fraction` is the standard deviation of measured around predicted times; `held_out_error_fraction` the median
    error of predictions for configurations that the fit had not seen, `worst_held_out_error_fraction` the largest.
    `draws` are bootstrap draws of the fitted fields; `rivals` other sets of limits that explain the data as well.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    limits: tuple[LimitEstimate, ...] = Field(max_length=32)
    covered: Covered
    num_configurations: _Count
    noise_fraction: _NotNegative
    held_out_error_fraction: _NotNegative
    worst_held_out_error_fraction: _NotNegative
    draws: dict[_Name, Annotated[tuple[_Positive, ...], Field(max_length=MOST_DRAWS)]] = Field(max_length=32)
    rivals: tuple[dict[_Name, _Positive], ...] = Field(max_length=32)
    points: tuple[FittedPoint, ...] = Field(max_length=MOST_POINTS)

    def holds(self, resource: Resource) -> bool:
        """Whether the limit of a resource was fitted, and so is part of every prediction."""
        return any(limit.resource == resource and limit.field in self.draws for limit in self.limits)


class Calibration(BaseModel):
    """What benchmark runs say of a storage system: a profile, and beside it all that makes it believable.

    The profile holds the limits that the measurements need for their explanation; limits that were never reached are
    not in it, but widen predictions of layouts that could reach them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    profile: StorageProfile
    engine: _Name
    run_ids: tuple[_Name, ...] = Field(min_length=1, max_length=1_000)
    measured_on: date | None = Field(None, description="date of the latest run, where it has one")
    grade: Grade
    write: DirectionFit | None = None
    read: DirectionFit | None = None
    warnings: tuple[_Text, ...] = Field((), max_length=1_000)

    @model_validator(mode="after")
    def _has_a_fit(self) -> Self:
        if self.write is None and self.read is None:
            raise broken_rule("must have write or read", "take the document as ckpt-bench calibrate wrote it")
        return self

    def fit(self, direction: Direction) -> DirectionFit | None:
        """The fit to writes or to reads."""
        return self.write if direction == "write" else self.read


def _span(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    return float(values.min()), float(values.max())
