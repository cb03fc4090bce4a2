"""Measurements of a workload that has a shape of its own: of the ranks that wrote, of those that restored."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from io_bench.engines import IoReport
from io_bench.findings.cache_proof import is_direct
from io_bench.findings.measurements import measurements_of
from io_bench.planning.plan import Plan
from io_bench.repetition.repeating import Samples
from io_bench.repetition.sample import InCompany, Sample
from io_bench.shapes.companies import COMPANIES
from io_bench.shapes.restores import RESTORES
from io_bench.target.spread.spread_target import SpreadTarget
from io_bench.target.target import Target
from sizing.storage.measurement import Measurement, median_bytes_per_second
from sizing.storage.workload_shape import Company, Resharding, WorkloadShape
from sizing.storage.workload_shape import SpreadTarget as TargetGave

SLOW_TARGET_RATIO = 1.25
"""Of the time of its ranks to that of the fastest target's, from which on a target is named. A choice: well above the
noise of one, and what a job waits for."""


def shaped_measurements(samples: Samples, target: Target) -> list[Measurement]:
    """The write and the restore measurement, each with its shape where that is not the plain one."""
    if samples.plan.readers is samples.plan.writers:
        write, restore = measurements_of(samples, target)
    else:
        write, _ = measurements_of(_writes(samples), target)
        _, restore = measurements_of(_restores(samples), target)
    stripes = _stripes(samples.plan)
    return [
        _with(_spread(write, samples.plan, target), stripes | _shape_of_write(samples)),
        _with(_spread(restore, samples.plan, target), stripes | _shape_of_restore(samples, restore)),
    ]


def doubts_about_shape(samples: Samples) -> Iterator[str]:
    """What a reader must know of a shape, beside its figures."""
    if _is_read_from_shared_pages(samples):
        remedy = "Use --engine direct, or one rank of each shard per node."
        if samples.plan.restoring is not None:
            remedy = "Start the ranks that restore from one rank's files on different nodes."
        yield (
            "Ranks of one node restored the same files through its page cache, so some read what another had just "
            f"brought there: the figure is that of the node, not that of the storage. {remedy}"
        )


def _writes(samples: Samples) -> Samples:
    """Those of the first replica, without the restores of all."""
    return _view(
        samples,
        samples.plan,
        lambda each: {"restore": each.write, "restore_reports": each.write_reports, "read_bytes": each.rank_bytes},
    )


def _restores(samples: Samples) -> Samples:
    """Those of all replicas, as if they had written what they read."""
    plan = samples.plan
    num_shards = len(plan.writers.ranks)
    engine_plans = tuple(plan.engine_plans[index % num_shards] for index in range(len(plan.readers.ranks)))
    as_reader = dataclasses.replace(
        plan, writers=plan.readers, engine_plans=engine_plans, cpus_of_node=plan.cpus_of_reading_node
    )
    return _view(
        samples,
        as_reader,
        lambda each: {
            "write": each.restore,
            "write_reports": _of_readers(each),
            "restore_reports": _of_readers(each),
            "rank_bytes": each.read_bytes,
        },
    )


def _of_readers(sample: Sample) -> tuple[IoReport, ...]:
    """The reports of a restore: who read nothing went past the page cache if all others did."""
    rows = list(zip(sample.restore_reports, sample.read_bytes, strict=True))
    are_direct = all(report.is_direct for report, count in rows if count)
    return tuple(report if count else dataclasses.replace(report, is_direct=are_direct) for report, count in rows)


def _view(samples: Samples, plan: Plan, change: Any) -> Samples:
    def seen(sample: Sample) -> Sample:
        return dataclasses.replace(sample, **change(sample))

    return dataclasses.replace(samples, plan=plan, warm_up=seen(samples.warm_up), kept=tuple(map(seen, samples.kept)))


def _with(measurement: Measurement, found: dict[str, Any]) -> Measurement:
    """With more of it known; of the shape, too, what is known already."""
    if not found:
        return measurement
    dumped = measurement.model_dump()
    if measurement.shape and "shape" in found:
        known = {name: value for name, value in dumped["shape"].items() if value is not None}
        found = found | {"shape": found["shape"] | known}
    return Measurement.model_validate(dumped | found)


def _spread(measurement: Measurement, plan: Plan, target: Target) -> Measurement:
    """The same, with what each of several targets gave."""
    if not isinstance(target, SpreadTarget):
        return measurement
    placements = plan.writers.group.placements
    places = [target.place_of(placements[rank].local_rank).title for rank in plan.writers.ranks]
    found = list(targets_of(measurement, places))
    fastest = min(statistics.median(each.seconds) for each in found)
    shape = WorkloadShape(
        targets=found,
        targets_bytes_per_second=sum(each.bytes_per_second for each in found),
        slow_targets=[each.path for each in found if statistics.median(each.seconds) > SLOW_TARGET_RATIO * fastest],
    )
    return _with(measurement, {"shape": shape.model_dump()})


def targets_of(measurement: Measurement, places: Sequence[str]) -> Iterator[TargetGave]:
    """What each target gave. Args: `places`, the path of each rank."""
    for path in dict.fromkeys(places):
        ranks = [rank for rank, place in enumerate(places) if place == path]
        seconds = [max(of_ranks[rank] for rank in ranks) for of_ranks in measurement.rank_seconds]
        total_bytes = sum((measurement.rank_bytes or [])[rank] for rank in ranks)
        yield TargetGave(
            path=path,
            num_ranks=len(ranks),
            total_bytes=total_bytes,
            seconds=seconds,
            bytes_per_second=median_bytes_per_second(total_bytes, seconds),
        )


def _stripes(plan: Plan) -> dict[str, Any]:
    """As they were set for this configuration."""
    found = {"stripe_count": plan.configuration.stripe_count, "stripe_bytes": plan.configuration.stripe_bytes}
    return {name: value for name, value in found.items() if value is not None}


def _shape_of_write(samples: Samples) -> dict[str, Any]:
    configuration = samples.plan.configuration
    shape = WorkloadShape(
        retained_checkpoints=configuration.retained_checkpoints,
        deletion=configuration.deletion,
        deletion_seconds=_median([max(each.deletion_seconds, default=None) for each in samples.kept]),
        beside=_beside(configuration.beside, [each.company for each in samples.kept if each.company], samples),
    )
    return {"shape": shape.model_dump()} if shape != WorkloadShape() else {}


def _shape_of_restore(samples: Samples, restore: Measurement) -> dict[str, Any]:
    plan = samples.plan
    name, num_replicas = plan.configuration.restore, plan.configuration.num_replicas
    if plan.configuration.resharding is not None:
        return {"shape": WorkloadShape(resharding=_resharding(samples, restore)).model_dump()} | _cached(samples)
    if name is None:
        return {}
    strategy, last = RESTORES[name], samples.kept[-1]
    exchanged = sum(
        strategy.exchanged_bytes(num_bytes, payload_bytes, num_replicas=num_replicas)
        for num_bytes, payload_bytes in zip(last.rank_bytes, plan.payload_bytes, strict=True)
    )
    num_reading = sum(num_bytes > 0 for num_bytes in last.read_bytes)
    shape = WorkloadShape(
        restore=name,
        num_replicas=num_replicas,
        num_reading_ranks=num_reading if num_reading < len(last.read_bytes) else None,
        exchanged_bytes=exchanged or None,
        exchange_seconds=(restore.phase_seconds or {}).get("exchange"),
    )
    files = {"num_files": sum(len(each.files) for each in plan.engine_plans)}
    return {"shape": shape.model_dump()} | files | _cached(samples)


def _resharding(samples: Samples, restore: Measurement) -> Resharding:
    """What it reads, and what it loses to a restore by the ranks that saved."""
    as_saved = [each.as_saved_seconds for each in samples.kept if each.as_saved_seconds is not None]
    return Resharding(
        num_saving_ranks=len(samples.plan.writers.ranks),
        num_restoring_ranks=len(samples.plan.readers.ranks),
        read_ratio=restore.total_bytes / sum(samples.kept[-1].rank_bytes),
        as_saved_seconds=as_saved,
        loss_fraction=statistics.median(
            loss_fraction(1 / each.restore.seconds, alone=1 / each.as_saved_seconds)
            for each in samples.kept
            if each.as_saved_seconds is not None
        ),
    )


def _cached(samples: Samples) -> dict[str, Any]:
    return {"cache_policy": "cached"} if _is_read_from_shared_pages(samples) else {}


def _is_read_from_shared_pages(samples: Samples) -> bool:
    """Whether ranks of one node read the same file through the page cache."""
    plan, last = samples.plan, samples.kept[-1]
    if plan.readers is plan.writers or plan.transfer or is_direct([_of_readers(each) for each in samples.kept]):
        return False
    nodes = plan.readers.nodes
    read = [
        (nodes[index], source) for index, count in enumerate(last.read_bytes) if count for source in plan.sources(index)
    ]
    return len(set(read)) < len(read)


def _beside(name: str | None, found: list[InCompany], samples: Samples) -> Company | None:
    if name is None:
        return None
    together = [each.write.seconds for each in samples.kept]
    return Company(
        name=name,
        unit=COMPANIES[name].unit,
        alone_rates=[each.alone_rate for each in found],
        rates=[each.rate for each in found],
        loss_fraction=statistics.median(loss_fraction(each.rate, alone=each.alone_rate) for each in found),
        save_alone_seconds=[each.save_alone_seconds for each in found],
        save_loss_fraction=statistics.median(
            loss_fraction(1 / seconds, alone=1 / each.save_alone_seconds)
            for each, seconds in zip(found, together, strict=True)
        ),
    )


def loss_fraction(rate: float, *, alone: float) -> float:
    """The part of its rate that something loses to what runs beside it: 1 - r / r_alone; below 0 where it gains.

    Source: definition.

    >>> loss_fraction(75.0, alone=100.0)
    0.25
    """
    return 1 - rate / alone


def _median(values: list[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return statistics.median(found) if found else None
