"""The `checkpoint` block of a Scenario: which files, and how often."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout.formats import FormatName, Mode
from sizing.units import ByteCount, BytesPerSecond, PositiveSeconds


class Checkpoint(BaseModel):
    """What is written and when.

    `interval_seconds` runs from the start of one checkpoint to the start of the next. `observed_bytes` is
    a measured size that replaces the computed one in times and rates.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: FormatName | None = Field(None, description="the framework's own where not given")
    mode: Mode = "sync"
    files_per_rank: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="torch-dist: files that each rank writes; 1 where not given, older Megatron wrote 2"
    )
    interval_seconds: PositiveSeconds = Field(14_400.0, json_schema_extra={"source": "4 h, quoted by VAST Data 2024"})
    observed_bytes: ByteCount | None = None
    observed_write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="a measured rate, to compare the computed one with"
    )
