"""Pipelines over unlike nodes: layers assigned to stages by computing time, and virtual workers of several nodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.float64]
"""Layers x layers: of a stage with the layers from `first` (row) up to those before `past` (column)."""
CostOf = Callable[[int, int, int | None], Costs]
"""Costs by the number of a stage, its kind of device, and the kind of the stage before, None for the first."""
Combine = Callable[[Any, Any], Costs]
"""How the costs of stages add up: np.maximum for the slowest of them, np.add for all together."""
MAX_STEPS = 20_000
"""Counts of used devices by kind times pairs of kinds: each takes some 50 us, so the longest question takes seconds."""


class StagePlacement(NamedTuple):
    """Stage on a device of this kind, with the layers from `first` up to those before `past`."""

    kind: int
    first: int
    past: int


class _LeastCosts(NamedTuple):
    """Least cost by number of assigned layers, and the last stage that leads there. Infinity where none does."""

    cost: npt.NDArray[np.float64]
    first: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]


_Used = tuple[tuple[int, ...], int | None]
"""Devices of each kind that have a stage already, and the kind of the last one."""


def num_steps(counts: tuple[int, ...]) -> int:
    """Count the steps of the dynamic program: prod (n_k + 1) sets of used devices times pairs of kinds.

    n_k devices of kind k. Source: definition.

    >>> num_steps((4, 4))
    100
    """
    return math.prod(count + 1 for count in counts) * len(counts) ** 2


def best_partition(
    cost_of: CostOf, counts: tuple[int, ...], *, num_layers: int, combine: Combine = np.maximum
) -> tuple[float, tuple[StagePlacement, ...]] | None:
    """Find the pipeline of least cost with a stage on each device, in any order of kinds: its cost and its stages.

    A(U + k, k, b) = min over a < b and last kinds j of C(A(U, j, a), c(|U|, k, j)[a, b]): U devices used of each
    kind, b layers assigned, c cost of a stage, C `combine`. None where every partition costs infinity.
    Source: Zhan and Zhang 2019, Pipe-torch, whose program assigns layers to unlike GPUs so that the slowest stage with
    its transfers is the fastest; the recursion is that of Narayanan et al. 2019, PipeDream, section 3.1, with devices
    counted by kind.

    >>> slow = np.array([[np.inf, 2.0, 4.0, 6.0]] * 4) - np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> slow[slow <= 0] = np.inf
    >>> best_partition(lambda stage, kind, before: slow / (1 + kind), (1, 1), num_layers=3)
    (2.0, (StagePlacement(kind=0, first=0, past=1), StagePlacement(kind=1, first=1, past=3)))
    """
    nothing = np.full(num_layers + 1, np.inf)
    nothing[0] = 0.0 if combine is np.add else -np.inf
    none = np.zeros(num_layers + 1, np.int64)
    by_stage: list[dict[_Used, _LeastCosts]] = [{((0,) * len(counts), None): _LeastCosts(nothing, none, none)}]
    for stage in range(sum(counts)):
        by_stage.append(_add_stage(by_stage[-1], stage, cost_of, counts, combine))
    last, costs = min(by_stage[-1].items(), key=lambda each: float(each[1].cost[num_layers]))
    if not np.isfinite(costs.cost[num_layers]):
        return None
    return float(costs.cost[num_layers]), tuple(_walk_back(by_stage, last, num_layers))[::-1]


def _add_stage(
    before: dict[_Used, _LeastCosts], stage: int, cost_of: CostOf, counts: tuple[int, ...], combine: Combine
) -> dict[_Used, _LeastCosts]:
    """Extend every pipeline by one stage on each kind of device that is left."""
    after: dict[_Used, _LeastCosts] = {}
    for (used, last), least in before.items():
        for kind in range(len(counts)):
            if used[kind] == counts[kind]:
                continue
            with np.errstate(invalid="ignore"):
                by_first = combine(least.cost[:, None], cost_of(stage, kind, last))
            first = np.argmin(by_first, axis=0)
            cost = by_first[first, np.arange(len(first))]
            extended = _LeastCosts(cost, first, np.full(len(first), -1 if last is None else last))
            key = (_change_count(used, kind, 1), kind)
            if key in after:
                is_less = extended.cost < after[key].cost
                pairs = zip(extended, after[key], strict=True)
                extended = _LeastCosts(*(np.where(is_less, new, old) for new, old in pairs))
            after[key] = extended
    return after


def _walk_back(by_stage: list[dict[_Used, _LeastCosts]], last: _Used, past: int) -> Iterator[StagePlacement]:
    """Yield the stages from the last to the first."""
    used, kind = last
    for table in by_stage[:0:-1]:
        least = table[used, kind]
        first, before = int(least.first[past]), int(least.before[past])
        assert kind is not None  # noqa: S101 - only the empty pipeline has no last kind
        yield StagePlacement(kind, first, past)
        used, kind, past = _change_count(used, kind, -1), None if before < 0 else before, first


def _change_count(used: tuple[int, ...], kind: int, step: int) -> tuple[int, ...]:
    return (*used[:kind], used[kind] + step, *used[kind + 1 :])


def balanced_partition(
    cost_of: CostOf, counts: tuple[int, ...], *, num_layers: int
) -> tuple[float, tuple[StagePlacement, ...]] | None:
    """Find the least cost of the slowest stage, and among those partitions the one of least total cost.

    Source: definition, two runs of best_partition.
    """
    fastest = best_partition(cost_of, counts, num_layers=num_layers)
    if fastest is None:
        return None
    slowest, _ = fastest

    def within(stage: int, kind: int, before: int | None) -> Costs:
        costs = cost_of(stage, kind, before)
        return np.where(costs <= slowest, costs, np.inf)

    cheapest = best_partition(within, counts, num_layers=num_layers, combine=np.add)
    return None if cheapest is None else (slowest, cheapest[1])


Composition = tuple[int, ...]
"""Devices of each kind in a virtual worker."""


class Workers(NamedTuple):
    """A number of virtual workers of equal composition."""

    number: int
    composition: Composition


class Grouping(NamedTuple):
    """Policy and the workers that it makes, or the reason why it makes none."""

    policy: str
    workers: tuple[Workers, ...] = ()
    reason: str | None = None


def groupings(devices: Sequence[int], speeds: Sequence[float], *, stages: int) -> Iterator[Grouping]:
    """Yield what each policy makes of the devices, with `stages` of them in each worker.

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
        yield _group_devices(policy, groups, devices, stages)


def _group_devices(policy: str, groups: list[set[int]], devices: Sequence[int], stages: int) -> Grouping:
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
    """Return the minibatches whose updates one of the same worker does not see: s_local = p - 1 with p in the pipeline.

    Source: Park et al. 2020, HetPipe, arXiv 2005.14038, section 4: p of them run at once.

    >>> local_staleness(4)
    3
    """
    return stages - 1


def global_staleness(stages: int, clock_distance: int) -> int:
    """Return the minibatches of another worker whose updates may be missing: (D + 1)(s_local + 1) + s_local - 1.

    D waves by which a worker may be ahead of the slowest. Source: Park et al. 2020, HetPipe, section 5.

    >>> global_staleness(4, 0), global_staleness(4, 4)
    (6, 22)
    """
    local = local_staleness(stages)
    return (clock_distance + 1) * (local + 1) + local - 1


def wave_seconds(minibatch_seconds: float, sync_seconds: float, *, stages: int, clock_distance: int) -> float:
    """Return the time from one wave to the next of a worker alone: p T + s with D = 0, else max(p T, s).

    T from one minibatch to the next, p = s_local + 1 of them in a wave, s to push their updates and to pull weights,
    for which a worker that may be ahead does not wait. Source: Park et al. 2020, HetPipe, section 5, WSP.

    >>> wave_seconds(2.0, 3.0, stages=4, clock_distance=0), wave_seconds(2.0, 3.0, stages=4, clock_distance=1)
    (11.0, 8.0)
    """
    wave = stages * minibatch_seconds
    return max(wave, sync_seconds) if clock_distance else wave + sync_seconds
