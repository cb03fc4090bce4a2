"""Consecutive layers dealt to stages of unlike devices: the dynamic program of Pipe-torch.

It takes any cost of a stage: its time, or what it lacks of memory. A stage that cannot be costs infinity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
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


class Placed(NamedTuple):
    """A stage: on a device of which kind, the layers from `first` up to those before `past`."""

    kind: int
    first: int
    past: int


class _Reached(NamedTuple):
    """Of each number of layers that are dealt: the least cost, and how it was reached. Infinity where it cannot be."""

    cost: npt.NDArray[np.float64]
    first: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]


_Used = tuple[tuple[int, ...], int | None]
"""Devices of each kind that have a stage already, and the kind of the last one."""


def num_steps(counts: tuple[int, ...]) -> int:
    """What the dynamic program walks through: prod (n_k + 1) sets of used devices times pairs of kinds.

    n_k devices of kind k. Source: definition.

    >>> num_steps((4, 4))
    100
    """
    return math.prod(count + 1 for count in counts) * len(counts) ** 2


def best_partition(
    cost_of: CostOf, counts: tuple[int, ...], *, num_layers: int, combine: Combine = np.maximum
) -> tuple[float, tuple[Placed, ...]] | None:
    """The least cost of a pipeline with a stage on each device, in any order of kinds, and its stages.

    A(U + k, k, b) = min over a < b and last kinds j of C(A(U, j, a), c(|U|, k, j)[a, b]): U devices used of each
    kind, b layers dealt, c cost of a stage, C `combine`. None where every partition costs infinity.
    Source: Zhan and Zhang 2019, Pipe-torch, whose program deals layers to unlike GPUs so that the slowest stage with
    its transfers is the fastest; the recursion is that of Narayanan et al. 2019, PipeDream, section 3.1, with devices
    counted by kind.

    >>> slow = np.array([[np.inf, 2.0, 4.0, 6.0]] * 4) - np.array([[0.0], [2.0], [4.0], [6.0]])
    >>> slow[slow <= 0] = np.inf
    >>> best_partition(lambda stage, kind, before: slow / (1 + kind), (1, 1), num_layers=3)
    (2.0, (Placed(kind=0, first=0, past=1), Placed(kind=1, first=1, past=3)))
    """
    nothing = np.full(num_layers + 1, np.inf)
    nothing[0] = 0.0 if combine is np.add else -np.inf
    none = np.zeros(num_layers + 1, np.int64)
    reached: list[dict[_Used, _Reached]] = [{((0,) * len(counts), None): _Reached(nothing, none, none)}]
    for stage in range(sum(counts)):
        reached.append(_next_stage(reached[-1], stage, cost_of, counts, combine))
    last, found = min(reached[-1].items(), key=lambda each: float(each[1].cost[num_layers]))
    if not np.isfinite(found.cost[num_layers]):
        return None
    return float(found.cost[num_layers]), tuple(_walked_back(reached, last, num_layers))[::-1]


def _next_stage(
    before: dict[_Used, _Reached], stage: int, cost_of: CostOf, counts: tuple[int, ...], combine: Combine
) -> dict[_Used, _Reached]:
    """With one stage more on each kind of device that is left."""
    found: dict[_Used, _Reached] = {}
    for (used, last), reached in before.items():
        for kind in range(len(counts)):
            if used[kind] == counts[kind]:
                continue
            key = (_one_more(used, kind), kind)
            now = _extended(reached, cost_of(stage, kind, last), combine, last)
            found[key] = _better(found[key], now) if key in found else now
    return found


def _extended(reached: _Reached, costs: Costs, combine: Combine, last: int | None) -> _Reached:
    with np.errstate(invalid="ignore"):
        each = combine(reached.cost[:, None], costs)
    first = np.argmin(each, axis=0)
    cost = each[first, np.arange(len(first))]
    return _Reached(cost, first, np.full(len(first), -1 if last is None else last))


def _better(one: _Reached, other: _Reached) -> _Reached:
    is_less = other.cost < one.cost
    return _Reached(*(np.where(is_less, new, old) for new, old in zip(other, one, strict=True)))


def _walked_back(reached: list[dict[_Used, _Reached]], last: _Used, past: int) -> Iterator[Placed]:
    """The stages from the last to the first."""
    (used, kind) = last
    for table in reached[:0:-1]:
        found = table[used, kind]
        first, before = int(found.first[past]), int(found.before[past])
        assert kind is not None  # noqa: S101 - only the empty pipeline has no last kind
        yield Placed(kind, first, past)
        used, kind, past = _one_more(used, kind, -1), None if before < 0 else before, first


def _one_more(used: tuple[int, ...], kind: int, step: int = 1) -> tuple[int, ...]:
    return tuple(itertools.chain(used[:kind], [used[kind] + step], used[kind + 1 :]))


def balanced_partition(
    cost_of: CostOf, counts: tuple[int, ...], *, num_layers: int
) -> tuple[float, tuple[Placed, ...]] | None:
    """The least cost of the slowest stage, and of the partitions that reach it one whose stages cost least in all.

    Source: definition, two runs of best_partition.
    """
    found = best_partition(cost_of, counts, num_layers=num_layers)
    if found is None:
        return None
    slowest = found[0]

    def within(stage: int, kind: int, before: int | None) -> Costs:
        costs = cost_of(stage, kind, before)
        return np.where(costs <= slowest, costs, np.inf)

    again = best_partition(within, counts, num_layers=num_layers, combine=np.add)
    return None if again is None else (slowest, again[1])
