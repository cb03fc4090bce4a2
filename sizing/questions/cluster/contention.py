"""Contention of saves by formula: how often they collide, and how far they slow each other down."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sizing.questions.cluster.load import ExportLoad, JobLoad, PublicationLoad, TransferLoad
from sizing.questions.cluster.report import Concurrency
from sizing.storage.transfer import Floats


class PeriodicWrites(NamedTuple):
    """`num_jobs` equal jobs, each of which writes for `write_seconds` once in `interval_seconds`.

    Exports take `export_seconds` more, as the mean over saves.
    """

    num_jobs: int
    write_seconds: float
    interval_seconds: float
    export_seconds: float = 0.0

    @property
    def busy_seconds(self) -> float:
        """Time in an interval in which one of the jobs writes."""
        return self.write_seconds + self.export_seconds


def collision_fraction(groups: Sequence[PeriodicWrites], group: int) -> float:
    """Share of a job's saves that another job writes beside: 1 - prod over other jobs j of (1 - (w + w_j) / T_j).

    w_j includes exports. Two windows of lengths w and w_j overlap where their starts lie less than w_j before or w
    after each other.
    Source: independent uniform phases; exact while nobody is slowed down.

    >>> round(collision_fraction([PeriodicWrites(2, 10.0, 100.0)], 0), 9)
    0.2
    """
    own, alone = groups[group].write_seconds, 1.0
    for index, other in enumerate(groups):
        missed = max(0.0, 1.0 - (own + other.busy_seconds) / other.interval_seconds)
        alone *= missed ** (other.num_jobs - (index == group))
    return 1.0 - alone


def mean_concurrent(groups: Sequence[PeriodicWrites]) -> float:
    """Mean number of jobs that write at one moment: sum of w_j / T_j.

    Source: Little 1961.

    >>> mean_concurrent([PeriodicWrites(40, 10.0, 100.0)])
    4.0
    """
    return sum(group.num_jobs * min(1.0, group.busy_seconds / group.interval_seconds) for group in groups)


def concurrent_quantile(groups: Sequence[PeriodicWrites], fraction: float) -> int:
    """How many jobs at most write at one moment, for that fraction of the time.

    The number is the sum of independent yes-or-no draws, one per job, with p_j = w_j / T_j: Poisson-binomial.
    Source: Hong 2013, Computational Statistics and Data Analysis 59, the DFT-CF method.

    >>> concurrent_quantile([PeriodicWrites(40, 10.0, 100.0)], 0.99)
    9
    """
    cumulative = np.cumsum(_concurrent_distribution(groups))
    return int(np.searchsorted(cumulative, fraction))


def _concurrent_distribution(groups: Sequence[PeriodicWrites]) -> npt.NDArray[np.float64]:
    num_jobs = sum(group.num_jobs for group in groups)
    angles = 2j * np.pi * np.arange(num_jobs + 1) / (num_jobs + 1)
    characteristic = np.ones(num_jobs + 1, dtype=np.complex128)
    for group in groups:
        p = min(1.0, group.busy_seconds / group.interval_seconds)
        characteristic *= (1 - p + p * np.exp(angles)) ** group.num_jobs
    return np.fft.fft(characteristic).real / (num_jobs + 1)


_Counts = npt.NDArray[np.int_]

_UNITS = 840
"""Units in which capacity is counted: the least number that 1 to 8 divide. For rates between them the stretch was 0.04
% off what ten times as many units give."""
_SMALLEST = 1e-300
"""Weights begin here, as only their ratios count and they grow with every unit; from 1 they would overflow."""
_ROUNDING = 1 + 1e-9
"""So that 1/3 of the capacity counts as 280 units and not as 279."""


class Traffic(NamedTuple):
    """`num_jobs` equal jobs that together move `bytes_per_second` on average, each at most so fast.

    Traffic of the same jobs has the same `group`, and a job never does two of these at once; None for jobs that have no
    other traffic.
    """

    num_jobs: int
    bytes_per_second: float
    max_bytes_per_second: float
    group: int | None = None


class Slowdown(NamedTuple):
    """Slow-down by sharing: `stretch` of each group is the mean time of its transfers over the time alone.

    For `limited_fraction` of the time the file system gives less than its transfers could take.
    """

    stretch: list[float]
    limited_fraction: float


def compute_slowdown(traffic: Sequence[Traffic], *, bytes_per_second: float) -> Slowdown | None:
    """Mean slow-down of transfers that arrive at random and share a file system, or None where it is overloaded.

    With capacity C, loads rho_i, rates alone c_i and p(n) the weight of a total draw n: p(0) = 1 and
    min(n, C) p(n) = sum_i rho_i p(n - c_i). Above C the sums are geometric. A job never meets itself, so each group
    sees its own loads less one job, as in mean-value analysis (Reiser and Lavenberg 1980; Schweitzer 1979).
    Source: Bonald and Virtamo 2005, IEEE Communications Letters 9(8), DOI 10.1109/LCOMM.2005.1496605. Exact for
    Poisson arrivals of equal jobs, where it is M/G/1-PS for c >= C (1 / (1 - rho)) and M/M/m where C = m c, whatever
    the sizes; for unequal ones it is balanced fairness, close to equal shares. Rates are rounded down to C / 840,
    a number with many divisors.

    >>> found = compute_slowdown([Traffic(1_000_000, 0.5, 2.0)], bytes_per_second=1.0)
    >>> round(found.stretch[0], 4), round(found.limited_fraction, 4)
    (2.0, 0.25)
    """
    loads = np.array([group.bytes_per_second for group in traffic]) / bytes_per_second * _UNITS
    if loads.sum() >= _UNITS:
        return None
    shares = (min(group.max_bytes_per_second / bytes_per_second, 1.0) for group in traffic)
    rates = np.array([max(1, math.floor(share * _UNITS * _ROUNDING)) for share in shares])
    counts = np.array([group.num_jobs for group in traffic])
    groups = [-index - 1 if each.group is None else each.group for index, each in enumerate(traffic)]
    seen = loads[:, None] - np.equal.outer(groups, groups) * (loads / counts)[:, None]
    weights = _weights(loads[:, None], rates)
    beyond = _above(loads[:, None], rates, weights) / (_UNITS - loads.sum())
    limited_fraction = float((beyond / (weights.sum(axis=0) + beyond))[0])
    return Slowdown([float(value) for value in _stretch(seen, rates)], limited_fraction)


def _weights(seen: Floats, rates: _Counts) -> Floats:
    """Compute p(n) up to C of each column of loads; before rows n stand as many zeros as the largest rate has units."""
    weights = np.zeros((2 * _UNITS + 1, seen.shape[1]))
    weights[_UNITS] = _SMALLEST
    for n in range(1, _UNITS + 1):
        weights[_UNITS + n] = (seen * weights[_UNITS + n - rates]).sum(axis=0) / n
    return weights


def _above(seen: Floats, rates: _Counts, weights: Floats) -> Floats:
    """Sum, over groups, load x the weights of the last c_i totals up to C, for each column of loads."""
    sums = np.cumsum(weights, axis=0)
    above: Floats = (seen * (sums[-1] - sums[2 * _UNITS - rates])).sum(axis=0)
    return above


def _stretch(seen: Floats, rates: _Counts) -> Floats:
    columns = np.arange(len(rates))
    left = _UNITS - seen.sum(axis=0)
    weights = _weights(seen, rates)
    number = np.zeros_like(weights)
    for n in range(1, _UNITS + 1):
        number[_UNITS + n] = weights[_UNITS + n - rates, columns] / rates
    beyond = _above(seen, rates, weights) / left
    own_last = np.cumsum(weights, axis=0)[-1] - np.cumsum(weights, axis=0)[2 * _UNITS - rates, columns]
    number_beyond = (_above(seen, rates, number) + own_last + beyond) / left
    stretch: Floats = rates * (number.sum(axis=0) + number_beyond) / (weights.sum(axis=0) + beyond)
    return stretch


class Contention(NamedTuple):
    """Contention of the saves by formula, without a simulation.

    `writes` is how long each group writes; `slowdown` what the saves do to each other, and then the exports in the
    order of the groups and the publications, None where the file system is overloaded. Unless all jobs start at random,
    or there is one alone, their phases are not independent, and only means are known.
    """

    write_bytes_per_second: float
    writes: list[PeriodicWrites]
    traffic: list[Traffic]
    slowdown: Slowdown | None
    has_independent_phases: bool = True

    @property
    def concurrency(self) -> Concurrency:
        """How many jobs write at once."""
        return Concurrency(
            mean=mean_concurrent(self.writes),
            p99=concurrent_quantile(self.writes, 0.99) if self.has_independent_phases else None,
            limited_fraction=(
                self.slowdown.limited_fraction if self.slowdown and self.has_independent_phases else None
            ),
        )

    def mean_stall_seconds(self, load: JobLoad, kind: int) -> float | None:
        """Mean time to write; of asynchronous saving the snapshot alone, if the drain ends in the interval.

        Exports that the job waits for are part of it, as the mean over saves, and read at their rate alone.
        """
        if self.slowdown is None:
            return None
        transfer = self.slowdown.stretch[kind] * load.write.transfer_seconds(self.write_bytes_per_second)
        writing, exporting = load.write.lead_seconds + transfer, 0.0
        if load.export is not None and load.export.waits:
            of_job = [s for each, s in zip(self.traffic, self.slowdown.stretch, strict=True) if each.group == kind]
            longer = sum(
                (stretch - 1) * step.transfer_seconds(self.write_bytes_per_second)
                for step, stretch in zip(load.export.writes, of_job[1:], strict=True)
            )
            exporting = (load.export.alone_seconds(self.write_bytes_per_second) + longer) / load.export.every
        if load.snapshot_seconds is None:
            return writing + exporting
        stall = load.snapshot_seconds + exporting
        return stall if stall + writing <= load.interval_seconds else None


def compute_contention(loads: Sequence[JobLoad], *, write_bytes_per_second: float) -> Contention:
    """Compute what saves of jobs do to each other on a file system of that rate."""
    rate, traffic = write_bytes_per_second, list_write_traffic(loads)
    writes = []
    for job in loads:
        export = job.export
        exporting = sum(step.transfer_seconds(rate) for step in export.writes) / export.every if export else 0.0
        writes.append(
            PeriodicWrites(job.group.count, job.write.transfer_seconds(rate), job.interval_seconds, exporting)
        )
    return Contention(
        write_bytes_per_second=rate,
        writes=writes,
        traffic=traffic,
        slowdown=compute_slowdown(traffic, bytes_per_second=rate),
        has_independent_phases=(
            all(load.group.start == "random" for load in loads) or sum(load.group.count for load in loads) == 1
        ),
    )


def list_write_traffic(loads: Sequence[JobLoad]) -> list[Traffic]:
    """List what the saves of each group move, one checkpoint per interval, then what exports and publications write."""
    saves = [_list_traffic(load, kind, [load.write], load.interval_seconds) for kind, load in enumerate(loads)]
    beside = _list_beside_saves(loads, lambda export: export.writes, lambda publication: publication.write)
    return [*itertools.chain(*saves), *beside]


def list_read_traffic(loads: Sequence[JobLoad]) -> list[Traffic]:
    """List what the jobs of each group read: restores from the shared storage, exports and publications."""
    restores = [
        _list_traffic(load, kind, [load.restore], load.between_restores_seconds)
        for kind, load in enumerate(loads)
        if load.restore
    ]
    beside = _list_beside_saves(loads, lambda export: export.reads, lambda publication: publication.read)
    return [*itertools.chain(*restores), *beside]


def _list_beside_saves(
    loads: Sequence[JobLoad],
    exported: Callable[[ExportLoad], Sequence[TransferLoad]],
    published: Callable[[PublicationLoad], TransferLoad | None],
) -> Iterator[Traffic]:
    """List what exports move, which a job does in turn with its saves, then publications, which go on beside these."""
    for kind, load in enumerate(loads):
        if load.export:
            yield from _list_traffic(load, kind, exported(load.export), load.export.every * load.interval_seconds)
    for kind, load in enumerate(loads):
        if load.publication and (moved := published(load.publication)):
            yield from _list_traffic(load, -1 - kind, [moved], load.publication.interval_seconds)


def _list_traffic(
    load: JobLoad, group: int, transfers: Sequence[TransferLoad], interval_seconds: float
) -> Iterator[Traffic]:
    """List transfers that each job makes once in each interval; what goes on beside its saves has another `group`."""
    count = load.group.count
    for each in transfers:
        yield Traffic(count, count * each.num_bytes / interval_seconds, each.max_bytes_per_second, group)
