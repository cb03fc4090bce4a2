"""What one rank's write or restore leaves of its requests: few numbers, however many there were."""

from __future__ import annotations

import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from io_bench.timing.latency import counts_of
from io_bench.timing.timeline import Timeline

_CLOCK_SECONDS = 1e-9
"""The least that the clock tells apart."""
_NUMBERS = 4
"""Of a request: offset, bytes, begin and end; a double holds offsets up to 9 PB exactly."""
_pack = struct.Struct(f"={_NUMBERS}d").pack
"""Into 32 bytes, which a bytearray takes at a fifth of the price of four numbers in an array."""
_MAX_WAITING_BYTES = 1 << 20
"""Of a file: 2 GiB are written until then in blocks of 64 KiB."""


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

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """What `dataclasses.asdict` made of it, after JSON."""
        return cls(
            tuple((bucket, count) for bucket, count in row["latency_counts"]),
            row["bin_seconds"],
            tuple(row["bin_bytes"]),
            {phase: SlowRequest(**slow) for phase, slow in row["slowest"].items()},
        )


class RequestLog:
    """Hears of requests from any thread; time counts from when it was made.

    Under the clock a request leaves four numbers; they are counted many at a time, and the last when all is over.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._lock = threading.Lock()
        self._moved: dict[tuple[str, str], bytearray] = {}
        self._counts: Counter[int] = Counter()
        self._timeline = Timeline()
        self._slowest: dict[str, SlowRequest] = {}
        self._is_silent = False

    def moved(self, phase: str, file: str, offset_bytes: int, num_bytes: int, *, begun: float) -> None:
        """A request moved bytes from `begun`, by time.perf_counter, until now."""
        ended = time.perf_counter()
        if self._is_silent or not num_bytes:
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
        """Within, data is moved to see what there is, and is no part of the checkpoint."""
        self._is_silent = True
        try:
            yield
        finally:
            self._is_silent = False

    def summary(self) -> Requests:
        """What is kept of them."""
        with self._lock:
            for phase, file in list(self._moved):
                self._count(phase, file)
            counts = tuple(sorted(self._counts.items()))
            return Requests(counts, self._timeline.bin_seconds, self._timeline.bins(), dict(self._slowest))

    def _count(self, phase: str, file: str) -> None:
        """Count what waits; what comes meanwhile waits on."""
        waiting = self._moved[phase, file]
        taken = bytes(waiting)
        del waiting[: len(taken)]
        if not taken:
            return
        offsets, num_bytes, begun, ended = np.frombuffer(taken).reshape(-1, _NUMBERS).T
        seconds = np.maximum(ended - begun, _CLOCK_SECONDS)
        self._counts.update(counts_of(seconds))
        self._timeline.add_all(num_bytes, begun - self._started, ended - self._started)
        slowest = int(seconds.argmax())
        self._note(phase, SlowRequest(float(seconds[slowest]), file, int(offsets[slowest])))

    def _note(self, phase: str, request: SlowRequest) -> None:
        slowest = self._slowest.get(phase)
        if slowest is None or request.seconds > slowest.seconds:
            self._slowest[phase] = request
