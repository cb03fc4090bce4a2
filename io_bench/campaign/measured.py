"""What one configuration gave, as the journal and the result keep it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from io_bench.planning.configuration import Configuration
from sizing.storage.corruption import Corruption
from sizing.storage.measurement import Measurement


class Measured(BaseModel):
    """The measurements of a configuration, and what it had of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    configuration: Configuration = Field(description="Engine, nodes, writers and sizes that were measured.")
    measurements: list[Measurement] = Field(description="Its writes and its restores.")
    warnings: list[str] = Field(description="Doubts about these figures.")
    corruption: list[Corruption] = Field(
        [], description="Data that came back other than it was written; it ended the run."
    )
    hosts: list[str] = Field(description="Hosts whose ranks wrote.")
    conditions: dict[str, JsonValue] = Field(
        description="Conditions of this configuration: bytes, tensors, source of the restore, reason of an early end."
    )
