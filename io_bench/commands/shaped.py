"""Measurements of a workload that has a shape of its own: of the ranks that wrote, of those that restored."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from io_bench.measure.plan import MeasurementPlan
from io_bench.measure.repeating import Samples
from io_bench.measure.sample import Sample
from io_bench.results.measurements import is_read_from_shared_pages, measurements_of
from io_bench.results.series import Series
from io_bench.target.spread import MultiTarget
from io_bench.target.target import Target
from io_bench.workloads.background_kinds import BACKGROUND_KINDS
from io_bench.workloads.restores import RESTORES
from sizing.storage.measurement import Measurement, median_bytes_per_second
from sizing.storage.workload_shape import BackgroundLosses, Resharding, SpreadTarget, WorkloadShape

SLOW_TARGET_RATIO = 1.25
"""A target is named as slow from this ratio of its ranks' time to that of the fastest target. A choice: well above the
noise of one, and what a job waits for."""


def shaped_measurements(samples: Samples, target: Target) -> list[Measurement]:
    """Make the write and the restore measurement, each with its shape where that is not the plain one."""
    write, restore = measurements_of(samples, target)
    configuration = samples.plan.configuration
    stripes: dict[str, Any] = {
        name: value
        for name, value in (("stripe_count", configuration.stripe_count), ("stripe_bytes", configuration.stripe_bytes))
        if value is not None
    }
    return [
        _add_fields(_add_targets(write, samples.plan, target), stripes | _shape_of_write(samples)),
        _add_fields(_add_targets(restore, samples.plan, target), stripes | _shape_of_restore(samples, restore)),
    ]


def doubts_about_shape(samples: Samples) -> Iterator[str]:
    """Say what a reader must know of a shaped workload beside its figures."""
    if is_read_from_shared_pages(Series(samples, "restore")):
        remedy = "Use --engine direct, or one rank of each shard per node."
        if samples.plan.restoring is not None:
            remedy = "Start the ranks that restore from one rank's files on different nodes."
        yield (
            "Ranks of one node restored the same files through its page cache, so some read what another had just "
            f"brought there: the figure is that of the node, not that of the storage. {remedy}"
        )


def _add_fields(measurement: Measurement, fields: dict[str, Any]) -> Measurement:
    """Add fields to a measurement. Fields that its shape has already are kept."""
    if not fields:
        return measurement
    document = measurement.model_dump()
    if measurement.shape and "shape" in fields:
        present = {name: value for name, value in document["shape"].items() if value is not None}
        fields = fields | {"shape": fields["shape"] | present}
    return Measurement.model_validate(document | fields)


def _add_targets(measurement: Measurement, plan: MeasurementPlan, target: Target) -> Measurement:
    """Add the rate of each target where there are several."""
    if not isinstance(target, MultiTarget):
        return measurement
    placements = plan.writers.group.placements
    places = [target.place_of(placements[rank].local_rank).title for rank in plan.writers.ranks]
    targets = list(targets_of(measurement, places))
    fastest = min(statistics.median(each.seconds) for each in targets)
    shape = WorkloadShape(
        targets=targets,
        targets_bytes_per_second=sum(each.bytes_per_second for each in targets),
        slow_targets=[each.path for each in targets if statistics.median(each.seconds) > SLOW_TARGET_RATIO * fastest],
    )
    return _add_fields(measurement, {"shape": shape.model_dump()})


def targets_of(measurement: Measurement, places: Sequence[str]) -> Iterator[SpreadTarget]:
    """Bytes, seconds and rate of each target. Args: `places`, the path of each rank."""
    for path in dict.fromkeys(places):
        ranks = [rank for rank, place in enumerate(places) if place == path]
        seconds = [max(of_ranks[rank] for rank in ranks) for of_ranks in measurement.rank_seconds]
        total_bytes = sum((measurement.rank_bytes or [])[rank] for rank in ranks)
        yield SpreadTarget(
            path=path,
            num_ranks=len(ranks),
            total_bytes=total_bytes,
            seconds=seconds,
            bytes_per_second=median_bytes_per_second(total_bytes, seconds),
        )


def _shape_of_write(samples: Samples) -> dict[str, Any]:
    configuration = samples.plan.configuration
    deletions = ([rank.deletion_seconds for rank in each.write.ranks] for each in samples.kept)
    slowest = [max(times) for ranks in deletions if (times := [each for each in ranks if each is not None])]
    shape = WorkloadShape(
        retained_checkpoints=configuration.retained_checkpoints,
        deletion=configuration.deletion,
        deletion_seconds=statistics.median(slowest) if slowest else None,
        beside=_background_losses(configuration.beside, samples.kept),
    )
    return {"shape": shape.model_dump()} if shape != WorkloadShape() else {}


def _shape_of_restore(samples: Samples, restore: Measurement) -> dict[str, Any]:
    plan = samples.plan
    name, num_replicas = plan.configuration.restore, plan.configuration.num_replicas
    if plan.configuration.resharding is not None:
        return {"shape": WorkloadShape(resharding=_resharding(samples, restore)).model_dump()}
    if name is None:
        return {}
    strategy, last = RESTORES[name], samples.kept[-1]
    exchanged = sum(
        strategy.exchanged_bytes(num_bytes, payload_bytes, num_replicas=num_replicas)
        for num_bytes, payload_bytes in zip(last.write.rank_bytes, plan.payload_bytes, strict=True)
    )
    num_reading = sum(num_bytes > 0 for num_bytes in last.restore.rank_bytes)
    shape = WorkloadShape(
        restore=name,
        num_replicas=num_replicas,
        num_reading_ranks=num_reading if num_reading < len(last.restore.rank_bytes) else None,
        exchanged_bytes=exchanged or None,
        exchange_seconds=(restore.phase_seconds or {}).get("exchange"),
    )
    files = {"num_files": sum(len(each.files) for each in plan.engine_plans)}
    return {"shape": shape.model_dump()} | files


def _resharding(samples: Samples, restore: Measurement) -> Resharding:
    """Compute the bytes that a restore by another number of ranks reads, and the rate that it loses."""
    as_saved = [each.as_saved_seconds for each in samples.kept if each.as_saved_seconds is not None]
    return Resharding(
        num_saving_ranks=len(samples.plan.writers.ranks),
        num_restoring_ranks=len(samples.plan.readers.ranks),
        read_ratio=restore.total_bytes / sum(samples.kept[-1].write.rank_bytes),
        as_saved_seconds=as_saved,
        loss_fraction=statistics.median(
            loss_fraction(1 / each.restore.seconds, alone=1 / each.as_saved_seconds)
            for each in samples.kept
            if each.as_saved_seconds is not None
        ),
    )


def _background_losses(name: str | None, samples: Sequence[Sample]) -> BackgroundLosses | None:
    """Compute what the background load and the saves took from each other."""
    if name is None:
        return None
    pairs = [(each.alone, each.write) for each in samples if each.alone]
    rates = [sum(rank.report.background_rate or 0.0 for rank in write.ranks) for _, write in pairs]
    return BackgroundLosses(
        name=name,
        unit=BACKGROUND_KINDS[name].unit,
        alone_rates=[alone.background_rate for alone, _ in pairs],
        rates=rates,
        loss_fraction=statistics.median(
            loss_fraction(rate, alone=alone.background_rate) for rate, (alone, _) in zip(rates, pairs, strict=True)
        ),
        save_alone_seconds=[alone.save_seconds for alone, _ in pairs],
        save_loss_fraction=statistics.median(
            loss_fraction(1 / write.seconds, alone=1 / alone.save_seconds) for alone, write in pairs
        ),
    )


def loss_fraction(rate: float, *, alone: float) -> float:
    """The part of its rate that something loses to what runs beside it: 1 - r / r_alone; below 0 where it gains.

    Source: definition.

    >>> loss_fraction(75.0, alone=100.0)
    0.25
    """
    return 1 - rate / alone
