"""How a busy file system divides its bandwidth among transfers, and when transfers that share it end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Sharer(NamedTuple):
    """One kind of equal transfers: what each can draw at most, and its weight where bandwidth is short."""

    max_bytes_per_second: float
    weight: float


class Batch(NamedTuple):
    """`num_transfers` equal transfers of `num_bytes` each that begin together at `start_seconds`."""

    sharer: Sharer
    num_transfers: int
    num_bytes: float
    start_seconds: float = 0.0


@dataclass(slots=True)
class _UnderWay:
    """A batch of which each transfer has still to move `left_bytes`, until `end_seconds`."""

    batch: Batch
    left_bytes: float
    end_seconds: float = math.inf

    def has_ended(self) -> bool:
        return math.isfinite(self.end_seconds)

    def num_running(self, now: float) -> int:
        return self.batch.num_transfers if self.batch.start_seconds <= now and self.left_bytes > 0 else 0

    def end_at(self, rate: float, now: float) -> float:
        return now + self.left_bytes / rate

    def move(self, rate: float, now: float, then: float) -> None:
        self.left_bytes = 0.0 if self.end_at(rate, now) <= then else self.left_bytes - rate * (then - now)
        if self.left_bytes <= 0:
            self.end_seconds = then


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


def finish_seconds(bytes_per_second: float, batches: Sequence[Batch]) -> list[float]:
    """When the transfers of each batch end if nothing else uses the file system.

    Between starts and ends the rates of `fair_rates` stand still, so this steps from one to the next.
    Source: definition of processor sharing, integrated.

    >>> alike = Sharer(float("inf"), 1.0)
    >>> finish_seconds(10.0, [Batch(alike, 1, 10.0), Batch(alike, 1, 30.0), Batch(alike, 1, 10.0, 3.0)])
    [2.0, 5.0, 5.0]
    """
    under_way = [_UnderWay(batch, batch.num_bytes) for batch in batches]
    now = min(batch.start_seconds for batch in batches)
    while not all(map(_UnderWay.has_ended, under_way)):
        now = _move(under_way, bytes_per_second, now)
    return [each.end_seconds for each in under_way]


def _move(under_way: Sequence[_UnderWay], bytes_per_second: float, now: float) -> float:
    """Move bytes until the next start or end, and return its time."""
    counts = [each.num_running(now) for each in under_way]
    rates = fair_rates(bytes_per_second, [each.batch.sharer for each in under_way], counts=counts)
    running = [(each, rate) for each, rate, count in zip(under_way, rates, counts, strict=True) if count]
    ends = [each.end_at(rate, now) for each, rate in running]
    starts = [each.batch.start_seconds for each in under_way if each.batch.start_seconds > now]
    then = min([*ends, *starts])
    for each, rate in running:
        each.move(rate, now, then)
    return then
