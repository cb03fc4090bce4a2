"""Whether storage keeps its rate: changes over the bytes that a run has moved, and the rate after the last of them.

A cache that takes the first bytes of a run at its own rate makes a change; so does one that fills again in every
repetition. What counts is the rate that goes on. What slows one repetition alone, or only clients, is neither.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from io_bench.measure.spread import drift_fraction
from io_bench.target.request_log import Requests, align
from sizing.storage.run_events import CHANGE_RATIO

MAX_PIECES = 32
"""Max pieces of one operation, of equal bytes: a change is found to 3 % of it."""
_REQUESTS_PER_PIECE = 4
"""Fewer make a rate of chance: how many requests in flight happened to end in it."""
_NUM_DEVIATIONS = 5.0
"""Standard deviations of the mean that make a change, of as many pieces on either side. Storage is not independent
noise: the usual three find too much."""
_MIN_PIECES = 3
"""On either side of a change; one or two are a hang, which is a late repetition and no rate."""
_MIN_OPERATIONS = 2
"""On either side of a change that does not come within an operation, and at the rate that goes on: what one operation
alone has may be its own. A choice."""
DISTURBED_FRACTION = 0.5
"""Part of an operation for which a thread had no CPU: from there on its rate is the client's. A choice, as for what
limits a rate."""
MIN_STEADY_FRACTION = 0.5
"""Min part of an operation at the rate that goes on. A choice: what is seen for less may change again."""
DRIFT_FRACTION = 0.10
"""Later time over earlier, minus 1, that counts as drift. A choice, twice the width at which a run counts as
settled."""
_NUM_STRETCHES = 8
"""Stretches in which the rate that goes on is searched for a trend: enough to tell a trend from chance, long enough to
average out the noise."""
_TREND_DEVIATIONS = 2.576
"""Two-sided 99 % of the normal distribution: neighbours are alike, which 95 % would often take for a trend."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """One write or restore of all ranks, cut into pieces of equal bytes: the seconds of each.

    `is_disturbed` where threads had no CPU for most of it: its rate then says nothing of the storage.
    """

    piece_bytes: float
    seconds: Floats
    is_disturbed: bool = False

    @property
    def rates(self) -> Floats:
        """Bytes per second of each piece."""
        return self.piece_bytes / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes per second of all pieces."""
        return self.piece_bytes * len(self.seconds) / float(self.seconds.sum())


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A change of the rate from one level to another; `after_bytes` counts the bytes of the run, warm-up included."""

    after_bytes: int
    before_bytes_per_second: float
    after_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Changes of the rate in order; `sustained_bytes_per_second` is the median rate of repetitions after the last.

    `is_steady` where it was kept for long enough and shows no trend; `num_steady` of the last repetitions had it.
    The warm-up shows changes alone: the rate and what is steady are of the repetitions after it.
    """

    changes: tuple[LevelChange, ...]
    sustained_bytes_per_second: float
    is_steady: bool
    num_steady: int


def pieces_of(reports: Sequence[Requests], *, total_bytes: int, seconds: float) -> Pieces:
    """Cut one operation into pieces, as far as all ranks move data; one piece where too few requests were logged.

    Args: `reports`, what each rank's requests left; `total_bytes` of all ranks and `seconds` to the end of the slowest.
    """
    moved = [requests for requests in reports if sum(requests.bin_bytes)]
    num_requests = sum(count for requests in moved for _, count in requests.latency_counts)
    num_pieces = min(MAX_PIECES, num_requests // _REQUESTS_PER_PIECE)
    if len(moved) < len(reports) or num_pieces < 2 * _MIN_PIECES:
        return Pieces(float(total_bytes), np.array([seconds]))
    bin_seconds, rows = align((requests.bin_seconds, requests.bin_bytes) for requests in moved)
    # The last bin of a rank is cut off by its end.
    num_bins = max(1, min(map(len, rows)) - 1)
    bins = np.sum([row[:num_bins] for row in rows], axis=0)
    first = int(np.flatnonzero(bins)[0]) if bins.any() else 0
    reached = np.concatenate([[0.0], np.cumsum(bins[first:])])
    edges = np.linspace(0.0, reached[-1], num_pieces + 1)
    times = np.interp(edges, reached, np.arange(len(reached)) * bin_seconds)
    lengths = np.diff(times)
    if reached[-1] < MIN_STEADY_FRACTION * total_bytes or not (lengths > 0).all():
        return Pieces(float(total_bytes), np.array([seconds]))
    return Pieces(reached[-1] / num_pieces, lengths)


def steadiness(operations: Sequence[Pieces]) -> Steadiness:
    """Find the changes of the rate and the rate that goes on, over two or more operations in order, the warm-up first.

    Disturbed operations have no part in it, unless all repetitions are: then nothing tells a change. Where the last
    rate is that of one operation alone, nobody knows whether it goes on: there are no changes then, and the rate is not
    steady.
    """
    tells = not all(each.is_disturbed for each in operations[1:])
    are_heard = [not (tells and each.is_disturbed) for each in operations]
    heard = list(itertools.compress(operations, are_heard))
    repetitions = heard[are_heard[0] :]
    lengths = [len(each.seconds) for each in operations]
    is_heard = np.repeat(are_heard, lengths)
    reached = np.cumsum(np.repeat([each.piece_bytes for each in operations], lengths))[is_heard]
    rates = np.concatenate([each.rates for each in heard])
    found = [0, *(changes_in(np.log(rates)) if tells else ()), len(rates)]
    steps = [after / before for before, after in pairwise(_levels(rates, found))]
    inner = [cut for cut, ratio in zip(found[1:-1], steps, strict=True) if has_evidence(cut, heard, ratio=ratio)]
    cuts = [0, *inner, len(rates)]
    levels = _levels(rates, cuts)
    are_last = [abs(math.log(level / levels[-1])) < math.log(CHANGE_RATIO) for level in levels]
    is_last_level = np.repeat(are_last, np.diff(cuts))
    sustained = list(_compute_sustained_rates(heard, is_last_level))
    if inner and sum(rate is not None for rate in sustained) < _MIN_OPERATIONS:
        of_all = statistics.median(each.bytes_per_second for each in repetitions)
        return Steadiness((), of_all, is_steady=False, num_steady=0)
    of_repetitions = sustained[-len(repetitions) :]
    # Half of an operation's bytes went at the last level, the last pieces among them.
    is_long_enough = float(is_last_level.sum()) >= MIN_STEADY_FRACTION * len(heard[-1].seconds)
    # Means of stretches that follow each other: noise from one piece to the next is no trend.
    start = lengths[0] * are_heard[0]
    times = 1 / rates[start:][is_last_level[start:]]
    stretches = [float(part.mean()) for part in np.array_split(times, min(len(times), _NUM_STRETCHES))]
    return Steadiness(
        changes=tuple(
            LevelChange(int(reached[cut - 1]), before, after)
            for cut, (before, after) in zip(cuts[1:-1], pairwise(levels), strict=True)
        ),
        sustained_bytes_per_second=statistics.median(rate for rate in of_repetitions if rate is not None),
        is_steady=is_long_enough and not has_trend(stretches),
        num_steady=len(list(itertools.takewhile(lambda rate: rate is not None, reversed(of_repetitions)))),
    )


def changes_in(values: Floats) -> list[int]:
    """Find where the level of a series changes, by splitting it again and again where the means differ most.

    A split counts where the means differ by more than a factor of 1.25 (`values` are logarithms) and by five standard
    errors of the noise from one value to the next. Values are medians of three first: one that hangs is no level.
    Source: binary segmentation of Scott and Knott 1974, doi 10.2307/2529204, on the CUSUM statistic.

    >>> changes_in(np.log([2.0] * 4 + [0.14] * 28))
    [4]
    """
    if len(values) < 2 * _MIN_PIECES:
        return []
    around = np.pad(values, 1, mode="edge")
    smooth = np.median(np.stack([around[:-2], values, around[2:]]), axis=0)
    noise = 1.4826 * float(np.median(np.abs(np.diff(values)))) / math.sqrt(2)
    return sorted(_splits(smooth, 0, len(smooth), noise))


def _levels(rates: Floats, cuts: Sequence[int]) -> list[float]:
    """Return the median rate between each two cuts."""
    return [float(np.exp(np.median(np.log(rates[start:end])))) for start, end in pairwise(cuts)]


def has_evidence(cut: int, operations: Sequence[Pieces], *, ratio: float) -> bool:
    """Whether a change by a ratio, before the piece of that number, is more than how operations differ.

    It comes within an operation, or after two or more of them; where there are two before it, the rates of these
    differ by less.

    >>> fast, slow = Pieces(1.0, np.full(8, 1.0)), Pieces(1.0, np.full(8, 4.0))
    >>> has_evidence(8, [fast, slow, slow], ratio=0.25), has_evidence(16, [fast, fast, slow], ratio=0.25)
    (False, True)
    >>> has_evidence(24, [slow, fast, slow, fast], ratio=0.5)
    False
    """
    ends = np.cumsum([len(each.seconds) for each in operations])
    starts = ends - [len(each.seconds) for each in operations]
    before = [each.bytes_per_second for each, end in zip(operations, ends, strict=True) if end < cut + _MIN_PIECES]
    is_within = bool(np.any((starts + _MIN_PIECES <= cut) & (cut <= ends - _MIN_PIECES)))
    if len(before) < _MIN_OPERATIONS:
        return is_within
    return abs(math.log(ratio)) > math.log(max(before) / min(before))


def has_trend(seconds: Sequence[float]) -> bool:
    """Whether times rise or fall beyond chance, by more than 10 %: six in a row are enough.

    Source: Mann 1945, doi 10.2307/1907187, with the normal approximation and correction for continuity of Kendall.

    >>> has_trend([1.0, 1.1, 1.2, 1.4, 1.5, 1.6]), has_trend([1.0, 1.4, 1.0, 1.4, 1.0]), has_trend([1.0, 2.0, 3.0])
    (True, False, False)
    """
    count = len(seconds)
    signs = sum(int(np.sign(later - earlier)) for at, earlier in enumerate(seconds) for later in seconds[at + 1 :])
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    return abs(signs) - 1 > _TREND_DEVIATIONS * deviation and abs(drift_fraction(seconds)) > DRIFT_FRACTION


def _splits(values: Floats, start: int, end: int, noise: float) -> Iterator[int]:
    """Yield the places of changes between `start` and `end`: the greatest, then those on either side of it."""
    count = end - start
    if count < 2 * _MIN_PIECES:
        return
    lefts = np.arange(_MIN_PIECES, count - _MIN_PIECES + 1)
    sums = np.cumsum(values[start:end])
    gaps = sums[lefts - 1] / lefts - (sums[-1] - sums[lefts - 1]) / (count - lefts)
    weights = np.sqrt(lefts * (count - lefts) / count)
    best = int(np.argmax(np.abs(gaps) * weights))
    if abs(gaps[best]) < math.log(CHANGE_RATIO) or abs(gaps[best]) * weights[best] < _NUM_DEVIATIONS * noise:
        return
    cut = start + int(lefts[best])
    yield cut
    yield from _splits(values, start, cut, noise)
    yield from _splits(values, cut, end, noise)


def _compute_sustained_rates(
    operations: Sequence[Pieces], is_last_level: npt.NDArray[np.bool_]
) -> Iterator[float | None]:
    """Rate of each operation's bytes at the last level; None where it has none there."""
    start = 0
    for each in operations:
        seconds = each.seconds[is_last_level[start : start + len(each.seconds)]]
        start += len(each.seconds)
        yield len(seconds) * each.piece_bytes / float(seconds.sum()) if len(seconds) else None
