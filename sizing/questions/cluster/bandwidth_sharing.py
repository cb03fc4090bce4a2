"""How a busy file system divides its bandwidth among transfers: the rates, and a resource of the simulation."""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import simpy


class Sharer(NamedTuple):
    """One kind of equal transfers: what each can draw at most, and its weight where bandwidth is short."""

    max_bytes_per_second: float
    weight: float


def fair_rates(bytes_per_second: float, sharers: Sequence[Sharer], *, counts: Sequence[int]) -> list[float]:
    """Rate of each transfer of each kind: weighted max-min fair, r_i = min(m_i, w_i L).

    The level L is the one at which the file system is full, or all draw their max: whoever cannot use an equal
    share leaves the rest to the others. With one weight and no `max_bytes_per_second` this is processor sharing.
    Source: Bertsekas and Gallager, Data Networks, section 6.5.2.

    >>> fair_rates(100.0, [Sharer(10.0, 1.0), Sharer(float("inf"), 1.0)], counts=[2, 4])
    [10.0, 20.0]
    """
    left, weight = bytes_per_second, 0.0
    active = []
    for kind, count in enumerate(counts):
        if count:
            highest, own_weight = sharers[kind]
            active.append((highest / own_weight, kind))
            weight += count * own_weight
    active.sort()
    rates = [0.0] * len(sharers)
    for level_needed, kind in active:
        highest, own_weight = sharers[kind]
        level = left / weight
        rates[kind] = highest if level_needed <= level else own_weight * level
        left -= counts[kind] * rates[kind]
        weight -= counts[kind] * own_weight
    return rates


_ROUNDING = 1 + 1e-12
"""Bytes served are sums of many floats; transfers that began together and are as large must end together."""


class ActiveTransfer:
    """Transfer in progress: `done` fires when its last byte has passed; `met_another` if it ever shared."""

    __slots__ = ("cancelled", "done", "finish", "kind", "met_another")

    def __init__(self, kind: int, finish: float, done: simpy.Event, *, met_another: bool) -> None:
        self.kind = kind
        self.finish = finish
        self.done = done
        self.met_another = met_another
        self.cancelled = False


class SharedBandwidth:
    """Transfers at the rates of `fair_rates`.

    Transfers of one kind always have one rate, so each kind counts the bytes that one of its transfers has been
    served, and a transfer ends when that count has grown by its size: a change costs the kinds, not the transfers.
    """

    def __init__(self, env: simpy.Environment, *, bytes_per_second: float, sharers: Sequence[Sharer]) -> None:
        self._env = env
        self.bytes_per_second = bytes_per_second
        self._sharers = sharers
        self._served = [0.0] * len(sharers)
        self._counts = [0] * len(sharers)
        self._rates = [0.0] * len(sharers)
        self._queues: list[list[tuple[float, int, ActiveTransfer]]] = [[] for _ in sharers]
        self._order = itertools.count()
        self._version = 0
        self._since = 0.0
        self.change_seconds = array("d", [0.0])
        self.rates_after = array("d", [0.0])
        self.limited_seconds = 0.0
        self._limited = False

    def kind_of(self, sharer: Sharer) -> int:
        """Kind of the transfers that share as this one does."""
        return self._sharers.index(sharer)

    def start(self, kind: int, num_bytes: float) -> ActiveTransfer:
        """Start a transfer now."""
        self.advance()
        busy = sum(self._counts)
        if busy == 1:  # the only one that may not have met another yet
            for _, _, running in itertools.chain.from_iterable(self._queues):
                running.met_another = True
        transfer = ActiveTransfer(kind, self._served[kind] + num_bytes, self._env.event(), met_another=busy > 0)
        heapq.heappush(self._queues[kind], (transfer.finish, next(self._order), transfer))
        self._counts[kind] += 1
        self._share()
        return transfer

    def cancel(self, transfer: ActiveTransfer) -> None:
        """Stop a transfer that has not ended."""
        self.advance()
        transfer.cancelled = True
        self._counts[transfer.kind] -= 1
        self._share()

    def advance(self) -> None:
        """Count what was transferred until now, and the time at the limit."""
        passed = self._env.now - self._since
        self._since = self._env.now
        if passed > 0:
            for kind, rate in enumerate(self._rates):
                self._served[kind] += rate * passed
            self.limited_seconds += passed * self._limited

    def _share(self) -> None:
        self._rates = fair_rates(self.bytes_per_second, self._sharers, counts=self._counts)
        total, wanted, soonest = 0.0, 0.0, None
        for kind, count in enumerate(self._counts):
            if not count:
                self._served[kind] = 0.0
                self._queues[kind].clear()
                continue
            total += count * self._rates[kind]
            wanted += count * self._sharers[kind].max_bytes_per_second
            left = (self._next(kind).finish - self._served[kind]) / self._rates[kind]
            if soonest is None or left < soonest[0]:
                soonest = (left, kind)
        self._limited = wanted > self.bytes_per_second * _ROUNDING and sum(self._counts) > 1
        self.change_seconds.append(self._env.now)
        self.rates_after.append(total)
        self._version += 1
        if soonest is not None:
            (seconds, kind), version = soonest, self._version
            callbacks = self._env.timeout(max(0.0, seconds)).callbacks
            callbacks.append(lambda _: self._end(kind) if version == self._version else None)

    def _next(self, kind: int) -> ActiveTransfer:
        queue = self._queues[kind]
        while queue[0][2].cancelled:
            heapq.heappop(queue)
        return queue[0][2]

    def _end(self, kind: int) -> None:
        """End the transfer that was due, and those of its kind that began with it and were as large."""
        self.advance()
        due = self._next(kind).finish
        while self._counts[kind] and self._next(kind).finish <= due * _ROUNDING:
            transfer = heapq.heappop(self._queues[kind])[2]
            self._counts[kind] -= 1
            transfer.done.succeed()
        self._share()
