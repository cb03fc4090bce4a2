"""Spread of samples: intervals, percentiles, drift, stragglers. Plain functions on seconds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

CONFIDENCE = 0.95
"""Confidence of intervals: the usual 95 %."""
LATE_FRACTION = 0.10
"""A choice: ranks that are less late cost the checkpoint less than the noise of storage."""
LATE_DEVIATIONS = 3
"""The rule of Leys et al. 2013, as in `stragglers`."""
_NUM_RESAMPLES = 2_000
"""A bootstrap's 95 % interval rests on the outer 50 on either side."""
_MIN_REPETITIONS_FOR_DRIFT = 4
"""Min repetitions to see drift: two on either side."""
_MIN_RANKS_FOR_STRAGGLERS = 3
"""Min ranks to name a straggler: of two, nobody can say which one is late."""


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the median: 2.5 % and 97.5 % of 2,000 resampled medians.

    Of the same samples it is always the same. One sample has no width.
    Source: Efron and Tibshirani 1993, An Introduction to the Bootstrap, section 13.3.

    >>> median_interval([1.0] * 4), median_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    ((1.0, 1.0), (1.0, 100.0))
    """
    draws = np.random.default_rng(0).choice(np.asarray(samples, dtype=float), (_NUM_RESAMPLES, len(samples)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(draws, axis=1), [tail, 1 - tail])
    return float(low), float(high)


def is_settled(samples: Sequence[float], *, within_fraction: float) -> bool:
    """Whether the interval of the median lies within a fraction of the median on both sides.

    >>> is_settled([10.0, 10.2, 9.9, 10.1, 10.0], within_fraction=0.05), is_settled([1.0], within_fraction=0.05)
    (True, False)
    """
    if len(samples) < 2:  # one sample says nothing of the next
        return False
    median, (low, high) = statistics.median(samples), median_interval(samples)
    return max(high - median, median - low) <= within_fraction * median


def percentile(samples: Sequence[float], percent: float) -> float:
    """The value that `percent` of the samples do not exceed, between neighbours in proportion.

    Source: definition 7 of Hyndman and Fan 1996, numpy's default.

    >>> percentile([1.0, 2.0, 3.0], 50), round(percentile([1.0, 2.0, 3.0], 95), 3)
    (2.0, 2.9)
    """
    return float(np.percentile(np.asarray(samples, dtype=float), percent))


def drift_fraction(seconds: Sequence[float]) -> float:
    """Compute by which fraction the later half took longer than the earlier half.

    Medians of the halves; the middle one of an odd number counts in neither. 0 for fewer than four.

    >>> drift_fraction([1.0, 1.0, 9.0, 1.5, 1.5]), drift_fraction([1.0, 2.0])
    (0.5, 0.0)
    """
    if len(seconds) < _MIN_REPETITIONS_FOR_DRIFT:
        return 0.0
    half = len(seconds) // 2
    return statistics.median(seconds[-half:]) / statistics.median(seconds[:half]) - 1


def straggler_ratio(rank_seconds: Sequence[Sequence[float]]) -> float:
    """Slowest rank over median rank, the median over the repetitions; `rank_seconds[i][r]` of rank r.

    >>> straggler_ratio([[1.0, 1.0, 3.0], [1.0, 1.0, 2.0], [1.0, 1.0, 2.0]])
    2.0
    """
    return statistics.median(max(ranks) / statistics.median(ranks) for ranks in rank_seconds)


def stragglers(rank_seconds: Sequence[Sequence[float]]) -> list[int]:
    """Ranks whose median time lies beyond that of all ranks by more than 3 MAD and by more than 10 %.

    MAD is the median of the absolute deviations of the ranks' medians from theirs. None of two ranks.
    Source: the outlier rule of Leys et al. 2013, doi 10.1016/j.jesp.2013.03.013, with a min relevant lateness.

    >>> stragglers([[1.0, 1.01, 0.99, 1.2], [1.0, 1.0, 1.0, 1.3]])
    [3]
    """
    of_rank = [statistics.median(samples) for samples in zip(*rank_seconds, strict=True)]
    if len(of_rank) < _MIN_RANKS_FOR_STRAGGLERS:
        return []
    middle = statistics.median(of_rank)
    deviation = statistics.median(abs(seconds - middle) for seconds in of_rank)
    limit = middle + max(LATE_DEVIATIONS * deviation, LATE_FRACTION * middle)
    return [rank for rank, seconds in enumerate(of_rank) if seconds > limit]
