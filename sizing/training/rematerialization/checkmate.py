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
    """Operation of a graph: its time, the bytes of its result, and the numbers of the nodes whose results it needs."""

    time: float
    num_bytes: float
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """Order in which nodes are computed, some more than once, with its time and its max of bytes held."""

    steps: tuple[int, ...]
    time: float
    extra_time: float
    peak_bytes: float


def checkmate(nodes: Sequence[Node], budget_bytes: float) -> GraphPlan:
    """Find the plan of least time whose results, kept until their last use, stay within a budget.

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
    steps = _IntegerProgram(nodes).minimize_time(budget_bytes)
    time = sum(nodes[node].time for node in steps)
    extra = time - sum(node.time for node in nodes)
    return GraphPlan(steps, float(time), float(extra), held(nodes, steps))


def least_graph_bytes(nodes: Sequence[Node]) -> float:
    """Return the least budget of any plan: the same program with the max of U(t, k) as its objective.

    Source: as `checkmate`.

    >>> least_graph_bytes([Node(1, 2), Node(1, 3, (0,)), Node(1, 1, (1,))])
    5
    """
    _check(nodes)
    return held(nodes, _IntegerProgram(nodes).minimize_memory())


def held(nodes: Sequence[Node], steps: Sequence[int]) -> float:
    """Return the max bytes held while nodes are computed in this order: each result lives until its last use.

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
    """Tell whether a step from now on needs a result before it is computed again."""
    for step in steps[now:]:
        if node in nodes[step].needs:
            return True
        if step == node:
            return False
    return False


_Row = tuple[dict[int, float], float]
"""Coefficients by column, and the bound of their sum."""


class _IntegerProgram:
    """Program with columns for R, S, FREE, U and the max of U, and rows for the constraints between them."""

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
        self._rows = [*self._needs(), *self._memory(), *self._hazards()]

    def minimize_time(self, budget_bytes: float) -> tuple[int, ...]:
        cost = np.zeros(self._max + 1)
        for (_, i), column in self._computed.items():
            cost[column] = self._nodes[i].time
        return self._solve(cost, budget_bytes / self._scale * (1 + 1e-9))

    def minimize_memory(self) -> tuple[int, ...]:
        cost = np.zeros(self._max + 1)
        cost[self._max] = 1.0
        return self._solve(cost, np.inf)

    def _solve(self, cost: NDArray[np.float64], budget: float) -> tuple[int, ...]:
        """Solve the program and list the nodes computed in each stage. Callers ensure that there is a plan.

        Each row is at most its bound.
        """
        entries = [
            (number, column, value) for number, (row, _) in enumerate(self._rows) for column, value in row.items()
        ]
        rows, columns, values = zip(*entries, strict=True)
        matrix = csr_array((values, (rows, columns)), shape=(len(self._rows), len(cost)))
        constraints = LinearConstraint(matrix, -np.inf, np.array([bound for _, bound in self._rows]))
        lower, upper = np.zeros(len(cost)), np.ones(len(cost))
        upper[self._num_binary :] = budget
        for t in range(len(self._nodes)):
            lower[self._computed[t, t]] = 1.0
        integral = (np.arange(len(cost)) < self._num_binary).astype(np.int64)
        solution = milp(cost, integrality=integral, bounds=Bounds(lower, upper), constraints=constraints)
        chosen = np.asarray(solution.x)
        return tuple(i for (_, i), column in self._computed.items() if chosen[column] > 0.5)

    def _needs(self) -> Iterator[_Row]:
        """Yield the rows by which a computed node has its inputs, and a stored result was there one stage before."""
        for (t, j), column in self._computed.items():
            for i in self._nodes[j].needs:
                yield {column: 1.0} | self._there(t, i), 0.0
        for (t, i), column in self._stored.items():
            yield {column: 1.0} | self._there(t - 1, i), 0.0

    def _there(self, t: int, i: int) -> dict[int, float]:
        """Return -1 for each way in which a result can be available in a stage: computed or stored."""
        return {places[t, i]: -1.0 for places in (self._computed, self._stored) if (t, i) in places}

    def _memory(self) -> Iterator[_Row]:
        """Yield the rows by which U(t, k) is at least the memory when k is computed, and at most the max."""
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

    def _hazards(self) -> Iterator[_Row]:
        """Yield the rows by which i is freed after k only if k is computed and no later node or stage needs i."""
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
