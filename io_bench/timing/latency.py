"""How long requests took: counts in buckets that grow by a constant factor, so that those of ranks add up.

Every quantile is off by at most one percent, whatever the distribution. The arithmetic is that of DDSketch; the counts
are kept here because they go into documents as numbers.
Source: Masson, Rim and Lee 2019, DDSketch, doi 10.14778/3352063.3352135, section 2.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

RELATIVE_ERROR = 0.01
"""Of a quantile. Storage varies by more between two runs."""
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
"""From one bucket to the next, as section 2.1 derives it: the middle of a bucket is that close to both ends."""
_LOG_GROWTH = math.log(_GROWTH)


def bucket_of(seconds: float) -> int:
    """The bucket of a time above 0: i holds what lies above g^(i-1) and up to g^i seconds, g = 1.01 / 0.99.

    >>> bucket_of(1.0), bucket_of(1.01), bucket_of(0.001)
    (0, 1, -345)
    """
    return math.ceil(math.log(seconds) / _LOG_GROWTH)


def counts_of(seconds: npt.NDArray[np.float64]) -> dict[int, int]:
    """How many of many times are in each bucket, as `bucket_of` says.

    >>> counts_of(np.array([1.0, 0.001, 1.0]))
    {-345: 1, 0: 2}
    """
    buckets = np.ceil(np.log(seconds) / _LOG_GROWTH).astype(np.int64)
    first = int(buckets.min())
    counts = np.bincount(buckets - first)
    return {first + int(bucket): int(counts[bucket]) for bucket in np.flatnonzero(counts)}


def seconds_of(bucket: int) -> float:
    """The time by which a bucket stands for all that it holds: 2 g^i / (g + 1), within one percent of each.

    >>> round(seconds_of(bucket_of(0.5)) / 0.5, 4)
    1.0031
    """
    return float(2 * _GROWTH**bucket / (_GROWTH + 1))


def quantile_seconds(counts: Mapping[int, int], fraction: float) -> float:
    """The time that `fraction` of the requests do not exceed, to within one percent.

    >>> counts = {bucket_of(0.5): 99, bucket_of(2.0): 1}
    >>> [round(quantile_seconds(counts, fraction), 1) for fraction in (0.5, 0.99, 0.999)]
    [0.5, 0.5, 2.0]
    """
    wanted, reached = fraction * sum(counts.values()), 0
    for bucket in sorted(counts):
        reached += counts[bucket]
        if reached >= wanted:
            break
    return seconds_of(bucket)
