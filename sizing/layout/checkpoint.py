"""What a Scenario's `checkpoint` block says of the files."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout.formats import FormatName, Mode
from sizing.spelling import AnySpelling
from sizing.units import ByteCount


class CheckpointFiles(BaseModel):
    """Which files are written, and how.

    `observed_bytes` is a measured size that replaces the computed one in times and rates.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: AnySpelling[FormatName] | None = Field(None, description="the framework's own where not given")
    mode: AnySpelling[Mode] = Field("sync", description="async: training waits for the copy to host memory alone")
    files_per_rank: Annotated[int, Field(ge=1, le=64)] | None = Field(
        None, description="torch-dist: files that each rank writes; 1 where not given, older Megatron wrote 2"
    )
    observed_bytes: ByteCount | None = None
