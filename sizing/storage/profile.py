"""How fast a storage system is, as far as it is known: the rates of the transfer model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.storage.rates import Direction, RateField, Rates, rates_of
from sizing.storage.transfer import Numbers
from sizing.units import BytesPerSecond, Seconds

_FilesPerSecond = Annotated[float, Field(ge=1e-3, le=1e12, allow_inf_nan=False)]


class MeasuredOn(BaseModel):
    """The benchmark run that rates come from, and how much of a cluster it saw."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: Annotated[str, Field(max_length=64)]
    engine: Annotated[str, Field(max_length=64)]
    num_nodes: Annotated[int, Field(ge=1, le=1_000_000)]
    num_ranks: Annotated[int, Field(ge=1, le=1_000_000)]
    warnings: tuple[Annotated[str, Field(max_length=2000)], ...] = Field((), max_length=100)


class StorageProfile(BaseModel):
    """Rates of a storage system, and the times that add up beside them. What is None does not limit.

    `write` and `read` are of the whole file system, `node_` of one node's network ports or drives, `writer_` of one
    writer's or reader's stream. `_buffered_` rates hold where the stream goes through the page cache: `node_` for
    all streams of a node together. `device_to_host` is one GPU's copy to host memory. The times of a save or a
    restore that nothing overlaps: `fixed_` whatever its size, `file_` for each file of a stream, `commit_` from the
    last byte to a checkpoint that counts, `planning_` for each rank whose plan is gathered.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: BytesPerSecond | None = None
    read_bytes_per_second: BytesPerSecond | None = None
    node_write_bytes_per_second: BytesPerSecond | None = None
    node_read_bytes_per_second: BytesPerSecond | None = None
    node_buffered_write_bytes_per_second: BytesPerSecond | None = None
    node_buffered_read_bytes_per_second: BytesPerSecond | None = None
    writer_write_bytes_per_second: BytesPerSecond | None = None
    writer_read_bytes_per_second: BytesPerSecond | None = None
    writer_buffered_write_bytes_per_second: BytesPerSecond | None = None
    writer_buffered_read_bytes_per_second: BytesPerSecond | None = None
    device_to_host_bytes_per_second: BytesPerSecond | None = None
    files_per_second: _FilesPerSecond | None = Field(None, description="created by saves")
    read_files_per_second: _FilesPerSecond | None = Field(None, description="opened by restores")
    file_write_seconds: Seconds | None = Field(None, description="to create, sync and close one file")
    file_read_seconds: Seconds | None = Field(None, description="to open one file")
    planning_seconds_per_rank: Seconds | None = Field(None, description="of saves that plan together, as DCP does")
    read_planning_seconds_per_rank: Seconds | None = Field(None, description="of restores that plan together")
    commit_seconds: Seconds | None = Field(None, description="to sync folders, rename and publish a save")
    fixed_write_seconds: Seconds | None = None
    fixed_read_seconds: Seconds | None = None
    measured: MeasuredOn | None = Field(None, description="where the rates were measured, if they were")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any("bytes_per_second" in name for name in self.model_fields_set):
            raise broken_rule("must have at least one rate", "give write_bytes_per_second: 273 GB/s")
        return self

    @classmethod
    def of_figures(cls, figures: Mapping[RateField, Numbers]) -> StorageProfile:
        """A profile of figures that may be arrays, and are not validated."""
        return cls.model_construct(**dict[str, Any](figures.items()))

    def figures(self) -> dict[str, Numbers]:
        """Every rate and time that is known, by field."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "measured"}

    def rates(self, direction: Direction) -> Rates:
        """What limits saves, or restores: what `storage.terms` calculates with."""
        return rates_of(self.figures(), direction)

    def direct(self) -> StorageProfile:
        """The profile for writers and readers that bypass the page cache."""
        buffered = {name: None for name in type(self).model_fields if "_buffered_" in name}
        return self.model_copy(update=buffered)
