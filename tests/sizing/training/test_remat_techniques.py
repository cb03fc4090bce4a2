"""Techniques of rematerialization side by side, with one and with several microbatches in flight."""

import itertools

import pytest

from sizing.training.rematerialization.chain import ChainLayer, LayerChain, RecomputationPlan
from sizing.training.rematerialization.techniques import TECHNIQUES, Room, one_by_one, resident_bytes

NAMED = {technique.name: technique for technique in TECHNIQUES}
EQUAL = LayerChain.of_equal(8, ChainLayer(1, 2, 1, 10))
UNLIKE = LayerChain(
    (ChainLayer(1, 2, 1, 4), ChainLayer(3, 6, 1, 12), ChainLayer(1, 2, 1, 9), ChainLayer(2, 4, 1, 2)), 1
)


def plan(name: str, chain: LayerChain, num_bytes: float, in_flight: float = 1) -> RecomputationPlan:
    return NAMED[name].plan(chain, Room(num_bytes, in_flight))


@pytest.mark.parametrize("in_flight", [1, 2, 5])
@pytest.mark.parametrize("chain", [EQUAL, UNLIKE], ids=["equal", "unlike"])
def test_the_fewest_layers_are_no_more_than_any_choice_needs(chain: LayerChain, in_flight: int) -> None:
    layers = range(chain.num_layers)
    choices = [set(each) for number in range(len(layers) + 1) for each in itertools.combinations(layers, number)]
    plans = [one_by_one(chain, choice) for choice in choices]
    for num_bytes in range(10, 100 * in_flight, 7 * in_flight):
        room = Room(num_bytes, in_flight)
        fitting = [each for each in plans if room.fits(chain, each)]
        found = plan("fewest layers", chain, num_bytes, in_flight)
        if room.fits(chain, found) and chain is EQUAL:
            assert found.forward_counts.count(2) == min(each.forward_counts.count(2) for each in fitting)
        assert room.fits(chain, found) or not room.fits(chain, one_by_one(chain, layers))


@pytest.mark.parametrize("in_flight", [1, 3])
def test_rotor_takes_no_longer_than_one_by_one_where_both_fit(in_flight: int) -> None:
    for num_bytes in range(30, 90 * in_flight, 29 * in_flight):
        room = Room(num_bytes, in_flight)
        fewest, rotor = (plan(name, EQUAL, num_bytes, in_flight) for name in ("fewest layers", "rotor"))
        if room.fits(EQUAL, fewest):
            assert room.fits(EQUAL, rotor)
            assert rotor.time <= fewest.time


@pytest.mark.parametrize("in_flight", [1, 3, 12])
@pytest.mark.parametrize(
    "chain", [EQUAL, UNLIKE, LayerChain.of_equal(60, ChainLayer(1, 2, 1, 3))], ids=["equal", "unlike", "long"]
)
def test_where_nothing_fits_rotor_is_the_smallest(chain: LayerChain, in_flight: int) -> None:
    room = Room(1, in_flight)
    needed = {name: room.needed(chain, plan(name, chain, 1, in_flight)) for name in NAMED}
    assert needed["rotor"] == min(needed.values())


def test_microbatches_in_flight_leave_what_they_keep_and_one_goes_back() -> None:
    again = one_by_one(EQUAL, [0, 1, 2])
    assert resident_bytes(EQUAL, again.steps) == 8 * 1 + 5 * 10
    one, four = Room(1, 1).needed(EQUAL, again), Room(1, 4).needed(EQUAL, again)
    assert one == again.peak_bytes == 8 + 5 * 10 + 2, "the last output and its gradient pass through"
    assert four == one + 3 * (8 + 5 * 10)


def test_more_computed_again_needs_at_most_one_unit_s_input_more() -> None:
    for in_flight in (1, 4):
        needed = [Room(1, in_flight).needed(EQUAL, one_by_one(EQUAL, range(number))) for number in range(9)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(needed))
        assert needed[0] > needed[-1]


def test_unlike_layers_that_save_most_for_their_time_come_first() -> None:
    found = plan("fewest layers", UNLIKE, 30)
    assert found.forward_counts == (1, 1, 2, 1)
