"""Checkmate: the least time within a memory for any small graph of forward and backward operations, by integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from sizing.errors import InvalidInput
from sizing.units import decimal_bytes_text

MAX_NODES = 16
"""The variables grow with the square of the nodes and the time with more: seconds for these."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operation: its time, the bytes of its result, and the numbers of the nodes whose results it needs."""

    time: float
    num_bytes: float
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """Nodes in the order in which they are computed, some more than once, what that takes and the max that is held."""

    steps: tuple[int, ...]
    time: float
    extra_time: float
    peak_bytes: float


def checkmate(nodes: Sequence[Node], budget_bytes: float) -> GraphPlan:
    """The plan of least time whose results, all that are needed later or at once, stay within a budget.

    Minimize sum R(t, i) time_i. In stage t node t is computed for the first time: R(t, t) = 1. R(t, j) <= R(t, i) +
    S(t, i) for each i that j needs; S(t, i) <= R(t - 1, i) + S(t - 1, i); memory U(t, k) <= budget, with a result let
    go as soon as no node of the stage needs it and the next stage does not keep it.
    Source: Jain et al. 2020, arXiv 1910.02653, section 4, equations 1 to 9.
    Raises InvalidInput for a graph that is not in order or too large, and a budget below the least, which it names.

    >>> forward, back = Node(1, 1), Node(2, 1, (1, 0))
    >>> checkmate([forward, Node(1, 1, (0,)), back], 3).time
    4.0
    """
    _check(nodes)
    least = least_graph_bytes(nodes)
    if budget_bytes < least:
        raise InvalidInput.of(
            "budget_bytes",
            f"must be at least {decimal_bytes_text(round(least))}, the least that any plan of this graph needs",
            value=budget_bytes,
            remedy="give more memory",
        )
    found = _Program(nodes).least_time(budget_bytes)
    time = sum(nodes[node].time for node in found)
    extra = time - sum(node.time for node in nodes)
    return GraphPlan(found, float(time), float(extra), held(nodes, found))


def least_graph_bytes(nodes: Sequence[Node]) -> float:
    """The least budget within which there is a plan: the same program, that minimizes the max of U(t, k).

    Source: as `checkmate`.

    >>> least_graph_bytes([Node(1, 2), Node(1, 3, (0,)), Node(1, 1, (1,))])
    5
    """
    _check(nodes)
    return held(nodes, _Program(nodes).least_memory())


def held(nodes: Sequence[Node], steps: Sequence[int]) -> float:
    """Max of bytes while nodes are computed in some order: each result is there from its step to its last use.

    A result that is computed again later is let go after its last use before that.
    Source: definition.

    >>> held([Node(1, 2), Node(1, 3, (0,)), Node(1, 1, (1,))], [0, 1, 2])
    5
    """
    most = 0.0
    for now in range(len(steps)):
        live = {node for node in set(steps[:now]) if _is_needed(nodes, steps, node, now)}
        most = max(most, sum(nodes[node].num_bytes for node in live | {steps[now]}))
    return most


def _is_needed(nodes: Sequence[Node], steps: Sequence[int], node: int, now: int) -> bool:
    """Whether a step from now on needs a result before it is computed again."""
    for step in steps[now:]:
        if node in nodes[step].needs:
            return True
        if step == node:
            return False
    return False


class _Program:
    """Columns of R, S, FREE and U, and one for the max of U; rows of the constraints between them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes, n = nodes, len(nodes)
        self._scale = max(*(node.num_bytes for node in nodes), 1e-30)
        self._sizes = [node.num_bytes / self._scale for node in nodes]
        self._users = [[k for k, node in enumerate(nodes) if i in node.needs] for i in range(n)]
        columns = count()
        self._computed = {(t, i): next(columns) for t in range(n) for i in range(t + 1)}
        self._stored = {(t, i): next(columns) for t in range(n) for i in range(t)}
        self._freed = {(t, i, k): next(columns) for t in range(n) for k in range(t + 1) for i in (*nodes[k].needs, k)}
        self._num_binary = next(columns)
        self._used = {(t, k): number for number, (t, k) in enumerate(self._computed, self._num_binary)}
        self._max = self._num_binary + len(self._used)
        self._rows: list[tuple[dict[int, float], float]] = []
        for row in (*self._needs(), *self._memory(), *self._hazards()):
            self._rows.append(row)

    def least_time(self, budget_bytes: float) -> tuple[int, ...]:
        cost = np.zeros(self._max + 1)
        for (_, i), column in self._computed.items():
            cost[column] = self._nodes[i].time
        return self._steps(cost, budget_bytes / self._scale * (1 + 1e-9))

    def least_memory(self) -> tuple[int, ...]:
        cost = np.zeros(self._max + 1)
        cost[self._max] = 1.0
        return self._steps(cost, np.inf)

    def _steps(self, cost: NDArray[np.float64], budget: float) -> tuple[int, ...]:
        """The nodes of each stage, those that are computed; callers know that there is a plan."""
        lower, upper = np.zeros(len(cost)), np.ones(len(cost))
        upper[self._num_binary :] = budget
        for t in range(len(self._nodes)):
            lower[self._computed[t, t]] = 1.0
        integral = (np.arange(len(cost)) < self._num_binary).astype(np.int64)
        solved = milp(cost, integrality=integral, bounds=Bounds(lower, upper), constraints=self._constraints())
        chosen = np.asarray(solved.x)
        return tuple(i for (_, i), column in self._computed.items() if chosen[column] > 0.5)

    def _constraints(self) -> LinearConstraint:
        """Every row at most its bound."""
        entries = [
            (number, column, value) for number, (row, _) in enumerate(self._rows) for column, value in row.items()
        ]
        rows, columns, values = zip(*entries, strict=True)
        matrix = csr_array((values, (rows, columns)), shape=(len(self._rows), self._max + 1))
        return LinearConstraint(matrix, -np.inf, np.array([bound for _, bound in self._rows]))

    def _needs(self) -> Iterator[tuple[dict[int, float], float]]:
        """What is computed has what it needs; what is stored was there before."""
        for (t, j), column in self._computed.items():
            for i in self._nodes[j].needs:
                yield {column: 1.0} | self._there(t, i), 0.0
        for (t, i), column in self._stored.items():
            yield {column: 1.0} | self._there(t - 1, i), 0.0

    def _there(self, t: int, i: int) -> dict[int, float]:
        """Less one for each way in which a result may be there in a stage."""
        return {places[t, i]: -1.0 for places in (self._computed, self._stored) if (t, i) in places}

    def _memory(self) -> Iterator[tuple[dict[int, float], float]]:
        """U(t, k), at least what is there when k is computed, and at most the max."""
        for (t, k), used in self._used.items():
            size = self._sizes[k]
            if k == 0:
                before = {self._stored[t, i]: self._sizes[i] for i in range(t)}
            else:
                before = {self._used[t, k - 1]: 1.0}
                for i in (*self._nodes[k - 1].needs, k - 1):
                    before[self._freed[t, i, k - 1]] = -self._sizes[i]
            yield before | {self._computed[t, k]: size, used: -1.0}, 0.0
            yield {used: 1.0, self._max: -1.0}, 0.0

    def _hazards(self) -> Iterator[tuple[dict[int, float], float]]:
        """Result i goes after k where k is computed, the next stage does not store i and no later node needs it."""
        for (t, i, k), freed in self._freed.items():
            yield {freed: 1.0, self._computed[t, k]: -1.0}, 0.0
            later = [self._computed[t, user] for user in self._users[i] if k < user <= t]
            stored = [self._stored[t + 1, i]] if (t + 1, i) in self._stored else []
            for column in (*later, *stored):
                yield {freed: 1.0, column: 1.0}, 1.0


def _check(nodes: Sequence[Node]) -> None:
    if not 0 < len(nodes) <= MAX_NODES:
        raise InvalidInput.of(
            "graph", f"must have 1 to {MAX_NODES} nodes", value=len(nodes), remedy="take several operations as one"
        )
    for number, node in enumerate(nodes):
        if any(not 0 <= need < number for need in node.needs):
            raise InvalidInput.of(
                "graph", "must have every node behind those that it needs", value=number, remedy="sort its nodes"
            )
