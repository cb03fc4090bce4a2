"""The `retention` block of a Scenario, and the capacity that it takes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import CheckpointSize
from sizing.units import SECONDS_PER_DAY


class Retention(BaseModel):
    """Which checkpoints are kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_last: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, json_schema_extra={"source": "the least that a restart needs"}
    )


class Capacity(BaseModel):
    """The `capacity` block of the report: what must fit on the file system at once.

    `num_checkpoints` are those kept and the one being written, which must not replace an older one before
    it is complete.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_checkpoints: int
    capacity_bytes: int
    written_bytes_per_day: float


def capacity_of(retention: Retention, *, size: CheckpointSize, interval_seconds: float) -> Capacity:
    """Capacity = (kept + 1 in flight) x checkpoint; file-system headroom and redundancy come on top."""
    num_checkpoints = retention.keep_last + 1
    return Capacity(
        num_checkpoints=num_checkpoints,
        capacity_bytes=num_checkpoints * size.written_bytes,
        written_bytes_per_day=size.written_bytes * SECONDS_PER_DAY / interval_seconds,
    )
