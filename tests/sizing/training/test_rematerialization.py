"""Plans of rematerialization: against a search over all plans, published counts, and torch."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.training.rematerialization.chain import (
    ChainLayer,
    ChainStep,
    LayerChain,
    RecomputationPlan,
    carry_out,
    cut_into_segments,
    keep_all,
    sqrt_plan,
)
from sizing.training.rematerialization.dynamic_programs import Rotor, num_advances, revolve, rotor, smallest
from tests.examples import examples
from tests.sizing.training.chain_oracle import least_time

LAYER = ChainLayer(forward_time=1, backward_time=2, input_bytes=1, kept_bytes=3)


def some_chain(seed: int, *, max_layers: int = 5) -> LayerChain:
    """Unlike layers of small whole sizes, so that slots of one byte are exact."""
    dice = random.Random(seed)  # noqa: S311 - a fixed seed for tests
    layers = [
        ChainLayer(dice.randint(1, 5), dice.randint(1, 9), dice.randint(1, 4), dice.randint(0, 6))
        for _ in range(dice.randint(1, max_layers))
    ]
    return LayerChain(tuple(layers), dice.randint(1, 4))


def all_kept_peak(chain: LayerChain) -> int:
    return int(carry_out(chain, keep_all(range(chain.num_layers))).peak_bytes)


def first_again(chain: LayerChain, again: int) -> RecomputationPlan:
    """The first layers computed again one by one, the rest kept."""
    first, rest = range(again), range(again, chain.num_layers)
    steps = [ChainStep(layer, "input") for layer in first] + keep_all(rest)
    return carry_out(chain, [*steps, *(step for layer in reversed(first) for step in keep_all([layer]))])


@pytest.mark.parametrize(
    "seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(5, 40))]
)
def test_rotor_takes_the_least_time_that_any_plan_can(seed: int) -> None:
    """Of plans that let nothing go before its time; letting go can help a little, as the paper says."""
    chain = some_chain(seed)
    for budget in range(1, all_kept_peak(chain) + 2):
        found = least_time(chain, budget, may_drop=False)
        try:
            plan = rotor(chain, budget, num_slots=budget)
        except InvalidInput:
            assert found is None, (chain, budget)
            continue
        assert found == plan.time, (chain, budget)
        assert plan.peak_bytes <= budget


@pytest.mark.exhaustive
def test_to_let_go_of_what_is_kept_helps_one_small_chain_of_two_hundred() -> None:
    shorter = []
    for chain in map(some_chain, range(40)):
        for budget in range(1, all_kept_peak(chain) + 2, 2):
            kept, free = (least_time(chain, budget, may_drop=may_drop) for may_drop in (False, True))
            assert (kept is None) == (free is None)
            if kept is not None and free is not None:
                shorter.append(1 - free / kept)
    assert len(shorter) == 192
    assert sorted(shorter)[-2:] == [0, pytest.approx(0.045, abs=1e-3)]


@given(st.integers(1, 24), st.integers(1, 12), st.integers(0, 12))
@examples(4)
def test_rotor_stays_within_its_budget_and_more_memory_never_takes_longer(n: int, kept: int, spare: int) -> None:
    chain = LayerChain.of_equal(n, ChainLayer(1, 2, 1, kept))
    least = smallest(chain).peak_bytes
    times = []
    for budget in (least, least + spare, all_kept_peak(chain)):
        plan = rotor(chain, budget)
        assert plan.peak_bytes <= budget * (1 + 1e-9)
        times.append(plan.time)
    assert times == sorted(times, reverse=True)
    assert times[-1] == chain.time, "where all fits, nothing is computed again"


def test_a_budget_below_the_least_is_told_the_least() -> None:
    chain = LayerChain.of_equal(16, ChainLayer(1, 2, 1e9, 10e9))
    with pytest.raises(InvalidInput, match="budget_bytes must be at least") as caught:
        rotor(chain, 5e9)
    least = float(str(caught.value).split("at least ")[1].split(" GB")[0]) * 1e9
    assert least == smallest(chain).peak_bytes
    assert rotor(chain, least).peak_bytes <= least
    with pytest.raises(InvalidInput):
        rotor(chain, least * 0.99)
    with pytest.raises(InvalidInput, match="budget_bytes must be above 0, got 0"):
        rotor(chain, 0)
    with pytest.raises(InvalidInput, match="chain must have at most 256 layers, got 300"):
        rotor(LayerChain.of_equal(300, LAYER), 1e3)


def test_with_segments_of_one_layer_each_is_kept_or_goes_forward_once_more() -> None:
    """As frameworks recompute; the first layers are best, as none beside them is kept when they are computed again."""
    chain = LayerChain.of_equal(8, ChainLayer(1, 2, 1, 10))
    for budget in range(30, 95, 8):
        plan = rotor(chain, budget, num_slots=budget, max_segment=1)
        again = next(again for again in range(9) if first_again(chain, again).peak_bytes <= budget)
        assert plan.time == chain.time + again
        assert set(plan.forward_counts) <= {1, 2}
        assert rotor(chain, budget, num_slots=budget).time <= plan.time


def test_one_layer_more_computed_again_needs_at_most_one_layer_s_input_more_than_it_saves() -> None:
    """The law: a layer that is computed again leaves its input, and nothing else of it is held twice."""
    chain = LayerChain.of_equal(12, ChainLayer(1, 2, 1, 10))
    peaks = [first_again(chain, again).peak_bytes for again in range(13)]
    assert all(after <= before + 1 for before, after in pairwise(peaks))
    assert peaks[0] - peaks[11] == 11 * 10


@pytest.mark.parametrize("n", [1, 2, 9, 16, 50, 100])
def test_the_root_of_the_layers_takes_one_forward_pass_more_at_most(n: int) -> None:
    plan = sqrt_plan(LayerChain.of_equal(n, LAYER))
    assert plan.extra_time <= n
    assert set(plan.forward_counts) <= {1, 2}
    root = int(n**0.5)
    longest = -(-n // root)
    assert plan.peak_bytes <= root * 1 + longest * 4 + 2


def test_segments_meet_both_ends() -> None:
    chain = LayerChain.of_equal(10, LAYER)
    assert cut_into_segments(chain, 1).extra_time == 0
    assert cut_into_segments(chain, 10).forward_counts == (2,) * 9 + (1,)


CHECKPOINT_SCHEDULES = {
    (1, 1): 1, (2, 1): 3, (5, 1): 15, (5, 2): 11, (5, 3): 10, (5, 5): 9, (10, 2): 30, (10, 3): 25, (10, 5): 23,
    (23, 3): 80, (23, 5): 64, (50, 3): 230, (50, 7): 155, (100, 4): 474, (100, 10): 322,
}  # fmt: skip
"""Forward steps of the package checkpoint_schedules 1.0.4, Revolve(max_n, snaps_in_ram): layers, inputs; recorded."""


@pytest.mark.parametrize(("layers", "inputs"), CHECKPOINT_SCHEDULES)
def test_revolve_takes_as_many_forward_steps_as_the_published_program(layers: int, inputs: int) -> None:
    plan = revolve(LayerChain.of_equal(layers, LAYER), inputs)
    assert sum(plan.forward_counts) == CHECKPOINT_SCHEDULES[layers, inputs]
    assert num_advances(layers, inputs) + layers == sum(plan.forward_counts)


@pytest.mark.parametrize("layers", range(1, 8))
def test_no_way_to_share_inputs_takes_fewer_advances_than_revolve(layers: int) -> None:
    """By the recursion over the place of the next kept input, without binomial numbers."""

    def least(length: int, inputs: int) -> int:
        if length == 1:
            return 0
        if inputs == 1:
            return length * (length - 1) // 2
        return min(cut + least(length - cut, inputs - 1) + least(cut, inputs) for cut in range(1, length))

    for inputs in range(1, layers + 1):
        assert num_advances(layers, inputs) == least(layers, inputs)


@pytest.mark.parametrize("seed", range(12))
def test_the_smallest_plan_is_the_least_that_any_plan_needs(seed: int) -> None:
    chain = some_chain(seed, max_layers=4)
    least = smallest(chain).peak_bytes
    assert least_time(chain, least, may_drop=False) is not None
    assert least_time(chain, least - 1, may_drop=False) is None


def test_plans_that_cannot_be_are_refused() -> None:
    chain = LayerChain.of_equal(2, LAYER)
    with pytest.raises(ValueError, match="layer 1 has no input"):
        carry_out(chain, [ChainStep(1, "all")])
    with pytest.raises(ValueError, match="layer 0 cannot go back"):
        carry_out(chain, [ChainStep(0, "all"), ChainStep(0, None)])
    with pytest.raises(ValueError, match="layers up to 1 have not gone back"):
        carry_out(chain, [ChainStep(0, "all"), ChainStep(1, "all")])
    with pytest.raises(InvalidInput, match="num_inputs must be at least 1"):
        revolve(chain, 0)


@pytest.mark.parametrize("seed", range(4))
def test_one_program_has_the_plans_of_all_smaller_budgets(seed: int) -> None:
    """A budget that is whole slots of the largest has the plan that it has alone."""
    chain = some_chain(seed)
    most = all_kept_peak(chain)
    program = Rotor(chain, most, num_slots=most)
    for budget in range(int(smallest(chain).peak_bytes), most + 1):
        assert program.plan(budget).time == rotor(chain, budget, num_slots=budget).time
