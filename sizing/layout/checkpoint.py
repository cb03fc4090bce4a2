"""The `checkpoint` block of a Scenario: which files, how often, and how they are read back."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout.formats import FormatName
from sizing.units import ByteCount, BytesPerSecond, PositiveSeconds


class Checkpoint(BaseModel):
    """What is written and when.

    `interval_seconds` runs from the start of one checkpoint to the start of the next. `observed_bytes` is
    a measured size that replaces the computed one in times and rates.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: FormatName = "megatron"
    mode: Literal["sync"] = "sync"
    interval_seconds: PositiveSeconds = Field(
        14_400.0, json_schema_extra={"source": "4 h, quoted by VAST Data 2024"}
    )
    observed_bytes: ByteCount | None = None
    observed_write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="a measured rate, to compare the computed one with"
    )
    restore: Literal["every-replica"] = "every-replica"
