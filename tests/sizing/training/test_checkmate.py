"""Checkmate's integer program, against a search over all orders of small graphs."""

import heapq
import random

import pytest

from sizing.errors import InvalidInput
from sizing.training.rematerialization.checkmate import Node, checkmate, held, least_graph_bytes


def some_graph(seed: int) -> list[Node]:
    """A chain with some skips forward, then its gradients back, each of which needs what its forward node needed."""
    dice = random.Random(seed)  # noqa: S311 - a fixed seed for tests
    n = dice.randint(2, 4)
    nodes = [Node(dice.randint(1, 5), dice.randint(1, 4))]
    for number in range(1, n):
        skip = (0,) if number > 1 and dice.random() < 0.5 else ()
        nodes.append(Node(dice.randint(1, 5), dice.randint(1, 4), (*skip, number - 1)))
    for number in reversed(range(n)):
        needs = {len(nodes) - 1, number, *nodes[number].needs}
        nodes.append(Node(dice.randint(1, 5), dice.randint(1, 4), tuple(sorted(needs))))
    return nodes


def least_time(nodes: list[Node], budget: float) -> float | None:
    """By Dijkstra's algorithm over how many nodes were computed for the first time, and what is live."""
    best: dict[tuple[int, frozenset[int]], float] = {(0, frozenset()): 0.0}
    queue: list[tuple[float, int, tuple[int, ...]]] = [(0.0, 0, ())]
    while queue:
        time, done, listed = heapq.heappop(queue)
        if done == len(nodes):
            return time
        for cost, reached, left in (*dropped(time, done, listed), *computed(nodes, budget, time, done, listed)):
            if cost < best.get((reached, left), float("inf")):
                best[reached, left] = cost
                heapq.heappush(queue, (cost, reached, tuple(sorted(left))))
    return None


Found = list[tuple[float, int, frozenset[int]]]


def dropped(time: float, done: int, live: tuple[int, ...]) -> Found:
    return [(time, done, frozenset(live) - {i}) for i in live]


def computed(nodes: list[Node], budget: float, time: float, done: int, live: tuple[int, ...]) -> Found:
    found: Found = []
    for number in set(range(min(done + 1, len(nodes)))) - set(live):
        more = frozenset(live) | {number}
        if set(nodes[number].needs) <= set(live) and sum(nodes[i].num_bytes for i in more) <= budget:
            found.append((time + nodes[number].time, max(done, number + 1), more))
    return found


@pytest.mark.parametrize("seed", range(10))
def test_no_order_takes_less_time_within_the_budget(seed: int) -> None:
    nodes = some_graph(seed)
    least, most = int(least_graph_bytes(nodes)), int(held(nodes, range(len(nodes))))
    assert least_time(nodes, least) is not None
    assert least_time(nodes, least - 1) is None
    for budget in sorted({least, (least + most) // 2, most}):
        plan = checkmate(nodes, budget)
        assert plan.time == least_time(nodes, budget)
        assert plan.peak_bytes <= budget
    assert checkmate(nodes, most).extra_time == 0


def test_steps_have_what_they_need() -> None:
    nodes = some_graph(3)
    plan = checkmate(nodes, least_graph_bytes(nodes))
    for place, step in enumerate(plan.steps):
        assert set(nodes[step].needs) <= set(plan.steps[:place])
    assert set(plan.steps) == set(range(len(nodes)))


def test_graphs_and_budgets_that_cannot_be_are_refused() -> None:
    nodes = [Node(1, 2e9), Node(1, 3e9, (0,))]
    with pytest.raises(InvalidInput, match=r"budget_bytes must be at least 5\.000 GB, the least that any plan"):
        checkmate(nodes, 4e9)
    with pytest.raises(InvalidInput, match="graph must have every node behind those that it needs, got 0"):
        checkmate([Node(1, 1, (1,)), Node(1, 1)], 9)
    with pytest.raises(InvalidInput, match="graph must have 1 to 16 nodes, got 17"):
        checkmate([Node(1, 1)] * 17, 9)
