"""The figures of each group of jobs: by formula, and as the simulation showed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sizing.explore.clusters.cluster_report import Concurrency, JobFigures
from sizing.explore.clusters.elastic import Elastic, Traffic, elastic
from sizing.explore.clusters.flows import writes
from sizing.explore.clusters.load import JobLoad
from sizing.explore.clusters.observed import Observed, Simulated
from sizing.explore.clusters.overlap import Windows, collision_fraction, concurrent_quantile, mean_concurrent
from sizing.explore.clusters.statistics import stalls_of


class Formulas(NamedTuple):
    """What is known of the saves without a simulation.

    `windows` is when each group writes; `shared` what they do to each other, None where the file system is overloaded.
    """

    write_bytes_per_second: float
    windows: list[Windows]
    shared: Elastic | None

    @property
    def concurrency(self) -> Concurrency:
        """How many jobs write at once."""
        return Concurrency(
            mean=mean_concurrent(self.windows),
            p99=concurrent_quantile(self.windows, 0.99),
            limited_fraction=self.shared.limited_fraction if self.shared else None,
        )

    def mean_stall_seconds(self, load: JobLoad, kind: int) -> float | None:
        """The mean time to write; of asynchronous saving the snapshot alone, if the drain ends in the interval."""
        if self.shared is None:
            return None
        transfer = self.shared.stretch[kind] * load.write.transfer_seconds(self.write_bytes_per_second)
        writing = load.write.lead_seconds + transfer
        if load.snapshot_seconds is None:
            return writing
        return load.snapshot_seconds if load.snapshot_seconds + writing <= load.interval_seconds else None


def formulas_of(loads: Sequence[JobLoad], *, write_bytes_per_second: float) -> Formulas:
    """The formulas for the saves of jobs on a file system of that rate."""
    rate = write_bytes_per_second
    traffic = [Traffic(f.num_jobs, f.mean_bytes_per_second, f.max_bytes_per_second) for f in writes(loads)]
    return Formulas(
        write_bytes_per_second=rate,
        windows=[Windows(job.group.count, job.write.transfer_seconds(rate), job.interval_seconds) for job in loads],
        shared=elastic(traffic, bytes_per_second=rate),
    )


def figures_of_jobs(
    loads: Sequence[JobLoad], simulated: Simulated, formulas: Formulas, *, horizon_seconds: float
) -> list[JobFigures]:
    """The figures of each group, in the order of `loads`."""
    return [
        _figures(kind, load, observed, formulas=formulas, horizon_seconds=horizon_seconds)
        for kind, (load, observed) in enumerate(zip(loads, simulated.groups, strict=True))
    ]


def _figures(kind: int, load: JobLoad, observed: Observed, *, formulas: Formulas, horizon_seconds: float) -> JobFigures:
    rate = formulas.write_bytes_per_second
    layout, report, count = load.report.layout, load.report, load.group.count
    return JobFigures(
        name=load.group.name,
        count=count,
        num_gpus=layout.num_gpus,
        num_nodes=layout.num_nodes,
        checkpoint_bytes=report.checkpoint.written_bytes,
        interval_seconds=load.interval_seconds,
        stall_alone_seconds=load.stall_alone_seconds(rate),
        bytes_per_second_alone=load.write.rate_alone(rate),
        collision_fraction=collision_fraction(formulas.windows, kind),
        mean_stall_seconds=formulas.mean_stall_seconds(load, kind),
        goodput_alone_fraction=report.interval.goodput_at_interval_fraction,
        simulated_stalls=stalls_of(observed, horizon_seconds=horizon_seconds),
        simulated_collision_fraction=(
            observed.num_met_another / observed.num_written if observed.num_written else None
        ),
        simulated_goodput_fraction=observed.useful_seconds / (count * horizon_seconds),
        num_failures=observed.num_failures,
        capacity_bytes=count * report.capacity.capacity_bytes,
    )
