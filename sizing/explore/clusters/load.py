"""What one job of each group asks of the shared storage, read off its own SizingReport."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sizing.errors import InvalidInput
from sizing.explore.clusters.cluster_scenario import ClusterScenario, JobGroup, Sharing
from sizing.report import SizingReport, answer
from sizing.run.goodput.levels import Level, overhead_of_levels_fraction
from sizing.run.tier import ARCHIVE
from sizing.run.tiers.rows import TierRow
from sizing.storage.limits import Limit
from sizing.storage.storage import resolve_storage

_FILE_SYSTEM = "file-system"


@dataclass(frozen=True, slots=True)
class TransferLoad:
    """One transfer of a job: `lead_seconds` that take no bandwidth, then `num_bytes` at its share of the file system.

    `max_bytes_per_second` is what the job's own writers and nodes allow, infinite where only the file system limits.
    """

    num_bytes: float
    lead_seconds: float
    max_bytes_per_second: float
    weight: float

    def rate_alone(self, bytes_per_second: float) -> float:
        """Rate of the transfer that has the file system to itself."""
        return min(self.max_bytes_per_second, bytes_per_second)

    def transfer_seconds(self, bytes_per_second: float) -> float:
        """Time that bytes flow, alone on a file system of that rate."""
        return self.num_bytes / self.rate_alone(bytes_per_second)

    def alone_seconds(self, bytes_per_second: float) -> float:
        """Time from start to end, alone on a file system of that rate."""
        return self.lead_seconds + self.transfer_seconds(bytes_per_second)


@dataclass(frozen=True, slots=True)
class JobLoad:
    """One job of a group. `snapshot_seconds` is the stall of asynchronous saving, None where saving blocks.

    `tiers` stand in front of the shared storage, which a share `used_fraction` of all failures needs;
    `recovery_seconds` pass after such a failure besides reading, of a `measured_restart_seconds` what reading leaves;
    `mtbf_seconds` is None where failures are unknown.
    """

    group: JobGroup
    report: SizingReport
    write: TransferLoad
    restore: TransferLoad | None
    snapshot_seconds: float | None
    mtbf_seconds: float | None
    recovery_seconds: float
    measured_restart_seconds: float | None
    tiers: tuple[Level, ...]
    used_fraction: float

    @property
    def interval_seconds(self) -> float:
        """From the start of one checkpoint on the shared storage to the start of the next, if nobody is in the way."""
        asked = self.group.scenario.checkpoint.interval_seconds
        return max(asked, float(self.tiers[-1].interval_seconds)) if self.tiers else asked

    @property
    def between_restores_seconds(self) -> float:
        """Mean time between the failures after which the job reads the shared storage; infinite if there are none."""
        return self.mtbf_seconds / self.used_fraction if self.mtbf_seconds and self.used_fraction else math.inf

    def stall_alone_seconds(self, write_bytes_per_second: float) -> float:
        """Stall of a save that has the file system to itself."""
        if self.snapshot_seconds is not None:
            return self.snapshot_seconds
        return self.write.alone_seconds(write_bytes_per_second)

    def before_reading_seconds(self, read_bytes_per_second: float) -> float:
        """From a failure until the job reads, where the file system gives it so much."""
        if self.measured_restart_seconds is None or self.restore is None:
            return self.recovery_seconds
        return max(0.0, self.measured_restart_seconds - self.restore.alone_seconds(read_bytes_per_second))

    def compute_seconds(self, write_bytes_per_second: float) -> float:
        """Training between two saves: what the interval leaves beside the stall of a save alone."""
        return max(0.0, self.interval_seconds - self.stall_alone_seconds(write_bytes_per_second))

    def useful_fraction(self, write_bytes_per_second: float) -> float:
        """Share of the time between two saves that is not spent saving to the tiers in front."""
        between = self.compute_seconds(write_bytes_per_second)
        stalled = float(overhead_of_levels_fraction(self.tiers)) * self.interval_seconds
        return max(0.0, 1 - stalled / between) if between else 0.0


@dataclass(frozen=True, slots=True)
class SharedStorage:
    """Rates of the file system that all jobs share; `read_bytes_per_second` is None where it is not known."""

    write_bytes_per_second: float
    read_bytes_per_second: float | None


def shared_storage(scenario: ClusterScenario) -> SharedStorage:
    """What the jobs share.

    Raises InvalidInput where the storage has no write rate of a whole file system, or its name is unknown.
    """
    resolved = resolve_storage(scenario.storage)
    assert resolved is not None  # noqa: S101  there is a block
    profile = resolved.profile
    if profile.write_bytes_per_second is None:
        raise InvalidInput.of(
            "storage.profile.write_bytes_per_second",
            "is required",
            value=None,
            remedy="give the rate that the jobs share",
        )
    return SharedStorage(profile.write_bytes_per_second, profile.read_bytes_per_second)


def job_loads(scenario: ClusterScenario) -> list[JobLoad]:
    """What each group's job asks of the storage.

    Raises InvalidInput where a job's scenario cannot be answered.
    """
    return [_load(scenario, group, index) for index, group in enumerate(scenario.jobs)]


def _load(scenario: ClusterScenario, group: JobGroup, index: int) -> JobLoad:
    try:
        report = answer(group.scenario.model_copy(update={"storage": scenario.storage}))
    except InvalidInput as error:
        raise error.within(f"jobs.{index}.scenario") from None
    write, restore, layout = report.write, report.restore, report.layout
    assert write is not None  # noqa: S101  the storage has a write rate
    front = [row for row in report.tiers if row.kind not in ("storage", ARCHIVE)]
    main = next((row for row in report.tiers if row.kind == "storage"), None)
    snapshot = write.stall_seconds if group.scenario.checkpoint.mode == "async" else None
    recovery = report.interval.recovery_seconds if main is None else main.recovery_seconds
    reading, reliability = None, group.scenario.reliability
    if restore.read_seconds is not None:
        nodes, passed_on = _weight(scenario.sharing, layout.num_nodes), restore.exchange_seconds or 0.0
        reading = _transfer(
            restore.read_bytes, restore.read_seconds, restore.limits, weight=nodes, more_lead_seconds=passed_on
        )
    return JobLoad(
        group=group,
        report=report,
        write=_transfer(
            report.checkpoint.written_bytes,
            write.seconds,
            write.limits,
            weight=_weight(scenario.sharing, layout.num_writing_nodes),
            more_lead_seconds=-(snapshot or 0.0),
        ),
        restore=reading,
        snapshot_seconds=0.0 if front and snapshot is not None else snapshot,
        mtbf_seconds=report.interval.mtbf_seconds,
        recovery_seconds=max(0.0, (recovery or 0.0) - (restore.seconds or 0.0)),
        measured_restart_seconds=recovery if reliability and reliability.restart_seconds is not None else None,
        tiers=tuple(map(_level, front)),
        used_fraction=1.0 if main is None or main.used_fraction is None else main.used_fraction,
    )


def _level(row: TierRow) -> Level:
    return Level(
        interval_seconds=row.effective_interval_seconds,
        stall_seconds=row.stall_seconds,
        drain_seconds=row.drain_seconds,
        recovery_seconds=row.recovery_seconds or 0.0,
        used_fraction=row.used_fraction or 0.0,
    )


def _weight(sharing: Sharing, num_nodes: int) -> float:
    return float(num_nodes) if sharing == "per-node" else 1.0


def _transfer(
    num_bytes: float, seconds: float, limits: Sequence[Limit], *, weight: float, more_lead_seconds: float
) -> TransferLoad:
    """A transfer that takes `seconds` alone, of which the serial steps come first.

    `more_lead_seconds` take no bandwidth either: the exchange after a restore; less the snapshot of asynchronous
    saving, which passes before the transfer begins.
    """
    lead = sum(limit.seconds for limit in limits if limit.slack_fraction is None)
    own = [limit for limit in limits if limit.slack_fraction is not None and limit.resource != _FILE_SYSTEM]
    file_system = next((limit for limit in limits if limit.resource == _FILE_SYSTEM), None)
    rates = [limit.bytes_per_second for limit in own if limit.bytes_per_second is not None]
    alone = num_bytes / (seconds - lead)
    held_back = file_system is None or file_system.slack_fraction != 0
    return TransferLoad(
        num_bytes, max(0.0, lead + more_lead_seconds), alone if held_back else min(rates, default=math.inf), weight
    )
