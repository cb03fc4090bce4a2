"""Report about a cluster, as a document: formulas where they exist, and beside them what a simulation showed."""

from __future__ import annotations

from pydantic import Field

from sizing.storage.rates import Direction
from sizing.strict_model import StrictModel

PERCENTILES = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
"""The distribution as a line: closer where it bends, at both ends."""


class SimulatedStalls(StrictModel):
    """The stalls of a group's saves."""

    num_stalls: int = Field(description="Saves that were completed in the simulation.")
    mean_seconds: float = Field(description="Mean seconds for which a save stalls its job.")
    mean_error_seconds: float | None = Field(
        description="Half the 95 % interval of the mean, in seconds, from 20 batches. Null when a batch has no save."
    )
    p50_seconds: float = Field(description="Median seconds for which a save stalls its job.")
    p99_seconds: float = Field(description="Seconds within which 99 % of the stalls end.")
    max_seconds: float = Field(description="Seconds for which the slowest save stalls its job.")
    percentile_seconds: list[float] = Field(
        description="Seconds at the percentiles 0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9 and 100."
    )


class SimulatedUse(StrictModel):
    """How the file system was used."""

    mean_bytes_per_second: float = Field(description="Mean rate over the simulated time, in bytes per second.")
    p99_bytes_per_second: float = Field(description="Rate not exceeded for 99 % of the time, in bytes per second.")
    peak_bytes_per_second: float = Field(description="Max rate at any moment, in bytes per second.")
    limited_fraction: float = Field(description="Fraction of the time for which transfers could have taken more.")


class LoadInterval(StrictModel):
    """The mean rates of some minutes of the busiest day."""

    at_seconds: float = Field(description="Seconds from the start of the simulation.")
    write_bytes_per_second: float = Field(description="Mean write rate until the next entry, in bytes per second.")
    read_bytes_per_second: float = Field(description="Mean read rate until the next entry, in bytes per second.")

    def bytes_per_second(self, direction: Direction) -> float:
        """The rate of the writes, or of the reads."""
        return self.write_bytes_per_second if direction == "write" else self.read_bytes_per_second


class Storm(StrictModel):
    """What a failure costs that stops several jobs at once, detection and restart included."""

    failure: str = Field(description="What fails: the rack with the max recovery time, or the power of all nodes.")
    num_jobs: int = Field(description="Jobs that the failure stops.")
    num_gpus: int = Field(description="GPUs of the jobs that the failure stops.")
    read_bytes: int = Field(description="Bytes that the stopped jobs read to restore.")
    first_back_seconds: float = Field(description="Seconds from the failure until the first job trains again.")
    last_back_seconds: float = Field(description="Seconds from the failure until every job trains again (RTO).")
    last_back_alone_seconds: float = Field(
        description="Seconds until the slowest job trains again, if nobody else read at that time."
    )
    gpu_hours: float = Field(
        description="GPU-hours that stand still until every job trains again, work done again not counted."
    )


class JobTarget(StrictModel):
    """A target of a job's own scenario, beside what the job gets among the others."""

    target: str = Field(description="Field of the scenario's targets that is set, such as max_stall_seconds.")
    wanted: float = Field(description="Value of that field: a max, or a min for goodput.")
    found: float | None = Field(
        description="Figure that is compared with the target, in the same unit: of the stall what 99 % of the saves "
        "keep to, of recovery that of the job alone. Null when unknown."
    )
    met: bool | None = Field(description="Whether the figure is within the target. Null when unknown.")


class JobFigures(StrictModel):
    """One group of equal jobs: each of them alone, by formula among the others, and as simulated.

    The formulas take independent phases that nobody's waiting shifts, and transfers that share the file system
    elastically.
    """

    name: str = Field(description="Group of equal jobs, as the question names it.")
    count: int = Field(description="Equal jobs that run at once.")
    num_gpus: int = Field(description="World size of one job.")
    num_nodes: int = Field(description="Nodes that one job of the group runs on.")
    checkpoint_bytes: int = Field(description="Bytes that one job writes per save.")
    interval_seconds: float = Field(
        description="Seconds from the start of one save of a job to the shared storage to the start of the next, "
        "undisturbed."
    )
    stall_alone_seconds: float = Field(
        description="Seconds for which a save stalls a job that has the storage to itself, as the mean with exports."
    )
    bytes_per_second_alone: float = Field(
        description="Write rate of a job that has the storage to itself, in bytes per second."
    )
    collision_fraction: float | None = Field(
        description="Fraction of saves that overlap another job's, by formula: independent phases. Null where several "
        "jobs run and not all start at random."
    )
    mean_stall_seconds: float | None = Field(
        description="Mean seconds of a stall among the other jobs, by formula. "
        "Null when the file system is overloaded or asynchronous saves do not drain within the interval."
    )
    goodput_alone_fraction: float | None = Field(
        description="Fraction of the time that is useful work (goodput, ETTR) in a job alone. Null without reliability."
    )
    simulated_stalls: SimulatedStalls | None = Field(
        description="Stalls of the group's saves in the simulation. Null when no save was completed."
    )
    simulated_collision_fraction: float | None = Field(
        description="Fraction of simulated saves that overlap another job's. Null when no save was completed."
    )
    simulated_goodput_fraction: float = Field(
        description="Fraction of the simulated time that was useful work (goodput, ETTR)."
    )
    simulated_goodput_error_fraction: float | None = Field(
        None,
        description="Half the 95 % interval of simulated_goodput_fraction, as a fraction of the time, from 20 batches. "
        "Null where no failure and no preemption was drawn.",
    )
    simulated_goodput_alone_fraction: float | None = Field(
        None,
        description="Fraction of the time that is useful in the same jobs with the same failures, each with the "
        "storage to itself: what the others cost is the difference from it. Null without reliability.",
    )
    num_failures: int = Field(description="Simulated failures of all jobs of the group.")
    num_preemptions: int = Field(description="Simulated preemptions of all jobs of the group.")
    capacity_bytes: int = Field(
        description="Bytes that the kept checkpoints of all jobs of the group take, without what stays free."
    )
    usable_bytes: float = Field(
        description="Size of the file system in bytes that the group needs: capacity_bytes and the fraction that "
        "retention.free_fraction of its scenario leaves free."
    )
    raw_bytes: float = Field(description="Bytes of drives to buy for the group, with redundancy.")
    targets: list[JobTarget] = Field(
        default_factory=list, description="Targets that the scenario of the group states. Empty when it states none."
    )


class FileSystemUse(StrictModel):
    """What all jobs ask of the file system in one direction."""

    bytes_per_second: float = Field(description="Max rate that the file system gives, in bytes per second.")
    mean_bytes_per_second: float = Field(
        description="Mean rate that all jobs ask for, in bytes per second, by formula: sum of bytes / interval."
    )
    utilization_fraction: float = Field(
        description="Mean rate as a fraction of what the file system gives; above 1 it is overloaded."
    )
    all_at_once_bytes_per_second: float | None = Field(
        description="Rate that all jobs could draw together, in bytes per second. "
        "Null when only the file system limits them."
    )
    simulated: SimulatedUse = Field(
        description="Rates that the simulation showed, and how long the file system was short."
    )


class Concurrency(StrictModel):
    """How many jobs write at one moment while nobody is slowed down, by formula."""

    mean: float = Field(description="Mean of jobs that write at one moment.")
    p99: int | None = Field(
        description="Jobs that write at one moment, not exceeded for 99 % of the time. Null where several jobs run and "
        "not all start at random."
    )
    limited_fraction: float | None = Field(
        description="Fraction of the time for which the file system is short. Null when it always is, and where "
        "several jobs run and not all start at random."
    )


class RequiredBandwidth(StrictModel):
    """The min rates of the file system for the targets."""

    p99_stall_seconds: float | None = Field(
        description="Max seconds that targets allow for 99 % of the stalls. Null when not set."
    )
    write_bytes_per_second: float | None = Field(
        description="Min write rate of the file system that meets it, in bytes per second. "
        "Null without that target or when no rate does."
    )
    write_utilization_fraction: float | None = Field(
        None,
        description="Mean rate that all jobs ask for as a fraction of write_bytes_per_second: 1 leaves no reserve. "
        "Null without that rate.",
    )
    recovery_seconds: float | None = Field(
        description="Max seconds that targets allow until all jobs train again (RTO). Null when not set."
    )
    read_bytes_per_second: float | None = Field(
        description="Min read rate of the file system that meets it, in bytes per second. "
        "Null without that target or when no rate does."
    )


class ClusterReport(StrictModel):
    """What many jobs on one storage system do to each other."""

    num_jobs: int = Field(description="Jobs of all groups together.")
    num_nodes: int = Field(description="Nodes that all jobs together run on.")
    num_gpus: int = Field(description="World sizes of all jobs added up.")
    jobs: list[JobFigures] = Field(description="Figures of each group of equal jobs.")
    write: FileSystemUse = Field(description="What saves, exports and publications ask of the file system.")
    read: FileSystemUse | None = Field(
        description="What restores, exports and publications ask of the file system. Null without a read rate."
    )
    concurrency: Concurrency = Field(description="How many jobs write at once while nobody is slowed down, by formula.")
    storms: list[Storm] = Field(
        description="Restore storms: jobs that one failure stopped read at the same time. Empty without a read rate."
    )
    required: RequiredBandwidth = Field(description="Min rates that meet the targets.")
    capacity_bytes: int = Field(
        description="Bytes that the kept checkpoints of all jobs take, without what stays free."
    )
    usable_bytes: float = Field(
        description="Min size of the file system in bytes: capacity_bytes and what each job's retention leaves free."
    )
    raw_bytes: float = Field(
        description="Bytes of drives to buy: usable_bytes with the redundancy of each job's retention."
    )
    uncounted_bytes_per_day: float = Field(
        description="Bytes of kept weights that one day adds and that no capacity here counts, as the retention of "
        "their jobs has no run_seconds; 0 when there are none."
    )
    written_bytes_per_day: float = Field(
        description="Bytes that saves, exports and publications of all jobs write in one day."
    )
    horizon_seconds: float = Field(description="Seconds that the simulation covers.")
    num_checkpoints: int = Field(description="Saves that were completed in the simulation.")
    busiest_day: list[LoadInterval] = Field(
        description="Rates of the simulated day with the max of bytes in five minutes."
    )
    warnings: list[str] = Field(description="What a reader must know before believing the figures.")

    @property
    def targets_met(self) -> list[bool | None]:
        """Whether each target is met that was set, of the cluster and then of the jobs; None where it is unknown."""
        stall, recovery = self.required.p99_stall_seconds, self.required.recovery_seconds
        write_rate, read_rate = self.required.write_bytes_per_second, self.required.read_bytes_per_second
        met: list[bool | None] = [target.met for job in self.jobs for target in job.targets]
        if recovery is not None:
            is_unknown = read_rate is not None and self.read is None
            enough = read_rate is not None and self.read is not None and self.read.bytes_per_second >= read_rate
            met.insert(0, None if is_unknown else enough)
        if stall is not None:
            met.insert(0, write_rate is not None and self.write.bytes_per_second >= write_rate)
        return met

    @property
    def meets_targets(self) -> bool:
        """Whether the storage as it is meets every target, and there is one."""
        return bool(self.targets_met) and all(self.targets_met)
