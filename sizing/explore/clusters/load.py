"""What one job of each group asks of the shared storage, read off its own SizingReport."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizing.errors import InvalidInput
from sizing.explore.clusters.cluster_scenario import ClusterScenario, JobGroup, Sharing
from sizing.explore.clusters.transfer_load import TransferLoad
from sizing.report import SizingReport, answer
from sizing.run.goodput.levels import Level, overhead_of_levels_fraction
from sizing.run.tier import ARCHIVE
from sizing.run.tiers.drains import outlived_fraction, share_of_outlived
from sizing.run.tiers.rows import TierRow
from sizing.run.write import Write
from sizing.scenario import Scenario
from sizing.sized import sized
from sizing.storage.storage import resolve_storage
from sizing.storage.transfer import Numbers

_MAIN = "storage"
"""The kind of the tier row that stands for the shared storage itself."""


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


_CHANGES_THE_RATE = ("_contention_fraction", "_cache_bytes", "_knee_power")
"""Fields of a profile with which the rate depends on writers, nodes or bytes: jobs that share it do not say whose."""


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
    changing = [name for name in profile.figures() if name.endswith(_CHANGES_THE_RATE)]
    if changing:
        raise InvalidInput.of(
            "storage",
            f"must have one rate for all jobs, and {', '.join(changing)} make it depend on who writes",
            value=None,
            remedy="give a profile without them, with the rates that so many writers get",
        )
    return SharedStorage(profile.write_bytes_per_second, profile.read_bytes_per_second)


def job_loads(scenario: ClusterScenario) -> list[JobLoad]:
    """What each group's job asks of the storage.

    Raises InvalidInput where a job's scenario cannot be answered.
    """
    return [_load(scenario, group, index) for index, group in enumerate(scenario.jobs)]


def _load(scenario: ClusterScenario, group: JobGroup, index: int) -> JobLoad:
    report = _report_on_shared_storage(scenario, group, index)
    snapshot, recovery = _snapshot_seconds(group, report), _recovery_seconds(report)
    front = [row for row in report.tiers if row.kind not in (_MAIN, ARCHIVE)]
    return JobLoad(
        group=group,
        report=report,
        write=_write_load(report, scenario.sharing, snapshot_seconds=snapshot),
        restore=_restore_load(report, scenario.sharing),
        snapshot_seconds=_write_of(report).stalled_by_planning_seconds if front and snapshot is not None else snapshot,
        mtbf_seconds=report.interval.mtbf_seconds,
        recovery_seconds=max(0.0, (recovery or 0.0) - (report.restore.seconds or 0.0)),
        measured_restart_seconds=recovery if _is_restart_measured(group) else None,
        tiers=tuple(_levels(front, group)),
        used_fraction=_used_fraction(report),
    )


def _report_on_shared_storage(scenario: ClusterScenario, group: JobGroup, index: int) -> SizingReport:
    try:
        return answer(group.scenario.model_copy(update={"storage": scenario.storage}))
    except InvalidInput as error:
        raise error.within(f"jobs.{index}.scenario") from None


def _main_row(report: SizingReport) -> TierRow | None:
    """The shared storage as one of the job's tiers, None where it has no others."""
    return next((row for row in report.tiers if row.kind == _MAIN), None)


def _recovery_seconds(report: SizingReport) -> float | None:
    main = _main_row(report)
    return report.interval.recovery_seconds if main is None else main.recovery_seconds


def _used_fraction(report: SizingReport) -> float:
    main = _main_row(report)
    return 1.0 if main is None or main.used_fraction is None else main.used_fraction


def _is_restart_measured(group: JobGroup) -> bool:
    reliability = group.scenario.reliability
    return reliability is not None and reliability.restart_seconds is not None


def _write_of(report: SizingReport) -> Write:
    assert report.write is not None  # noqa: S101  the storage has a write rate
    return report.write


def _snapshot_seconds(group: JobGroup, report: SizingReport) -> float | None:
    return _write_of(report).stall_seconds if group.scenario.checkpoint.mode == "async" else None


def _write_load(report: SizingReport, sharing: Sharing, *, snapshot_seconds: float | None) -> TransferLoad:
    """A save; of an asynchronous one its drain, as the snapshot passes before it begins."""
    write = _write_of(report)
    return TransferLoad.of(
        saved_bytes(report),
        write.seconds,
        write.limits,
        weight=_weight(sharing, report.layout.num_writing_nodes),
        more_lead_seconds=-(snapshot_seconds or 0.0),
    )


def saved_bytes(report: SizingReport) -> int:
    """What a save writes, as the mean over saves where they hold less than everything.

    Source: `reduction.mean_bytes` of the report, else `checkpoint.written_bytes`.

    >>> from sizing.report import answer
    >>> saved_bytes(answer({"model": {"preset": "gpt2"}}))
    1742157312
    """
    return report.reduction.mean_bytes if report.reduction else report.checkpoint.written_bytes


def _restore_load(report: SizingReport, sharing: Sharing) -> TransferLoad | None:
    """A restore, or None where no read rate is known. What ranks then pass on to each other takes no bandwidth."""
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


def _levels(front: Sequence[TierRow], group: JobGroup) -> Iterator[Level]:
    """The tiers in front, each with the share of its failures that the drain behind it outlives."""
    begins: Numbers = 0.0
    for row in front:
        used = row.used_fraction or 0.0
        yield Level(
            interval_seconds=row.effective_interval_seconds,
            stall_seconds=row.stall_seconds,
            drain_seconds=row.drain_seconds,
            recovery_seconds=row.recovery_seconds or 0.0,
            used_fraction=used,
            outlived_fraction=_outlived_fraction(group.scenario, begins=begins, used=used),
        )
        begins += used


def _outlived_fraction(scenario: Scenario, *, begins: Numbers, used: Numbers) -> Numbers:
    if scenario.reliability is None:
        return 0.0
    demands = sized(scenario).demands
    if scenario.checkpoint.drain_survives is None and not demands.defaults.loses_drains:
        return 1.0
    outlived = outlived_fraction(scenario.checkpoint, scenario.reliability, demands=demands)
    return share_of_outlived(outlived, begins=begins, used=used)


def _weight(sharing: Sharing, num_nodes: int) -> float:
    return float(num_nodes) if sharing == "per-node" else 1.0
