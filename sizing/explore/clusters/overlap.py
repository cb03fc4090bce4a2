"""How often independent jobs save at the same moment, as long as they do not slow each other down.

Each job j saves for w_j seconds in every period of T_j, at an independent and evenly distributed phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Windows(NamedTuple):
    """`num_jobs` equal jobs, each of which writes for `write_seconds` once in `interval_seconds`."""

    num_jobs: int
    write_seconds: float
    interval_seconds: float


def collision_fraction(groups: Sequence[Windows], group: int) -> float:
    """Share of a job's saves that meet another job's: 1 - prod over other jobs j of (1 - (w + w_j) / T_j).

    Two windows of lengths w and w_j overlap where their starts lie less than w_j before or w after each other.
    Source: independent uniform phases; exact while nobody is slowed down.

    >>> round(collision_fraction([Windows(2, 10.0, 100.0)], 0), 9)
    0.2
    """
    own, alone = groups[group].write_seconds, 1.0
    for index, other in enumerate(groups):
        missed = max(0.0, 1.0 - (own + other.write_seconds) / other.interval_seconds)
        alone *= missed ** (other.num_jobs - (index == group))
    return 1.0 - alone


def mean_concurrent(groups: Sequence[Windows]) -> float:
    """Mean number of jobs that write at one moment: sum of w_j / T_j.

    Source: Little 1961.

    >>> mean_concurrent([Windows(40, 10.0, 100.0)])
    4.0
    """
    return sum(group.num_jobs * min(1.0, group.write_seconds / group.interval_seconds) for group in groups)


def concurrent_quantile(groups: Sequence[Windows], fraction: float) -> int:
    """How many jobs at most write at one moment, for that fraction of the time.

    The number is the sum of independent yes-or-no draws, one per job, with p_j = w_j / T_j: Poisson-binomial.
    Source: Hong 2013, Computational Statistics and Data Analysis 59, the DFT-CF method.

    >>> concurrent_quantile([Windows(40, 10.0, 100.0)], 0.99)
    9
    """
    cumulative = np.cumsum(_concurrent_distribution(groups))
    return int(np.searchsorted(cumulative, fraction))


def _concurrent_distribution(groups: Sequence[Windows]) -> npt.NDArray[np.float64]:
    num_jobs = sum(group.num_jobs for group in groups)
    angles = 2j * np.pi * np.arange(num_jobs + 1) / (num_jobs + 1)
    characteristic = np.ones(num_jobs + 1, dtype=np.complex128)
    for group in groups:
        p = min(1.0, group.write_seconds / group.interval_seconds)
        characteristic *= (1 - p + p * np.exp(angles)) ** group.num_jobs
    return np.fft.fft(characteristic).real / (num_jobs + 1)
