"""HetPipe: unlike devices grouped into virtual workers, each a pipeline, with data parallelism between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

Composition = tuple[int, ...]
"""Devices of each kind in a virtual worker."""


class Workers(NamedTuple):
    """So many virtual workers of equal composition."""

    number: int
    composition: Composition


class Grouping(NamedTuple):
    """A policy and the workers that it makes, or why it makes none."""

    policy: str
    workers: tuple[Workers, ...] = ()
    reason: str | None = None


def groupings(devices: Sequence[int], speeds: Sequence[float], *, stages: int) -> Iterator[Grouping]:
    """What each policy makes of so many devices of each kind, `stages` of them in each worker.

    node-partition: each worker of one kind. equal-distribution: each worker has the same of every kind.
    hybrid-distribution: the fastest kind with the slowest, the next fastest with the next slowest, equally within.
    Source: Park et al. 2020, HetPipe, arXiv 2005.14038, section 8.1: NP, ED and HD (VVQQ and RRGG).

    >>> [grouping.workers for grouping in groupings([4, 4, 4, 4], [4.0, 3.0, 2.0, 1.0], stages=4)][2]
    (Workers(number=2, composition=(2, 0, 0, 2)), Workers(number=2, composition=(0, 2, 2, 0)))
    """
    every = range(len(devices))
    order = sorted(every, key=lambda kind: speeds[kind], reverse=True)
    pairs = [{order[place], order[-1 - place]} for place in range((len(order) + 1) // 2)]
    for policy, groups in (
        ("node-partition", [{kind} for kind in every]),
        ("equal-distribution", [set(every)]),
        ("hybrid-distribution", pairs),
    ):
        yield _grouping(policy, groups, devices, stages)


def _grouping(policy: str, groups: list[set[int]], devices: Sequence[int], stages: int) -> Grouping:
    workers = []
    for group in groups:
        total = sum(devices[kind] for kind in group)
        count, rest = divmod(total, stages)
        if rest:
            return Grouping(policy, reason=f"{total} devices do not make whole workers of {stages} stages")
        if any(devices[kind] % count for kind in group):
            return Grouping(policy, reason=f"{count} workers cannot have the same number of each kind")
        workers.append(Workers(count, tuple(devices[k] // count if k in group else 0 for k in range(len(devices)))))
    return Grouping(policy, tuple(workers))


def local_staleness(stages: int) -> int:
    """Minibatches whose updates a minibatch of the same worker does not see: s_local = p - 1 with p in the pipeline.

    Source: Park et al. 2020, HetPipe, arXiv 2005.14038, section 4: p of them run at once.

    >>> local_staleness(4)
    3
    """
    return stages - 1


def global_staleness(stages: int, clock_distance: int) -> int:
    """Minibatches of another worker whose updates may be missing: (D + 1)(s_local + 1) + s_local - 1.

    D waves by which a worker may be ahead of the slowest. Source: Park et al. 2020, HetPipe, section 5.

    >>> global_staleness(4, 0), global_staleness(4, 4)
    (6, 22)
    """
    local = local_staleness(stages)
    return (clock_distance + 1) * (local + 1) + local - 1


def wave_seconds(minibatch_seconds: float, sync_seconds: float, *, stages: int, clock_distance: int) -> float:
    """From one wave to the next of a worker alone: p T + s with D = 0, else max(p T, s).

    T from one minibatch to the next, p = s_local + 1 of them in a wave, s to push their updates and to pull weights,
    for which a worker that may be ahead does not wait. Source: Park et al. 2020, HetPipe, section 5, WSP.

    >>> wave_seconds(2.0, 3.0, stages=4, clock_distance=0), wave_seconds(2.0, 3.0, stages=4, clock_distance=1)
    (11.0, 8.0)
    """
    wave = stages * minibatch_seconds
    return max(wave, sync_seconds) if clock_distance else wave + sync_seconds
