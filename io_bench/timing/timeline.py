"""Bytes over time, in a bounded number of bins: they grow as the time goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

MAX_BINS = 128
"""Of one operation of one rank. Half as many at least are in use, so that a bin is at most 2 % of the time."""
FIRST_BIN_SECONDS = 2.0**-10
"""A power of two, and twice as much whenever the bins are full: those of any two ranks can be laid on each other."""


class Timeline:
    """Bytes by bin since the operation began."""

    def __init__(self) -> None:
        self.bin_seconds = FIRST_BIN_SECONDS
        self._bytes: Floats = np.zeros(MAX_BINS)

    def add(self, num_bytes: float, begun: float, ended: float) -> None:
        """Bytes of one request, spread evenly over the time that it took."""
        self.add_all(np.array([num_bytes], dtype=float), np.array([begun]), np.array([ended]))

    def add_all(self, num_bytes: Floats, begun: Floats, ended: Floats) -> None:
        """The same of many, one entry for each: a step for all of them costs less than one for each.

        What began before the operation did is taken to begin with it.
        """
        begun = np.maximum(begun, 0.0)
        while ended.max() >= MAX_BINS * self.bin_seconds:
            self._bytes = np.concatenate([widened(self._bytes.tolist()), np.zeros(MAX_BINS // 2)])
            self.bin_seconds *= 2
        first, last = (np.floor(times / self.bin_seconds).astype(np.int64) for times in (begun, ended))
        within = first == last
        self._put(first[within], num_bytes[within])
        across = ~within
        first, last, begun, ended = first[across], last[across], begun[across], ended[across]
        rates = num_bytes[across] / (ended - begun)
        self._put(first, rates * ((first + 1) * self.bin_seconds - begun))
        self._put(last, rates * (ended - last * self.bin_seconds))
        # What goes through whole bins: it comes in after the first, and goes out at the last.
        steps = np.bincount(first + 1, rates, MAX_BINS) - np.bincount(last, rates, MAX_BINS)
        end = last.max(initial=0)  # beyond it, sums leave what rounding leaves
        self._bytes[:end] += np.maximum(np.cumsum(steps[:end]), 0.0) * self.bin_seconds

    def _put(self, bins: npt.NDArray[np.int64], num_bytes: Floats) -> None:
        self._bytes += np.bincount(bins, num_bytes, MAX_BINS)

    def bins(self) -> tuple[int, ...]:
        """Bytes of each bin up to the last that has any."""
        used = max((number + 1 for number, num_bytes in enumerate(self._bytes) if num_bytes), default=0)
        return tuple(map(round, self._bytes[:used].tolist()))


def widened(bins: Sequence[float], times: int = 2) -> list[float]:
    """Bins of `times` the width.

    >>> widened([1, 2, 3, 4, 5])
    [3, 7, 5]
    """
    return [sum(bins[start : start + times]) for start in range(0, len(bins), times)]


def aligned(timelines: Iterable[tuple[float, Sequence[float]]]) -> tuple[float, list[list[float]]]:
    """Timelines, each the seconds of a bin and bytes by bin, in bins of the widest of them.

    >>> aligned([(0.5, [1, 1, 1]), (1.0, [4])])
    (1.0, [[2, 1], [4]])
    """
    rows = list(timelines)
    bin_seconds = max((width for width, _ in rows), default=FIRST_BIN_SECONDS)
    return bin_seconds, [widened(bins, round(bin_seconds / width)) for width, bins in rows]
