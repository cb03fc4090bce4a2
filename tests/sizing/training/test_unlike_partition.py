"""Layers dealt to unlike devices: the dynamic program against every partition of small pipelines, and its laws."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from sizing.training.unlike_workers import Combine, CostOf, Costs, StagePlacement, balanced_partition, best_partition

NUM_CASES = 300


class Case:
    """A random chain on random devices: times and memory of layers, room, transfers between unlike kinds."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.num_layers = int(random.integers(2, 7))
        num_kinds = int(random.integers(1, 4))
        counts = random.multinomial(
            int(random.integers(1, min(self.num_layers, 4) + 1)), np.full(num_kinds, 1 / num_kinds)
        )
        self.counts = tuple(int(count) for count in counts)
        self.times = random.integers(1, 20, self.num_layers).astype(float)
        self.speeds = random.choice([0.5, 1.0, 3.0], num_kinds)
        self.needs = random.integers(1, 10, self.num_layers)
        self.rooms = random.integers(6, 40, num_kinds)
        self.transfers = random.integers(0, 9, (num_kinds, num_kinds)).astype(float)

    def cost(self, stage: int, kind: int, before: int | None, first: int, past: int) -> float:
        """Of one stage; the earlier it is, the more microbatches it holds."""
        held = sum(self.counts) - stage
        if past <= first or held * self.needs[first:past].sum() > self.rooms[kind]:
            return float("inf")
        moved = 0.0 if before in (None, kind) else self.transfers[before, kind]
        return float(self.times[first:past].sum() / self.speeds[kind] + moved)

    def costs(self, stage: int, kind: int, before: int | None) -> Costs:
        edges = range(self.num_layers + 1)
        return np.array([[self.cost(stage, kind, before, first, past) for past in edges] for first in edges])

    def partitions(self) -> Iterator[tuple[StagePlacement, ...]]:
        """Every order of the devices, with every way to cut the layers."""
        kinds = [kind for kind, count in enumerate(self.counts) for _ in range(count)]
        cuts = [*itertools.combinations(range(1, self.num_layers), len(kinds) - 1)]
        for order in set(itertools.permutations(kinds)):
            for cut in cuts:
                edges = itertools.pairwise([0, *cut, self.num_layers])
                yield tuple(StagePlacement(kind, *edge) for kind, edge in zip(order, edges, strict=True))

    def costs_of(self, placed: tuple[StagePlacement, ...]) -> list[float]:
        before = [None, *(stage.kind for stage in placed)]
        return [
            self.cost(number, each.kind, before[number], each.first, each.past) for number, each in enumerate(placed)
        ]


@pytest.mark.parametrize(("combine", "together"), [(np.maximum, max), (np.add, sum)])
def test_the_dynamic_program_finds_what_a_search_over_all_partitions_finds(combine: Combine, together: object) -> None:
    num_possible = 0
    for seed in range(NUM_CASES):
        case = Case(seed)
        assert callable(together)
        least = min(together(case.costs_of(placed)) for placed in case.partitions())
        found = best_partition(case.costs, case.counts, num_layers=case.num_layers, combine=combine)
        if found is None:
            assert least == float("inf")
            continue
        num_possible += 1
        assert found[0] == pytest.approx(least)
        assert together(case.costs_of(found[1])) == pytest.approx(least), "its stages cost what it says"
    assert NUM_CASES / 4 < num_possible < NUM_CASES, "some fit and some do not"


def test_of_the_partitions_with_the_fastest_slowest_stage_the_one_with_the_least_work_is_taken() -> None:
    for seed in range(NUM_CASES // 2):
        case = Case(seed)
        found = balanced_partition(case.costs, case.counts, num_layers=case.num_layers)
        if found is not None:
            costs = [case.costs_of(placed) for placed in case.partitions()]
            least = min(sum(each) for each in costs if max(each) <= found[0])
            assert sum(case.costs_of(found[1])) == pytest.approx(least)


def _linear(speeds: list[float]) -> CostOf:
    layers = np.arange(13.0)
    count = layers - layers[:, None]
    count[count <= 0] = np.inf
    return lambda _, kind, __: count / speeds[kind]


def test_a_faster_device_in_place_of_a_slow_one_never_makes_the_slowest_stage_slower() -> None:
    slowest = [best_partition(_linear([1.0, 2.5]), (6 - fast, fast), num_layers=12) for fast in range(7)]
    costs = [found[0] for found in slowest if found is not None]
    assert len(costs) == 7
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


def test_equal_devices_get_equal_layers() -> None:
    found = balanced_partition(_linear([1.0]), (4,), num_layers=12)
    assert found is not None
    assert [stage.past - stage.first for stage in found[1]] == [3, 3, 3, 3]
