"""What one configuration gave, as the journal and the result keep it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from io_bench.planning.configuration import Configuration
from sizing.storage.measurement import Measurement


class Measured(BaseModel):
    """The measurements of a configuration, and what it had of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    configuration: Configuration = Field(description="Engine, nodes, writers and sizes that were measured.")
    measurements: list[Measurement] = Field(description="Its writes and its restores.")
    warnings: list[str] = Field(description="What a reader must know before believing them.")
    hosts: list[str] = Field(description="Machines whose ranks wrote.")
    conditions: dict[str, JsonValue] = Field(
        description="What this configuration alone had: bytes, tensors, source of the restore, what ended it early."
    )
