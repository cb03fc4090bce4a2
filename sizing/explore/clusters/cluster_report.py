"""The answer about a cluster, as a document: formulas where they exist, and beside them what a simulation showed."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sizing.explore.clusters.statistics import Moment, SimulatedStalls, SimulatedUse
from sizing.explore.clusters.storms import Storm


class JobFigures(BaseModel):
    """One group of equal jobs: each of them alone, by formula among the others, and as simulated.

    `collision_fraction` and `mean_stall_seconds` are formulas: independent phases that nobody's waiting shifts, and
    transfers that share the file system elastically. `mean_stall_seconds` is None where the file system is
    overloaded, or where asynchronous saves do not drain within the interval.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    count: int
    num_gpus: int = Field(description="of one job, as everything here but capacity")
    num_nodes: int
    checkpoint_bytes: int
    interval_seconds: float
    stall_alone_seconds: float
    bytes_per_second_alone: float
    collision_fraction: float
    mean_stall_seconds: float | None
    goodput_alone_fraction: float | None
    simulated_stalls: SimulatedStalls | None
    simulated_collision_fraction: float | None
    simulated_goodput_fraction: float
    num_failures: int = Field(description="simulated, of all jobs of the group")
    capacity_bytes: int = Field(description="of all jobs of the group")


class FileSystemUse(BaseModel):
    """What all jobs ask of the file system in one direction. The mean is a formula, sum over jobs of bytes / period."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bytes_per_second: float = Field(description="that the file system gives")
    mean_bytes_per_second: float
    utilization_fraction: float
    all_at_once_bytes_per_second: float | None = Field(
        description="that all jobs could draw together; None where only the file system limits them"
    )
    simulated: SimulatedUse


class Concurrency(BaseModel):
    """How many jobs write at one moment while nobody is slowed down, by formula."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean: float
    p99: int
    limited_fraction: float | None = Field(description="of the time, in which the file system is short; None: always")


class RequiredBandwidth(BaseModel):
    """The least file-system rates for the targets; a rate is None where no target is set or none is enough."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    p99_stall_seconds: float | None
    write_bytes_per_second: float | None
    recovery_seconds: float | None
    read_bytes_per_second: float | None


class ClusterReport(BaseModel):
    """What many jobs on one storage system do to each other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_jobs: int
    num_nodes: int
    num_gpus: int
    jobs: list[JobFigures]
    write: FileSystemUse
    read: FileSystemUse | None
    concurrency: Concurrency
    storms: list[Storm]
    required: RequiredBandwidth
    capacity_bytes: int
    written_bytes_per_day: float
    horizon_seconds: float
    num_checkpoints: int = Field(description="simulated")
    busiest_day: list[Moment]
    warnings: list[str]

    @property
    def meets_targets(self) -> bool:
        """Whether the storage as it is meets every target that was set."""
        needed = (
            (self.required.p99_stall_seconds, self.required.write_bytes_per_second, self.write),
            (self.required.recovery_seconds, self.required.read_bytes_per_second, self.read),
        )
        return all(
            rate is not None and use is not None and use.bytes_per_second >= rate
            for target, rate, use in needed
            if target is not None
        )
