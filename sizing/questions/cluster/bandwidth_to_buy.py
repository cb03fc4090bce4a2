"""Bandwidth to buy for a cluster: for a p99 stall by simulation, for a recovery time by formula."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from sizing.questions.chunks import Progress
from sizing.questions.cluster.load import JobLoad
from sizing.questions.cluster.restore_storms import back_seconds
from sizing.questions.cluster.simulation import simulate
from sizing.units import MAX_BYTES

P99 = 0.99
"""Fraction of the stalls that `targets.p99_stall_seconds` bounds."""
TOLERANCE = 0.01
"""Fraction to which the bandwidth for a p99 stall is found; its simulation has more noise than that below."""

_FIRST_CHECKPOINTS = 20_000
"""A p99 from so many rests on the slowest 200, enough to come near."""
_MAX_CHECKPOINTS = 200_000
"""Ten times as many, as noise falls with the root: about a third of it is left, for half a minute of simulation."""
_EACH_SAVES = 20
"""Times at least, in either simulation, so that every group has stalls of its own."""
_NEAR_ENOUGH = 1 + 5 * TOLERANCE
"""Around the first rate, within which the second one is looked for: five times the tolerance mostly holds the noise of
the first, and where it does not, the bracket grows by as much again."""
_EXACT = 1e-12
"""Above the rounding of a sum over thousands of jobs, below what anybody reads."""


def write_bytes_per_second_for_p99(
    loads: Sequence[JobLoad],
    *,
    p99_stall_seconds: float,
    read_bytes_per_second: float | None,
    horizon_seconds: float,
    seed: int,
    progress: Progress,
) -> float | None:
    """Min write rate at which 99 % of every group's stalls last no longer, or None where no rate is enough.

    Found by halving, each step a simulation with the same failures and jitter: first of some 20,000 checkpoints, then,
    from there, of up to 200,000. The rate returned meets the target in the latter; 1 % less does not, or is less than
    the jobs write on average, with which they would wait longer and longer. Reads matter to stalls where exports read.
    Source: bisection, of what `simulation.simulate` shows.

    >>> from sizing.questions.cluster.request import ClusterScenario
    >>> from sizing.questions.chunks import ignore_progress
    >>> from sizing.questions.cluster.load import compute_job_loads
    >>> jobs = [{"name": "8B", "scenario": {"model": {"preset": "llama-3.1-8b"}}}]
    >>> storage = {"profile": {"write_bytes_per_second": 1e9}}
    >>> loads = compute_job_loads(ClusterScenario.model_validate({"jobs": jobs, "storage": storage}))
    >>> rate = write_bytes_per_second_for_p99(
    ...     loads,
    ...     p99_stall_seconds=100.0,
    ...     read_bytes_per_second=None,
    ...     horizon_seconds=1e6,
    ...     seed=1,
    ...     progress=ignore_progress,
    ... )
    >>> 1.0 <= rate * 100.0 / loads[0].write.num_bytes <= 1 + TOLERANCE  # a job that nobody meets
    True
    """
    if any(load.stall_within_seconds(math.inf, fraction=P99) >= p99_stall_seconds for load in loads):
        return None
    steps = itertools.count(1)
    read_rate = read_bytes_per_second if any(load.export and load.export.reads for load in loads) else None

    def meets(rate: float, *, seconds: float) -> bool:
        progress(1 - 0.9 ** next(steps))
        record = simulate(
            loads, write_bytes_per_second=rate, read_bytes_per_second=read_rate, horizon_seconds=seconds, seed=seed
        )
        stalls = [np.asarray(group.stall_seconds) for group in record.groups]
        return all(len(s) > 0 and np.quantile(s, P99) <= p99_stall_seconds for s in stalls)

    mean = sum(load.group.count * load.written_bytes_per_second for load in loads)
    first, last = (_find_horizon(loads, number, horizon_seconds) for number in (_FIRST_CHECKPOINTS, _MAX_CHECKPOINTS))
    near = _min_rate(partial(meets, seconds=first), floor=mean, start=mean, factor=2.0, tolerance=TOLERANCE)
    if near is None or first == last:
        return near
    return _min_rate(partial(meets, seconds=last), floor=mean, start=near, factor=_NEAR_ENOUGH, tolerance=TOLERANCE)


def _find_horizon(loads: Sequence[JobLoad], num_checkpoints: int, horizon_seconds: float) -> float:
    """Find a time in which the jobs save about so often, and each at least a few times, within the horizon."""
    per_second = sum(load.group.count / load.interval_seconds for load in loads)
    few_each = _EACH_SAVES * max(load.interval_seconds for load in loads)
    return min(horizon_seconds, max(few_each, num_checkpoints / per_second))


def read_bytes_per_second_for_recovery(loads: Sequence[JobLoad], *, recovery_seconds: float) -> float | None:
    """Min read rate at which all jobs train again in that time after a power failure, or None where none is enough.

    Solved to 1e-12: the time falls with the rate as long as the file system limits.
    Source: bisection, of `restore_storms.back_seconds`.

    >>> from sizing.questions.cluster.request import ClusterScenario
    >>> from sizing.questions.cluster.load import compute_job_loads
    >>> jobs = [{"name": "8B", "count": 2, "scenario": {"model": {"preset": "llama-3.1-8b"}}}]
    >>> rates = {"write_bytes_per_second": 1e9, "read_bytes_per_second": 1e9}
    >>> loads = compute_job_loads(ClusterScenario.model_validate({"jobs": jobs, "storage": {"profile": rates}}))
    >>> rate = read_bytes_per_second_for_recovery(loads, recovery_seconds=1000.0)
    >>> round(rate * 1000.0 / (2 * loads[0].restore.num_bytes), 9)
    1.0
    """
    everybody = [load.group.count for load in loads]

    def meets(rate: float) -> bool:
        return max(back_seconds(loads, everybody, read_bytes_per_second=rate)) <= recovery_seconds

    unlimited = max(
        load.before_reading_seconds(math.inf) + load.restore.alone_seconds(math.inf) for load in loads if load.restore
    )
    if unlimited >= recovery_seconds:
        return None
    total = sum(load.group.count * load.restore.num_bytes for load in loads if load.restore)
    return _min_rate(meets, floor=0.0, start=total / recovery_seconds, factor=2.0, tolerance=_EXACT)


def _min_rate(
    meets: Callable[[float], bool], *, floor: float, start: float, factor: float, tolerance: float
) -> float | None:
    """Find the min rate from `floor` on that meets a condition which larger rates meet too, or None where none does."""
    low = high = start
    while not meets(high):
        low, high = high, factor * high
        if high > MAX_BYTES:
            return None
    while meets(low):
        if low <= floor:
            return floor
        low, high = max(floor, low / factor), low
    while high / low > 1 + tolerance:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high
