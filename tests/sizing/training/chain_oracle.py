"""The least time of a chain within a memory, by search over everything that could be done: for small chains alone."""

from __future__ import annotations

import heapq
import itertools

from sizing.training.rematerialization.chain import LayerChain

State = tuple[int, frozenset[int], frozenset[int], int]
"""Layers not yet back, inputs kept, layers of which all is kept, and where the last step left a value."""


def least_time(chain: LayerChain, budget: float, *, may_drop: bool) -> float | None:
    """By Dijkstra's algorithm over states; `may_drop`: what is kept may be let go before it is used."""
    begin: State = (chain.num_layers, frozenset({0}), frozenset(), 0)
    best = {begin: 0.0}
    numbers = itertools.count()
    queue = [(0.0, next(numbers), begin)]
    while queue:
        time, _, state = heapq.heappop(queue)
        if time > best[state]:
            continue
        if state[0] == 0:
            return time
        for extra, after in _next(chain, budget, state, may_drop=may_drop):
            if time + extra < best.get(after, float("inf")):
                best[after] = time + extra
                heapq.heappush(queue, (time + extra, next(numbers), after))
    return None


def _next(chain: LayerChain, budget: float, state: State, *, may_drop: bool) -> list[tuple[float, State]]:
    left, inputs, kept, at = state
    x = chain.value_bytes
    found: list[tuple[float, State]] = []

    def held(inputs: frozenset[int], kept: frozenset[int], at: int) -> float:
        return sum(x[i] for i in inputs | {at}) + sum(chain.layers[i].kept_bytes for i in kept) + x[left]

    for layer in (inputs | {at}) & frozenset(range(left)):
        for now, also in ((inputs, kept), (inputs | {layer}, kept), (inputs | {layer}, kept | {layer})):
            if held(now, also, layer) + x[layer + 1] <= budget:
                found.append((chain.layers[layer].forward_time, (left, now, also, layer + 1)))
    last = left - 1
    if last in kept and held(inputs, kept, last) + x[last] <= budget:
        found.append((chain.layers[last].backward_time, (last, inputs - {last}, kept - {last}, 0)))
    if may_drop:
        found += [(0.0, (left, inputs - {i}, kept, at)) for i in inputs if i and i not in kept]
        found += [(0.0, (left, inputs, kept - {i}, at)) for i in kept]
    return found
