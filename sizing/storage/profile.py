"""How fast a storage system is, as far as it is known: the rates of the transfer model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.ranges import plausible_range
from sizing.storage.rates import Direction, RateField, Rates, rates_of
from sizing.storage.transfer import Numbers
from sizing.units import ByteCount, BytesPerSecond, Seconds, percent_text

_COPY = "storage.profile.device_to_host_bytes_per_second"
_PLANNING = "storage.profile.planning_seconds_per_rank"
_FilesPerSecond = Annotated[float, Field(ge=1e-3, le=1e12, allow_inf_nan=False)]
_Contention = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
_Stripes = Annotated[float, Field(ge=1, le=1e6, allow_inf_nan=False)]
_KneePower = Annotated[float, Field(ge=1, le=64, allow_inf_nan=False)]


class MeasuredOn(BaseModel):
    """The benchmark run that rates come from, and how much of a cluster it saw."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: Annotated[str, Field(max_length=64)] = Field(
        description="Id of the benchmark run, as in its result document."
    )
    engine: Annotated[str, Field(max_length=64)] = Field(
        description="Engine that wrote the checkpoints, such as direct or torch-save."
    )
    num_nodes: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="Nodes that wrote at once in the run.")
    num_ranks: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="Ranks that wrote at once in the run.")
    warnings: tuple[Annotated[str, Field(max_length=2000)], ...] = Field(
        (), max_length=100, description="What the run warned of."
    )


class StorageProfile(BaseModel):
    """Max rates of a storage system, and the times of a save or a restore that nothing overlaps."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Max write rate of the whole file system, in bytes per second. Default: no limit."
    )
    read_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Max read rate of the whole file system, in bytes per second. Default: no limit."
    )
    node_write_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max write rate of one node by its storage ports or drives, in bytes per second. "
        "Default: no limit.",
    )
    node_read_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max read rate of one node by its storage ports or drives, in bytes per second. Default: no limit.",
    )
    node_buffered_write_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max write rate of one node through its page cache, all streams together, in bytes per second. "
        "Default: no limit.",
    )
    node_buffered_read_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max read rate of one node through its page cache, all streams together, in bytes per second. "
        "Default: no limit.",
    )
    writer_write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Max write rate of one writer's stream, in bytes per second. Default: no limit."
    )
    writer_read_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Max read rate of one reader's stream, in bytes per second. Default: no limit."
    )
    writer_buffered_write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Max write rate of one stream through the page cache, in bytes per second. Default: no limit."
    )
    writer_buffered_read_bytes_per_second: BytesPerSecond | None = Field(
        None, description="Max read rate of one stream through the page cache, in bytes per second. Default: no limit."
    )
    device_to_host_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Rate at which one GPU copies to host memory, in bytes per second. "
        f"Default: {plausible_range(_COPY).midpoint:.2g} of the line rate of its PCIe link with mode async or tiers, "
        "the middle of what was measured; otherwise the copy takes no time of its own.",
    )
    files_per_second: _FilesPerSecond | None = Field(
        None, description="Max rate at which saves create files, in files per second. Default: no limit."
    )
    read_files_per_second: _FilesPerSecond | None = Field(
        None, description="Max rate at which restores open files, in files per second. Default: no limit."
    )
    file_write_seconds: Seconds | None = Field(
        None,
        description="Seconds to create, sync and close one file; files of one stream wait for each other. "
        "Default: none.",
    )
    file_read_seconds: Seconds | None = Field(
        None, description="Seconds to open one file; files of one stream wait for each other. Default: none."
    )
    planning_seconds_per_rank: Seconds | None = Field(
        None,
        description="Seconds that each rank adds to the plan of a save, gathered on one rank as DCP does. "
        f"Default: {percent_text(plausible_range(_PLANNING).midpoint)} of what the format takes without cached plans; "
        "none in formats without .metadata.",
    )
    read_planning_seconds_per_rank: Seconds | None = Field(
        None, description="Seconds that each rank adds to the plan of a restore. Default: none."
    )
    commit_seconds: Seconds | None = Field(
        None,
        description="Seconds from the last byte until the save is complete: sync folders, rename, publish. "
        "Default: none.",
    )
    fixed_write_seconds: Seconds | None = Field(
        None, description="Seconds that a save takes whatever its size. Default: none."
    )
    fixed_read_seconds: Seconds | None = Field(
        None, description="Seconds that a restore takes whatever its size. Default: none."
    )
    writer_write_contention_fraction: _Contention | None = Field(
        None,
        description="Fraction of the file system's time of a byte that each further writer adds in saves. "
        "Default: none.",
    )
    node_write_contention_fraction: _Contention | None = Field(
        None,
        description="Fraction of the file system's time of a byte that each further node adds in saves. Default: none.",
    )
    write_cache_bytes: ByteCount | None = Field(
        None,
        description="Bytes of a save that a cache of the storage takes before the rate beyond it limits. "
        "Default: none.",
    )
    beyond_cache_write_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max write rate of the whole file system for what its cache does not hold, in bytes per second. "
        "Default: no limit.",
    )
    stripe_write_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max write rate of one writer at one storage target of a striped file, in bytes per second. "
        "Default: no limit.",
    )
    write_stripe_count: _Stripes | None = Field(
        None,
        description="Storage targets over which each file is striped in saves. Default: stripes do not limit.",
    )
    write_knee_power: _KneePower | None = Field(
        None,
        description="Power p with which the times t of shared limits combine in saves, (sum of t^p)^(1/p); 1 adds "
        "them. Default: the slowest hides the others.",
    )
    writer_read_contention_fraction: _Contention | None = Field(
        None,
        description="Fraction of the file system's time of a byte that each further reader adds in restores. "
        "Default: none.",
    )
    node_read_contention_fraction: _Contention | None = Field(
        None,
        description="Fraction of the file system's time of a byte that each further node adds in restores. "
        "Default: none.",
    )
    read_cache_bytes: ByteCount | None = Field(
        None,
        description="Bytes of a restore that a cache of the storage takes before the rate beyond it limits. "
        "Default: none.",
    )
    beyond_cache_read_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max read rate of the whole file system for what its cache does not hold, in bytes per second. "
        "Default: no limit.",
    )
    stripe_read_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Max read rate of one reader at one storage target of a striped file, in bytes per second. "
        "Default: no limit.",
    )
    read_stripe_count: _Stripes | None = Field(
        None,
        description="Storage targets over which each file is striped in restores. Default: stripes do not limit.",
    )
    read_knee_power: _KneePower | None = Field(
        None,
        description="Power p with which the times t of shared limits combine in restores, (sum of t^p)^(1/p); 1 "
        "adds them. Default: the slowest hides the others.",
    )
    measured: MeasuredOn | None = Field(
        None, description="Benchmark run that the rates come from. Default: they were not measured here."
    )

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
        return rates_of(vars(self), direction)

    def direct(self) -> StorageProfile:
        """The profile for writers and readers that bypass the page cache."""
        buffered = {name: None for name in type(self).model_fields if "_buffered_" in name}
        return self.model_copy(update=buffered)
