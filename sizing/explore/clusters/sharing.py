"""How a busy file system divides its bandwidth among transfers, and when transfers that share it end."""

from __future__ import annotations

import math
from collections.abc import Sequence
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


def fair_rates(bytes_per_second: float, sharers: Sequence[Sharer], *, counts: Sequence[int]) -> list[float]:
    """Rate of each transfer of each kind: weighted max-min fair, r_i = min(m_i, w_i L).

    The level L is the one at which the file system is full, or all draw their most: whoever cannot use an equal
    share leaves the rest to the others. With one weight and no `max_bytes_per_second` this is processor sharing.
    Source: Bertsekas and Gallager, Data Networks, section 6.5.2.

    >>> fair_rates(100.0, [Sharer(10.0, 1.0), Sharer(float("inf"), 1.0)], counts=[2, 4])
    [10.0, 20.0]
    """
    left, weight = bytes_per_second, 0.0
    active = []
    for kind, count in enumerate(counts):
        if count:
            most, own_weight = sharers[kind]
            active.append((most / own_weight, kind))
            weight += count * own_weight
    active.sort()
    rates = [0.0] * len(sharers)
    for level_needed, kind in active:
        most, own_weight = sharers[kind]
        level = left / weight
        rates[kind] = most if level_needed <= level else own_weight * level
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
    sharers = [batch.sharer for batch in batches]
    left = [batch.num_bytes for batch in batches]
    finished = [math.inf] * len(batches)
    now = min(batch.start_seconds for batch in batches)
    while not all(map(math.isfinite, finished)):
        running = [
            batch.num_transfers if batch.start_seconds <= now and left[i] > 0 else 0 for i, batch in enumerate(batches)
        ]
        rates = fair_rates(bytes_per_second, sharers, counts=running)
        ends = {i: now + left[i] / rates[i] for i, count in enumerate(running) if count}
        starts = [batch.start_seconds for batch in batches if batch.start_seconds > now]
        then = min([*ends.values(), *starts])
        for i, end in ends.items():
            left[i] = 0.0 if end <= then else left[i] - rates[i] * (then - now)
            if left[i] <= 0:
                finished[i] = then
        now = then
    return finished
