"""What one configuration gave, as the journal and the result keep it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from io_bench.planning.configuration import Configuration
from sizing.storage.measurement import Measurement


class Measured(BaseModel):
    """The measurements of a configuration, the `hosts` of its writers, and in `conditions` what it had of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    configuration: Configuration
    measurements: list[Measurement]
    warnings: list[str]
    hosts: list[str]
    conditions: dict[str, JsonValue]
