"""Log of requests to the storage while a write or restore is timed: seconds, time and file of each.

Request times are counted in buckets that grow by a constant factor, so that the histograms of ranks add up. Every
quantile is off by at most one percent, whatever the distribution. The arithmetic is that of DDSketch; the counts are
kept here because they go into documents as numbers.
Source: Masson, Rim and Lee 2019, DDSketch, doi 10.14778/3352063.3352135, section 2.1.

A timeline counts bytes over time in a bounded number of bins. A request log keeps both for one rank's write or restore,
and the slowest request of each phase; an observed file tells the log of its requests.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Self, cast

import numpy as np
import numpy.typing as npt

from io_bench import interruption

RELATIVE_ERROR = 0.01
"""Max relative error of a quantile. Storage varies by more between two runs."""
_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
"""Growth from one bucket to the next, as section 2.1 derives it: the middle of a bucket is that close to both ends."""
_LOG_GROWTH = math.log(_GROWTH)


def bucket_of(seconds: float) -> int:
    """The bucket of a time above 0: i holds what lies above g^(i-1) and up to g^i seconds, g = 1.01 / 0.99.

    >>> bucket_of(1.0), bucket_of(1.01), bucket_of(0.001)
    (0, 1, -345)
    """
    return math.ceil(math.log(seconds) / _LOG_GROWTH)


def counts_of(seconds: npt.NDArray[np.float64]) -> dict[int, int]:
    """Count how many of many times are in each bucket, as `bucket_of` says.

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
    position, reached = fraction * sum(counts.values()), 0
    for bucket in sorted(counts):
        reached += counts[bucket]
        if reached >= position:
            break
    return seconds_of(bucket)


Floats = npt.NDArray[np.float64]

MAX_BINS = 128
"""Max bins of one operation of one rank. Half as many at least are in use, so that a bin is at most 2 % of the time."""
FIRST_BIN_SECONDS = 2.0**-10
"""A power of two, and twice as much whenever the bins are full: those of any two ranks can be laid on each other."""


class RequestTimeline:
    """Bytes moved over time, by bin since the operation began."""

    def __init__(self) -> None:
        self.bin_seconds = FIRST_BIN_SECONDS
        self._bytes: Floats = np.zeros(MAX_BINS)

    def add(self, num_bytes: float, begun: float, ended: float) -> None:
        """Add the bytes of one request, spread evenly over the time that it took."""
        self.add_all(np.array([num_bytes], dtype=float), np.array([begun]), np.array([ended]))

    def add_all(self, num_bytes: Floats, begun: Floats, ended: Floats) -> None:
        """Add many requests, one entry for each: a step for all of them costs less than one for each.

        What began before the operation did is taken to begin with it.
        """
        begun = np.maximum(begun, 0.0)
        while ended.max() >= MAX_BINS * self.bin_seconds:
            self._bytes = np.concatenate([widen(self._bytes.tolist()), np.zeros(MAX_BINS // 2)])
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


def widen(bins: Sequence[float], times: int = 2) -> list[float]:
    """Merge bins into bins of `times` the width.

    >>> widen([1, 2, 3, 4, 5])
    [3, 7, 5]
    """
    return [sum(bins[start : start + times]) for start in range(0, len(bins), times)]


def align(timelines: Iterable[tuple[float, Sequence[float]]]) -> tuple[float, list[list[float]]]:
    """Bring timelines, each the seconds of a bin and bytes by bin, into bins of the widest of them.

    >>> align([(0.5, [1, 1, 1]), (1.0, [4])])
    (1.0, [[2, 1], [4]])
    """
    rows = list(timelines)
    bin_seconds = max((width for width, _ in rows), default=FIRST_BIN_SECONDS)
    return bin_seconds, [widen(bins, round(bin_seconds / width)) for width, bins in rows]


_CLOCK_SECONDS = 1e-9
"""The least that the clock tells apart."""
_NUMBERS = 4
"""Numbers of a request: offset, bytes, begin and end; a double holds offsets up to 9 PB exactly."""
_pack = struct.Struct(f"={_NUMBERS}d").pack
"""Into 32 bytes, which a bytearray takes at a fifth of the price of four numbers in an array."""
_MAX_WAITING_BYTES = 1 << 20
"""Max bytes of requests of a file that wait to be summed up: 2 GiB are written until then in blocks of 64 KiB."""


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """A request by where it went: it began at `offset_bytes` of `file`."""

    seconds: float
    file: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of one operation of one rank.

    `latency_counts` are pairs of bucket and count of those that moved data; `bin_bytes` what was moved in each
    `bin_seconds` since the start; `slowest` by phase, in which fsync and the like are requests too.
    """

    latency_counts: tuple[tuple[int, int], ...] = ()
    bin_seconds: float = 0.0
    bin_bytes: tuple[int, ...] = ()
    slowest: Mapping[str, SlowRequest] = field(default_factory=dict)


class RequestLog:
    """A log of requests from any thread; time counts from when it was made. While it `is_silent` it hears of none.

    Under the clock a request leaves four numbers; they are counted many at a time, and the last when all is over.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._lock = threading.Lock()
        self._moved: dict[tuple[str, str], bytearray] = {}
        self._counts: Counter[int] = Counter()
        self._timeline = RequestTimeline()
        self._slowest: dict[str, SlowRequest] = {}
        self.is_silent = False

    def moved(self, phase: str, file: str, offset_bytes: int, num_bytes: int, *, begun: float) -> None:
        """Count a request that moved bytes from `begun`, by time.perf_counter, until now."""
        ended = time.perf_counter()
        if self.is_silent or not num_bytes:
            return
        waiting = self._moved.get((phase, file))
        if waiting is None:
            waiting = self._moved.setdefault((phase, file), bytearray())
        # One step of the interpreter, as are those of `_count`: no other thread gets into it.
        waiting.extend(_pack(offset_bytes, num_bytes, begun, ended))
        if len(waiting) >= _MAX_WAITING_BYTES:
            with self._lock:
                self._count(phase, file)

    @contextmanager
    def step(self, phase: str, file: str, offset_bytes: int) -> Iterator[None]:
        """Count what runs within as a request that moves nothing by itself."""
        begun = time.perf_counter()
        yield
        with self._lock:
            self._note(phase, SlowRequest(time.perf_counter() - begun, file, offset_bytes))

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Leave requests in the block uncounted: they look what there is, and are no part of the checkpoint."""
        self.is_silent = True
        try:
            yield
        finally:
            self.is_silent = False

    def summary(self) -> Requests:
        """Histogram, timeline and slowest requests of all that was heard."""
        with self._lock:
            for phase, file in list(self._moved):
                self._count(phase, file)
            counts = tuple(sorted(self._counts.items()))
            return Requests(counts, self._timeline.bin_seconds, self._timeline.bins(), dict(self._slowest))

    def _count(self, phase: str, file: str) -> None:
        """Count what waits; what comes meanwhile waits on."""
        waiting = self._moved[phase, file]
        requests = bytes(waiting)
        del waiting[: len(requests)]
        if not requests:
            return
        offsets, num_bytes, begun, ended = np.frombuffer(requests).reshape(-1, _NUMBERS).T
        seconds = np.maximum(ended - begun, _CLOCK_SECONDS)
        self._counts.update(counts_of(seconds))
        self._timeline.add_all(num_bytes, begun - self._started, ended - self._started)
        slowest = int(seconds.argmax())
        self._note(phase, SlowRequest(float(seconds[slowest]), file, int(offsets[slowest])))

    def _note(self, phase: str, request: SlowRequest) -> None:
        slowest = self._slowest.get(phase)
        if slowest is None or request.seconds > slowest.seconds:
            self._slowest[phase] = request


class ObservedFile:
    """An open file under its name in the run. Offsets are counted here: asking the file costs a system call."""

    def __init__(self, file: BinaryIO, name: str, log: RequestLog) -> None:
        self._file, self.name, self._log = file, name, log
        self._offset = 0

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._file, attribute)

    def write(self, data: Any, /) -> int:
        """Write as the file does."""
        self._check()
        begun = time.perf_counter()
        return self._moved("write", self._file.write(data), begun)

    def readinto(self, buffer: Any, /) -> int:
        """Read as the file does."""
        self._check()
        begun = time.perf_counter()
        return self._moved("read", cast(Any, self._file).readinto(buffer), begun)

    def read(self, size: int = -1, /) -> bytes:
        """Read as the file does."""
        self._check()
        begun = time.perf_counter()
        data = self._file.read(size)
        self._moved("read", len(data), begun)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        """Move as the file does."""
        self._offset = self._file.seek(offset, whence)
        return self._offset

    def close(self) -> None:
        """Close the file; again does nothing."""
        if not self._file.closed:
            with self._log.step("close", self.name, self._offset):
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._file.__exit__(kind, error, traceback)

    def _check(self) -> None:
        """Raise InterruptedError where the run is to end, unless this only looks what there is."""
        if not self._log.is_silent:
            interruption.fail_requests()

    def _moved(self, phase: str, num_bytes: int, begun: float) -> int:
        self._log.moved(phase, self.name, self._offset, num_bytes, begun=begun)
        self._offset += num_bytes
        return num_bytes


def observe_requests(file: BinaryIO, name: str, log: RequestLog) -> BinaryIO:
    """Wrap a file so that the log is told of its requests."""
    return cast(BinaryIO, ObservedFile(file, name, log))
