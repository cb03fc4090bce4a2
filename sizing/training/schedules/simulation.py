"""A pipeline step, pass after pass: when each begins, what it waits for, how long the stages idle.

Every device runs its passes in the order of its schedule, each as soon as what it needs is there. Sending takes no
time. A forward pass needs that of the chunk before, a backward pass that of the chunk behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work


@dataclass(frozen=True, slots=True)
class Span:
    """When a device begins, when it ends and how long it works in between."""

    begin: float
    end: float
    busy: float

    @property
    def idle(self) -> float:
        """The time between first and last pass in which the device waits."""
        return self.end - self.begin - self.busy


def simulated(orders: Sequence[Sequence[Slot]], times: PassTimes, *, num_chunks: int) -> tuple[Span, ...]:
    """The span of each device that runs its slots in order; each stage has `num_chunks` chunks of equal times.

    Raises ValueError where passes wait for each other for ever.

    >>> f, b = Pass(Work.FORWARD, 0, 0), Pass(Work.BACKWARD, 0, 0)
    >>> first, last = ([(f._replace(chunk=c),), (b._replace(chunk=c),)] for c in (0, 1))
    >>> [span.idle for span in simulated([first, last], PassTimes(), num_chunks=1)]
    [3.0, 0.0]
    """
    return _Run(orders, times, num_chunks).spans()


class _Run:
    def __init__(self, orders: Sequence[Sequence[Slot]], times: PassTimes, num_chunks: int) -> None:
        self._orders, self._times, self._num_chunks = orders, times, num_chunks
        self._last_chunk = max(each.chunk for order in orders for slot in order for each in slot)
        self._ends: dict[tuple[bool, int, int], float] = {}
        self._done = [0] * len(orders)
        self._spans: list[Span | None] = [None] * len(orders)

    def spans(self) -> tuple[Span, ...]:
        while sum(map(self._advance, range(len(self._orders)))):
            pass
        if any(done < len(order) for done, order in zip(self._done, self._orders, strict=True)):
            raise ValueError("passes wait for each other")
        return tuple(span or Span(0.0, 0.0, 0.0) for span in self._spans)

    def _advance(self, device: int) -> bool:
        """Run what a device can; whether that was anything."""
        before = self._done[device]
        for slot in self._orders[device][before:]:
            needed = [key for each in slot for key in self._needs(each)]
            if any(key not in self._ends for key in needed):
                break
            self._run(device, slot, max((self._ends[key] for key in needed), default=0.0))
        return self._done[device] > before

    def _run(self, device: int, slot: Slot, ready: float) -> None:
        span = self._spans[device] or Span(ready, ready, 0.0)
        duration = self._times.slot(slot) / self._num_chunks
        end = max(span.end, ready) + duration
        for each in slot:
            if each.work is not Work.WEIGHT_GRADIENT:
                self._ends[each.work is Work.FORWARD, each.chunk, each.microbatch] = end
        self._spans[device] = Span(span.begin, end, span.busy + duration)
        self._done[device] += 1

    def _needs(self, each: Pass) -> Iterator[tuple[bool, int, int]]:
        """Passes whose results a pass needs: whether forward, chunk, microbatch."""
        _, chunk, microbatch = each
        if each.work is Work.FORWARD:
            if chunk:
                yield True, chunk - 1, microbatch
        elif each.work is Work.WEIGHT_GRADIENT:
            yield False, chunk, microbatch
        elif chunk < self._last_chunk:
            yield False, chunk + 1, microbatch
        else:
            yield True, chunk, microbatch
