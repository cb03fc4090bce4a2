"""A file system in the simulation: transfers that share its bandwidth, ended by events."""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Sequence

import simpy

from sizing.explore.clusters.sharing import Sharer, fair_rates

_ROUNDING = 1 + 1e-12
"""Bytes served are sums of many floats; transfers that began together and are as large must end together."""


class Transfer:
    """A transfer in progress: `done` fires when its last byte has passed; `met_another` if it ever shared."""

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
        self._queues: list[list[tuple[float, int, Transfer]]] = [[] for _ in sharers]
        self._order = itertools.count()
        self._version = 0
        self._since = 0.0
        self.change_seconds = array("d", [0.0])
        self.rates_after = array("d", [0.0])
        self.limited_seconds = 0.0
        self._limited = False

    def start(self, kind: int, num_bytes: float) -> Transfer:
        """A transfer that begins now."""
        self._advance()
        busy = sum(self._counts)
        if busy == 1:
            self._mark_those_running()
        transfer = Transfer(kind, self._served[kind] + num_bytes, self._env.event(), met_another=busy > 0)
        heapq.heappush(self._queues[kind], (transfer.finish, next(self._order), transfer))
        self._counts[kind] += 1
        self._share()
        return transfer

    def cancel(self, transfer: Transfer) -> None:
        """Stop a transfer that has not ended."""
        self._advance()
        transfer.cancelled = True
        self._counts[transfer.kind] -= 1
        self._share()

    def _mark_those_running(self) -> None:
        for queue in self._queues:
            for _, _, transfer in queue:
                transfer.met_another = True

    def _advance(self) -> None:
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
            self._end_after(max(0.0, soonest[0]), soonest[1])

    def _next(self, kind: int) -> Transfer:
        queue = self._queues[kind]
        while queue[0][2].cancelled:
            heapq.heappop(queue)
        return queue[0][2]

    def _end_after(self, seconds: float, kind: int) -> None:
        version = self._version
        callbacks = self._env.timeout(seconds).callbacks
        callbacks.append(lambda _: self._end(kind) if version == self._version else None)

    def _end(self, kind: int) -> None:
        """End the transfer that was due, and those of its kind that began with it and were as large."""
        self._advance()
        due = self._next(kind).finish
        while self._counts[kind] and self._next(kind).finish <= due * _ROUNDING:
            transfer = heapq.heappop(self._queues[kind])[2]
            self._counts[kind] -= 1
            transfer.done.succeed()
        self._share()
