"""The `checkpoint` block of a Scenario: which files, how often, read back how."""

from __future__ import annotations

from pydantic import Field

from sizing.layout import CheckpointFiles, Parallelism
from sizing.run.readings import RestoreStrategy
from sizing.units import BytesPerSecond, PositiveSeconds


class Checkpoint(CheckpointFiles):
    """What is written and when.

    `interval_seconds` runs from the start of one checkpoint to the start of the next.
    """

    interval_seconds: PositiveSeconds = Field(14_400.0, json_schema_extra={"source": "4 h, quoted by VAST Data 2024"})
    observed_write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="a measured rate, to compare the computed one with"
    )
    restore: RestoreStrategy = Field("every-replica", description="how what replicas share is read back")
    restore_parallelism: Parallelism | None = Field(None, description="of the layout that restores, if another one")
