"""The `storage` block of a Scenario: how fast a storage system is, as far as it is known."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.units import BytesPerSecond, Seconds


class MeasuredOn(BaseModel):
    """The benchmark run that rates come from, and how much of a cluster it saw."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: Annotated[str, Field(max_length=64)]
    engine: Annotated[str, Field(max_length=64)]
    num_nodes: Annotated[int, Field(ge=1, le=1_000_000)]
    num_ranks: Annotated[int, Field(ge=1, le=1_000_000)]
    warnings: tuple[Annotated[str, Field(max_length=2000)], ...] = Field((), max_length=100)


class StorageProfile(BaseModel):
    """Rates of a storage system. What is None does not limit.

    `write` and `read` are of the whole file system, `node_` of one node, `writer_` of one writer's or
    reader's stream, `device_to_host` of one GPU's copy to host memory; `files_per_second` is the rate at
    which files are created or opened, `fixed_` what an operation takes whatever its size.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: BytesPerSecond | None = None
    read_bytes_per_second: BytesPerSecond | None = None
    node_write_bytes_per_second: BytesPerSecond | None = None
    node_read_bytes_per_second: BytesPerSecond | None = None
    writer_write_bytes_per_second: BytesPerSecond | None = None
    writer_read_bytes_per_second: BytesPerSecond | None = None
    device_to_host_bytes_per_second: BytesPerSecond | None = None
    files_per_second: Annotated[float, Field(ge=1e-3, le=1e12, allow_inf_nan=False)] | None = None
    fixed_write_seconds: Seconds | None = None
    fixed_read_seconds: Seconds | None = None
    measured: MeasuredOn | None = Field(None, description="where the rates were measured, if they were")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any("bytes_per_second" in name for name in self.model_fields_set):
            raise broken_rule("must have at least one rate", "give write_bytes_per_second: 273 GB/s")
        return self


class Storage(BaseModel):
    """Where checkpoints go."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    profile: StorageProfile
