"""Load that one job of each group puts on the shared storage, read off its own SizingReport."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sizing.errors import InvalidInput
from sizing.questions.cluster.request import ClusterScenario, JobGroup, Sharing
from sizing.report import SizingReport, find_layout
from sizing.run.evaluation import RunInputs, evaluate
from sizing.run.export import export_steps
from sizing.run.failure_process import FailureProcess, NodePool
from sizing.run.levels import Level, overhead_of_levels_fraction
from sizing.run.publication import publication_steps
from sizing.run.tiers import TierLevel
from sizing.run.workload import CheckpointWorkload
from sizing.run.write import Write, with_copy_rate
from sizing.sized_layout import size_layout
from sizing.state import Training
from sizing.storage.limits import Demand, Direction, Limit, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import DIRECTIONS, document_name, rate_names
from sizing.storage.storage import Storage, resolve_storage
from sizing.storage.terms import once_terms
from sizing.storage.transfer import Numbers, as_number

_FILE_SYSTEM = "file-system"


@dataclass(frozen=True, slots=True)
class TransferLoad:
    """Transfer of a job: `lead_seconds` that take no bandwidth, then `num_bytes` at its share of the file system.

    `max_bytes_per_second` is what the job's own writers and nodes allow, infinite where only the file system limits.
    """

    num_bytes: float
    lead_seconds: float
    max_bytes_per_second: float
    weight: float

    @classmethod
    def of(
        cls, num_bytes: float, seconds: float, limits: Sequence[Limit], *, weight: float, more_lead_seconds: float
    ) -> TransferLoad:
        """Make a transfer that takes `seconds` alone, of which the serial steps come first.

        `more_lead_seconds` take no bandwidth either; less than 0 for time that passes before the transfer begins.
        """
        serial = sum(limit.seconds for limit in limits if limit.slack_fraction is None)
        return cls(
            num_bytes,
            max(0.0, serial + more_lead_seconds),
            _find_own_rate(limits, alone=num_bytes / (seconds - serial)),
            weight,
        )

    def behind(self, tier: TierLevel) -> TransferLoad:
        """Make the drain of a save that is read from the copy in that tier, once it is whole."""
        read_rate = self.num_bytes / float(tier.drained_seconds) if tier.drained_seconds else math.inf
        return replace(
            self,
            lead_seconds=self.lead_seconds + float(tier.whole_seconds),
            max_bytes_per_second=min(self.max_bytes_per_second, read_rate),
        )

    def rate_alone(self, bytes_per_second: float) -> float:
        """Rate of the transfer that has the file system to itself."""
        return min(self.max_bytes_per_second, bytes_per_second)

    def transfer_seconds(self, bytes_per_second: float) -> float:
        """Time that bytes flow, alone on a file system of that rate."""
        return self.num_bytes / self.rate_alone(bytes_per_second)

    def alone_seconds(self, bytes_per_second: float) -> float:
        """Time from start to end, alone on a file system of that rate."""
        return self.lead_seconds + self.transfer_seconds(bytes_per_second)


def _find_own_rate(limits: Sequence[Limit], *, alone: float) -> float:
    """Find what the job's own writers and nodes allow: the rate `alone`, where not the file system limits that."""
    shared = [limit for limit in limits if limit.slack_fraction is not None]
    if not any(limit.resource == _FILE_SYSTEM and limit.slack_fraction == 0 for limit in shared):
        return alone
    own = (limit.bytes_per_second for limit in shared if limit.resource != _FILE_SYSTEM)
    return min((rate for rate in own if rate is not None), default=math.inf)


@dataclass(frozen=True, slots=True)
class ExportLoad:
    """Export of one of `every` saves: after `gather_seconds` without the storage its `writes` and `reads`, in turn.

    The job `waits` for it, or another job makes it. Its reads take `reading_seconds` of a job that has the storage to
    itself; there are none where no read rate is known.
    """

    every: int
    waits: bool
    gather_seconds: float
    reading_seconds: float
    writes: tuple[TransferLoad, ...]
    reads: tuple[TransferLoad, ...]

    def alone_seconds(self, write_bytes_per_second: float) -> float:
        """Time from start to end, alone on a file system of that write rate."""
        writing = sum(step.alone_seconds(write_bytes_per_second) for step in self.writes)
        return self.gather_seconds + self.reading_seconds + writing

    @property
    def written_bytes_per_save(self) -> float:
        """Bytes that exports write, as the mean over saves."""
        return sum(step.num_bytes for step in self.writes) / self.every


@dataclass(frozen=True, slots=True)
class PublicationLoad:
    """Publications over the storage, one in each interval: trainers write, then all inference engines read.

    `read` is None where no read rate is known.
    """

    interval_seconds: float
    write: TransferLoad
    read: TransferLoad | None


@dataclass(frozen=True, slots=True)
class JobPreemption:
    """Preemption of a job: how often, how long after a notice, and for how long on average it then has no nodes.

    A save within the notice copies the state out of the GPUs for `copy_seconds` before it is written. After the wait
    `start_seconds` pass until the job reads: a recovery without the detection, as the job was told.
    """

    per_second: float
    notice_seconds: float
    capacity_wait_seconds: float
    copy_seconds: float
    start_seconds: float


@dataclass(frozen=True, slots=True)
class JobLoad:
    """Load of one job of a group. `snapshot_seconds` is the stall of asynchronous saving, None where saving blocks.

    `tiers` stand in front of the shared storage, peers and groups that train on first; a share `used_fraction` of all
    failures needs the shared storage; `recovery_seconds` pass after such a failure besides reading and waits for nodes,
    or `detection_seconds` and of a `measured_restart_seconds` what reading leaves; `mtbf_seconds` is None where
    failures are unknown. Replaced nodes come from the `pool`, at once where it is None. With strategy shrink
    `throughput_fraction` of the groups train, as the mean over the time.
    """

    group: JobGroup
    report: SizingReport
    write: TransferLoad
    restore: TransferLoad | None
    snapshot_seconds: float | None
    mtbf_seconds: float | None
    recovery_seconds: float
    detection_seconds: float
    measured_restart_seconds: float | None
    tiers: tuple[Level, ...]
    used_fraction: float
    pool: NodePool | None = None
    preemption: JobPreemption | None = None
    throughput_fraction: float = 1.0
    restores_per_second: float = 0.0
    export: ExportLoad | None = None
    publication: PublicationLoad | None = None

    @property
    def interruptions_per_second(self) -> float:
        """Failures and preemptions per second that the job has its nodes."""
        failures = 1 / self.mtbf_seconds if self.mtbf_seconds else 0.0
        return failures + (self.preemption.per_second if self.preemption else 0.0)

    @property
    def interval_seconds(self) -> float:
        """Time from one checkpoint on the shared storage to the next, start to start, if nobody is in the way."""
        given = self.group.scenario.checkpoint.interval_seconds
        return max(given, float(self.tiers[-1].interval_seconds)) if self.tiers else given

    @property
    def between_restores_seconds(self) -> float:
        """Mean time between restores from the shared storage, by formula; infinite if there are none."""
        return 1 / self.restores_per_second if self.restores_per_second else math.inf

    @property
    def transfers_per_save(self) -> float:
        """Transfers of an interval, as the mean: of its save, of exports and of publications."""
        export, publication = self.export, self.publication
        exported = (len(export.writes) + len(export.reads)) / export.every if export else 0.0
        return 1.0 + exported + (2 * self.interval_seconds / publication.interval_seconds if publication else 0.0)

    @property
    def written_bytes_per_second(self) -> float:
        """Mean rate at which saves, exports and publications write."""
        exported = self.export.written_bytes_per_save if self.export else 0.0
        saved = (self.write.num_bytes + exported) / self.interval_seconds
        published = self.publication
        return saved + (published.write.num_bytes / published.interval_seconds if published else 0.0)

    def stall_alone_seconds(self, write_bytes_per_second: float) -> float:
        """Stall of a save that has the file system to itself, as the mean where some saves are exported."""
        every = self.export.every if self.export else 1
        return (
            self.save_stall_seconds(write_bytes_per_second) + self.export_stall_seconds(write_bytes_per_second) / every
        )

    def stall_within_seconds(self, write_bytes_per_second: float, *, fraction: float) -> float:
        """Stall within which that fraction of the saves ends that have the file system to themselves."""
        is_exported = self.export is not None and 1 / self.export.every > 1 - fraction
        exporting = self.export_stall_seconds(write_bytes_per_second) if is_exported else 0.0
        return self.save_stall_seconds(write_bytes_per_second) + exporting

    def save_stall_seconds(self, write_bytes_per_second: float) -> float:
        """Stall of a save that is not exported and has the file system to itself."""
        if self.snapshot_seconds is not None:
            return self.snapshot_seconds
        return self.write.alone_seconds(write_bytes_per_second)

    def export_stall_seconds(self, write_bytes_per_second: float) -> float:
        """Stall of an export that has the file system to itself; 0 where nothing waits for exports."""
        return self.export.alone_seconds(write_bytes_per_second) if self.export and self.export.waits else 0.0

    def before_reading_seconds(self, read_bytes_per_second: float) -> float:
        """Time from a failure until the job reads, where the file system gives it so much."""
        if self.measured_restart_seconds is None or self.restore is None:
            return self.recovery_seconds
        left = self.measured_restart_seconds - self.restore.alone_seconds(read_bytes_per_second)
        return self.detection_seconds + max(0.0, left)

    def compute_seconds(self, write_bytes_per_second: float) -> float:
        """Training between two saves: what the interval leaves beside the stall of a save alone."""
        return max(0.0, self.interval_seconds - self.stall_alone_seconds(write_bytes_per_second))

    def useful_fraction(self, write_bytes_per_second: float) -> float:
        """Share of the time between two saves that is not spent saving to the tiers in front."""
        between = self.compute_seconds(write_bytes_per_second)
        stalled = float(overhead_of_levels_fraction(self.tiers)) * self.interval_seconds
        return max(0.0, 1 - stalled / between) if between else 0.0


_CHANGES_THE_RATE = (*rate_names("fraction"), "cache_bytes", "knee_power")
"""Figures with which the rate depends on writers, nodes or bytes: jobs that share it do not say whose."""


@dataclass(frozen=True, slots=True)
class SharedRates:
    """Rates of the file system that all jobs share; `read_bytes_per_second` is None where it is not known."""

    write_bytes_per_second: float
    read_bytes_per_second: float | None


def resolve_shared_storage(scenario: ClusterScenario) -> SharedRates:
    """Find the rates that the jobs share.

    Raises InvalidInput where the storage has no write rate of a whole file system, or its name is unknown.
    """
    resolved = resolve_storage(scenario.storage)
    assert resolved is not None  # noqa: S101  there is a block
    write_rate = as_number(resolved.profile.write.file_system_bytes_per_second)
    if write_rate is None:
        raise InvalidInput.of(
            "storage.profile.write_bytes_per_second",
            "is required",
            value=None,
            remedy="give the rate that the jobs share",
        )
    changing = [
        document_name(name, direction)
        for direction in DIRECTIONS
        for name in _CHANGES_THE_RATE
        if getattr(resolved.profile.rates(direction), name) is not None
    ]
    if changing:
        raise InvalidInput.of(
            "storage",
            f"must have one rate for all jobs, and {', '.join(changing)} make it depend on who writes",
            value=None,
            remedy="give a profile without them, with the rates that so many writers get",
        )
    return SharedRates(write_rate, as_number(resolved.profile.read.file_system_bytes_per_second))


def with_any_read_rate(scenario: ClusterScenario) -> ClusterScenario:
    """Give storage without a read rate that of its writes, for what does not depend on that rate.

    Bytes to read, limits of the jobs' own nodes and serial steps of a restore are such figures of a JobLoad. Raises
    InvalidInput where the storage has no write rate.
    """
    resolved = resolve_storage(scenario.storage)
    assert resolved is not None  # noqa: S101  there is a block
    rate = resolve_shared_storage(scenario).write_bytes_per_second
    profile = resolved.profile.model_copy(update={"read_bytes_per_second": rate})
    return scenario.model_copy(update={"storage": Storage(profile=profile)})


def compute_job_loads(scenario: ClusterScenario) -> list[JobLoad]:
    """Compute what each group's job asks of the storage.

    Raises InvalidInput where a job's scenario cannot be answered.
    """
    return [_compute_load(scenario, group, index) for index, group in enumerate(scenario.jobs)]


def _compute_load(scenario: ClusterScenario, group: JobGroup, index: int) -> JobLoad:
    try:
        shared = find_layout(group.scenario.model_copy(update={"storage": scenario.storage}))
        report = shared.answer()
        workload, inputs = size_layout(shared.scenario).workload, shared.scenario.run_inputs
        figures = evaluate(workload, inputs)
    except InvalidInput as error:
        raise error.within(f"jobs.{index}.scenario") from None
    assert report.write is not None  # noqa: S101  the storage has a write rate
    process, front = figures.process, figures.levels[:-1]
    snapshot = report.write.stall_seconds if group.scenario.checkpoint.mode == "async" else None
    planning = report.write.stalled_by_planning_seconds if front and snapshot is not None else snapshot
    write = _compute_write_load(report, report.write, scenario.sharing, snapshot_seconds=snapshot)
    load = JobLoad(
        group=group,
        report=report,
        write=write.behind(front[-1]) if front and snapshot is not None else write,
        restore=_compute_restore_load(report, scenario.sharing),
        snapshot_seconds=planning,
        mtbf_seconds=None,
        recovery_seconds=0.0,
        detection_seconds=0.0,
        measured_restart_seconds=None,
        tiers=front,
        used_fraction=1.0,
        export=_compute_export_load(report, workload, inputs, scenario.sharing),
        publication=_compute_publication_load(group.scenario.training, workload, inputs, scenario.sharing),
    )
    return load if process is None else _add_failures(load, process, figures.levels)


def _add_failures(load: JobLoad, process: FailureProcess, levels: Sequence[Level]) -> JobLoad:
    """Add the failures and preemptions of the job alone, which saves to some levels."""
    *front, main = process.failure_levels
    reliability, reading = load.group.scenario.reliability, load.report.restore.seconds or 0.0
    assert reliability is not None  # noqa: S101  there is a failure process
    recovery, preemption = float(main.recovery_seconds), reliability.preemption
    before_reading = max(0.0, recovery - reading)
    copies = 0.0 if load.snapshot_seconds is None else load.snapshot_seconds
    copies += float(levels[0].stall_seconds) if load.snapshot_seconds is not None and len(levels) > 1 else 0.0
    job_preemption = (
        None
        if preemption is None
        else JobPreemption(
            per_second=preemption.per_second,
            notice_seconds=preemption.notice_seconds,
            capacity_wait_seconds=preemption.capacity_wait_seconds,
            copy_seconds=copies,
            start_seconds=max(0.0, float(process.levels[process.preempted_levels[-1]].recovery_seconds) - reading),
        )
    )
    per_second = job_preemption.per_second if job_preemption else 0.0
    return replace(
        load,
        mtbf_seconds=1 / (1 / float(process.mtbf_seconds) - per_second),
        recovery_seconds=before_reading,
        detection_seconds=reliability.detection_seconds,
        measured_restart_seconds=reliability.restart_seconds,
        tiers=tuple(front),
        used_fraction=float(main.used_fraction),
        pool=process.pool,
        preemption=job_preemption,
        throughput_fraction=1.0 if process.groups is None else float(process.available_fraction),
        restores_per_second=float(process.restores_per_second(len(levels))[-1]),
    )


def _compute_write_load(
    report: SizingReport, write: Write, sharing: Sharing, *, snapshot_seconds: float | None
) -> TransferLoad:
    """Compute the transfer of a save; of an asynchronous one the drain, as the snapshot passes before it begins."""
    return TransferLoad.of(
        saved_bytes(report),
        write.seconds,
        write.limits,
        weight=_weight(sharing, report.layout.num_writing_nodes),
        more_lead_seconds=-(snapshot_seconds or 0.0),
    )


def saved_bytes(report: SizingReport) -> int:
    """Bytes that a save writes, as the mean over saves where they hold less than everything.

    Source: `reduction.mean_bytes` of the report, else `checkpoint.written_bytes`.

    >>> from sizing.report import answer
    >>> saved_bytes(answer({"model": {"preset": "gpt2"}}))
    1742157312
    """
    return report.reduction.mean_bytes if report.reduction else report.checkpoint.written_bytes


def _compute_restore_load(report: SizingReport, sharing: Sharing) -> TransferLoad | None:
    """Compute the transfer of a restore; None where no read rate is known.

    What ranks then pass on to each other takes no bandwidth.
    """
    restore = report.restore
    if restore.read_seconds is None:
        return None
    return TransferLoad.of(
        restore.read_bytes,
        restore.read_seconds,
        restore.limits,
        weight=_weight(sharing, report.layout.num_nodes),
        more_lead_seconds=restore.exchange_seconds or 0.0,
    )


def _compute_export_load(
    report: SizingReport, workload: CheckpointWorkload, inputs: RunInputs, sharing: Sharing
) -> ExportLoad | None:
    """Compute the transfers of an export; None where nothing is exported."""
    export, exported = inputs.checkpoint.export, report.export
    if export is None or exported is None:
        return None
    profile = with_copy_rate(inputs.profile, workload=workload, checkpoint=inputs.checkpoint)
    assert profile is not None  # noqa: S101  the storage has a write rate
    steps = export_steps(export, workload)
    return ExportLoad(
        every=export.every,
        waits=export.waits,
        gather_seconds=exported.gather_seconds,
        reading_seconds=exported.read_seconds or 0.0,
        writes=tuple(_compute_step_loads(profile, steps["write"], "write", sharing)),
        reads=tuple(_compute_step_loads(profile, steps["read"], "read", sharing)),
    )


def _compute_publication_load(
    training: Training, workload: CheckpointWorkload, inputs: RunInputs, sharing: Sharing
) -> PublicationLoad | None:
    """Compute the transfers of publications; None where nothing is published over the storage."""
    publication = training.reinforcement.publication if training.reinforcement else None
    stored = workload.publications
    if publication is None or stored is None:
        return None
    assert inputs.profile is not None  # noqa: S101  the storage has a write rate
    steps = publication_steps(publication, workload, int(stored.written_bytes))
    (write,) = _compute_step_loads(inputs.profile, steps["write"], "write", sharing)
    read = next(_compute_step_loads(inputs.profile, steps["read"], "read", sharing), None)
    if publication.replica_bytes_per_second is not None:
        nodes = publication.num_replicas * publication.nodes_per_replica
        rate = publication.num_replicas * publication.replica_bytes_per_second
        read = TransferLoad(float(stored.read_bytes), 0.0, rate, _weight(sharing, nodes))
    return PublicationLoad(publication.interval_seconds, write, read)


def _compute_step_loads(
    profile: StorageProfile, steps: Sequence[Demand], direction: Direction, sharing: Sharing
) -> Iterator[TransferLoad]:
    """Compute a transfer for each step, the first with what is paid once; none where no rate is known."""
    once = as_number(sum(once_terms(profile.rates(direction)).values(), start=0.0)) or 0.0
    for index, step in enumerate(steps):
        moved = transfer(profile, [step], direction=direction)
        if moved is None:
            return
        yield TransferLoad.of(
            float(step.total_bytes),
            float(moved.seconds),
            moved.limits,
            weight=_weight(sharing, step.num_nodes),
            more_lead_seconds=-once if index else 0.0,
        )


def _weight(sharing: Sharing, num_nodes: Numbers) -> float:
    return float(num_nodes) if sharing == "per-node" else 1.0
