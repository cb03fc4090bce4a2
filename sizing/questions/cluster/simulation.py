"""A seeded discrete-event simulation of jobs that train, save, fail and read on shared storage, and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import simpy

from sizing.questions.chunks import Progress, ignore_progress
from sizing.questions.cluster.bandwidth_sharing import SharedBandwidth
from sizing.questions.cluster.job import GroupRecord, JobProcess, SimulationRecord, make_sharer
from sizing.questions.cluster.load import JobLoad
from sizing.questions.cluster.report import PERCENTILES, LoadInterval, SimulatedStalls, SimulatedUse
from sizing.storage.transfer import Floats
from sizing.units import SECONDS_PER_DAY

_PROGRESS_STEPS = 200
"""A bar moves twice per percent."""
_NUM_BATCHES = 20
"""Law and Kelton advise 20 to 30: fewer leave the error itself unsure, more make batches that are not independent."""
_STUDENT_T = 2.093
"""Student's t of 19 degrees of freedom, 95 %."""


def simulate(
    loads: Sequence[JobLoad],
    *,
    write_bytes_per_second: float,
    read_bytes_per_second: float | None,
    horizon_seconds: float,
    seed: int,
    progress: Progress = ignore_progress,
) -> SimulationRecord:
    """Simulate all jobs over the horizon. Equal arguments give equal results.

    Every job draws jitter, failures and preemptions from its own streams, so that two storage systems are compared on
    the same failures. `progress` is told the fraction that is done.
    """
    env = simpy.Environment()
    record = _share(env, loads, write_bytes_per_second, read_bytes_per_second, [GroupRecord() for _ in loads])
    jobs = [
        JobProcess(env, load, kind, simulation=record, index=index, seed=seed)
        for kind, load in enumerate(loads)
        for index in range(load.group.count)
    ]
    _run(env, jobs, record.groups, horizon_seconds, progress)
    for storage in filter(None, (record.write, record.read)):
        storage.advance()
    return record


def simulate_alone(
    loads: Sequence[JobLoad],
    *,
    write_bytes_per_second: float,
    read_bytes_per_second: float | None,
    horizon_seconds: float,
    seed: int,
    progress: Progress = ignore_progress,
) -> list[GroupRecord]:
    """Simulate the same jobs with the same failures, each of them with the whole storage to itself."""
    env, groups = simpy.Environment(), [GroupRecord() for _ in loads]
    jobs = [
        JobProcess(
            env,
            load,
            kind,
            simulation=_share(env, loads, write_bytes_per_second, read_bytes_per_second, groups),
            index=index,
            seed=seed,
        )
        for kind, load in enumerate(loads)
        for index in range(load.group.count)
    ]
    _run(env, jobs, groups, horizon_seconds, progress)
    return groups


def _run(
    env: simpy.Environment,
    jobs: Sequence[JobProcess],
    groups: Sequence[GroupRecord],
    horizon_seconds: float,
    progress: Progress,
) -> None:
    """Run jobs over the horizon, and record what they have done by the end of each batch."""
    for step in range(1, _PROGRESS_STEPS + 1):
        env.run(until=horizon_seconds * step / _PROGRESS_STEPS)
        if step % (_PROGRESS_STEPS // _NUM_BATCHES) == 0:
            for group in groups:
                group.useful_seconds_by_batch.append(group.useful_seconds)
            for job in jobs:
                job.count_work_of_batch()
        progress(step / _PROGRESS_STEPS)
    for job in jobs:
        job.count_unfinished_work()


def _share(
    env: simpy.Environment,
    loads: Sequence[JobLoad],
    write_bytes_per_second: float,
    read_bytes_per_second: float | None,
    groups: list[GroupRecord],
) -> SimulationRecord:
    """Make a storage system for those jobs that are given it, and what is recorded of them."""
    exports = [make_sharer(step) for load in loads if load.export for step in load.export.writes]
    publications = [make_sharer(load.publication.write) for load in loads if load.publication]
    sharers = [*(make_sharer(load.write) for load in loads), *exports, *publications]
    write = SharedBandwidth(env, bytes_per_second=write_bytes_per_second, sharers=sharers)
    return SimulationRecord(groups, write, _share_reads(env, loads, read_bytes_per_second))


def _share_reads(
    env: simpy.Environment, loads: Sequence[JobLoad], bytes_per_second: float | None
) -> SharedBandwidth | None:
    """Make what all jobs read from; None where no read rate is known, of the file system or of a job."""
    restores = [load.restore for load in loads if load.restore]
    if bytes_per_second is None or len(restores) < len(loads):
        return None
    exports = [make_sharer(step) for load in loads if load.export for step in load.export.reads]
    publications = [make_sharer(load.publication.read) for load in loads if load.publication and load.publication.read]
    sharers = [*(make_sharer(restore) for restore in restores), *exports, *publications]
    return SharedBandwidth(env, bytes_per_second=bytes_per_second, sharers=sharers)


_BIN_SECONDS = 300.0
"""Shorter than a save of the larger jobs, long enough that a day is 288 points of a chart."""
_MAX_BINS = 100_000
"""Max bins of a horizon; those of horizons beyond a year grow longer."""


def measure_stalls(record: GroupRecord, *, horizon_seconds: float) -> SimulatedStalls | None:
    """Measure the stalls of a group; None where no save was completed."""
    stalls = np.asarray(record.stall_seconds)
    if not len(stalls):
        return None
    percentiles = [float(value) for value in np.percentile(stalls, PERCENTILES)]
    by_percentile = dict(zip(PERCENTILES, percentiles, strict=True))
    return SimulatedStalls(
        num_stalls=len(stalls),
        mean_seconds=float(stalls.mean()),
        mean_error_seconds=_batch_error(stalls, np.asarray(record.at_seconds) / horizon_seconds),
        p50_seconds=by_percentile[50],
        p99_seconds=by_percentile[99],
        max_seconds=by_percentile[100],
        percentile_seconds=percentiles,
    )


def measure_goodput_error(record: GroupRecord, *, num_jobs: int, horizon_seconds: float) -> float:
    """Measure half the 95 % interval of a group's goodput, as a fraction of the time, from 20 batches of the horizon.

    It rests on the failures that were drawn: where hardly any were, it is too small.
    Source: as of the stalls, Law and Kelton, Simulation Modeling and Analysis, section 9.5.3.

    >>> record = GroupRecord()
    >>> record.useful_seconds_by_batch.extend(90.0 * batch for batch in range(1, 21))
    >>> round(measure_goodput_error(record, num_jobs=1, horizon_seconds=2000.0), 6)
    0.0
    """
    useful = np.diff(np.asarray(record.useful_seconds_by_batch), prepend=0.0)
    return _interval_of_batches(useful / (num_jobs * horizon_seconds / _NUM_BATCHES))


def measure_use(storage: SharedBandwidth, *, horizon_seconds: float) -> SimulatedUse:
    """Measure how a file system was used over the horizon."""
    trace = _read_trace(storage, horizon_seconds)
    order = np.argsort(trace.rates)
    share = np.cumsum(trace.seconds[order]) / horizon_seconds
    return SimulatedUse(
        mean_bytes_per_second=float(trace.rates @ trace.seconds) / horizon_seconds,
        p99_bytes_per_second=float(trace.rates[order][min(int(np.searchsorted(share, 0.99)), len(order) - 1)]),
        peak_bytes_per_second=float(trace.rates.max()),
        limited_fraction=storage.limited_seconds / horizon_seconds,
    )


def find_busiest_day(
    write: SharedBandwidth, read: SharedBandwidth | None, *, horizon_seconds: float
) -> list[LoadInterval]:
    """Find the day with the max of bytes in five minutes, as mean rates of every five minutes."""
    num_bins = max(1, min(_MAX_BINS, round(horizon_seconds / _BIN_SECONDS)))
    edges = np.linspace(0, horizon_seconds, num_bins + 1)
    written = _mean_rates(_read_trace(write, horizon_seconds), edges)
    were_read = _mean_rates(_read_trace(read, horizon_seconds), edges) if read else np.zeros(num_bins)
    per_day = max(1, round(SECONDS_PER_DAY / horizon_seconds * num_bins))
    first = int(np.argmax(written + were_read)) // per_day * per_day
    return [
        LoadInterval(at_seconds=edges[i], write_bytes_per_second=written[i], read_bytes_per_second=were_read[i])
        for i in range(first, min(first + per_day, num_bins))
    ]


class _Trace(NamedTuple):
    """Rates that held from each moment on, for so many seconds."""

    at: Floats
    seconds: Floats
    rates: Floats


def _read_trace(storage: SharedBandwidth, horizon_seconds: float) -> _Trace:
    at = np.asarray(storage.change_seconds)
    return _Trace(at, np.diff(at, append=horizon_seconds), np.asarray(storage.rates_after))


def _mean_rates(trace: _Trace, edges: Floats) -> Floats:
    moved = np.concatenate([[0.0], np.cumsum(trace.rates * trace.seconds)])
    at = np.append(trace.at, edges[-1])
    means: Floats = np.diff(np.interp(edges, at, moved)) / np.diff(edges)
    return means


def _batch_error(stalls: Floats, at_fraction: Floats) -> float | None:
    """Half the 95 % confidence interval of the mean from batch means.

    Source: Law and Kelton, Simulation Modeling and Analysis, section 9.5.3.
    """
    batch = np.minimum((at_fraction * _NUM_BATCHES).astype(int), _NUM_BATCHES - 1)
    sizes = np.bincount(batch, minlength=_NUM_BATCHES)
    if not sizes.all():
        return None
    means = np.bincount(batch, stalls, minlength=_NUM_BATCHES) / sizes
    return _interval_of_batches(means)


def _interval_of_batches(means: Floats) -> float:
    """Half the 95 % confidence interval of the mean of batches."""
    return float(_STUDENT_T * means.std(ddof=1) / _NUM_BATCHES**0.5)
