"""The `retention` block of a Scenario, and the capacity that it takes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import Checkpoint
from sizing.run.demands import Demands
from sizing.run.figures import Figures
from sizing.units import SECONDS_PER_DAY


class Retention(BaseModel):
    """Which checkpoints are kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keep_last: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, json_schema_extra={"source": "the least that a restart needs"}
    )


class Capacity(Figures):
    """The `capacity` block of the report: what must fit on the file system at once.

    `num_checkpoints` are those kept and the one being written, which must not replace an older one before
    it is complete.
    """

    num_checkpoints: int
    capacity_bytes: int
    written_bytes_per_day: float


def capacity_of(retention: Retention, *, demands: Demands, checkpoint: Checkpoint) -> Capacity:
    """Capacity = (kept + 1 in flight) x checkpoint; file-system headroom and redundancy come on top."""
    num_checkpoints = retention.keep_last + 1
    return Capacity.of(
        num_checkpoints=num_checkpoints,
        capacity_bytes=num_checkpoints * demands.written_bytes,
        written_bytes_per_day=demands.written_bytes * SECONDS_PER_DAY / checkpoint.interval_seconds,
    )
