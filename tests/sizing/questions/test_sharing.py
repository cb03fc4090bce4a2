"""Bandwidth is shared fairly, none of it is lost, and the events of the simulation end when the formula says."""

import math
from itertools import pairwise

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from sizing.questions.cluster.bandwidth_sharing import SharedBandwidth, Sharer, fair_rates
from sizing.questions.cluster.restore_storms import Batch, finish_seconds

sharers = st.builds(Sharer, st.floats(0.1, 100.0) | st.just(math.inf), st.floats(0.1, 100.0))
batches = st.builds(Batch, sharers, st.integers(1, 5), st.floats(0.1, 1e3), st.floats(0.0, 50.0))


@given(st.floats(0.1, 1e3), st.lists(st.tuples(sharers, st.integers(0, 5)), min_size=1, max_size=6))
def test_everyone_gets_a_weighted_share_or_all_they_can_take(capacity: float, kinds: list[tuple[Sharer, int]]) -> None:
    rates = fair_rates(capacity, [kind for kind, _ in kinds], counts=[count for _, count in kinds])
    running = [(sharer, count, rate) for (sharer, count), rate in zip(kinds, rates, strict=True) if count]
    assert sum(count * rate for _, count, rate in running) <= capacity * (1 + 1e-9)
    levels = [rate / s.weight for s, _, rate in running if rate < s.max_bytes_per_second * (1 - 1e-9)]
    for one, other in pairwise(levels):
        assert one == pytest.approx(other)
    for sharer, _, rate in running:
        assert rate <= sharer.max_bytes_per_second * (1 + 1e-12)
        assert not levels or rate / sharer.weight <= levels[0] * (1 + 1e-9)
    if levels:
        assert sum(count * rate for _, count, rate in running) == pytest.approx(capacity)


def test_a_late_transfer_takes_its_share_from_then_on() -> None:
    alike = Sharer(math.inf, 1.0)
    assert finish_seconds(10.0, [Batch(alike, 2, 100.0), Batch(alike, 1, 30.0, 10.0)]) == pytest.approx([23.0, 19.0])


@given(st.floats(1.0, 100.0), st.lists(batches, min_size=1, max_size=5))
def test_events_end_transfers_when_the_formula_says(capacity: float, started: list[Batch]) -> None:
    env = simpy.Environment()
    storage = SharedBandwidth(env, bytes_per_second=capacity, sharers=[batch.sharer for batch in started])
    ends: list[list[float]] = [[] for _ in started]

    def run(kind: int, batch: Batch) -> simpy.events.ProcessGenerator:
        yield env.timeout(batch.start_seconds)
        yield storage.start(kind, batch.num_bytes).done
        ends[kind].append(env.now)

    for kind, batch in enumerate(started):
        for _ in range(batch.num_transfers):
            env.process(run(kind, batch))
    env.run()
    for kind, expected in enumerate(finish_seconds(capacity, started)):
        assert ends[kind] == pytest.approx([expected] * started[kind].num_transfers, rel=1e-6)


def test_a_cancelled_transfer_leaves_its_share_to_the_others() -> None:
    env = simpy.Environment()
    storage = SharedBandwidth(env, bytes_per_second=10.0, sharers=[Sharer(math.inf, 1.0)])
    first, second = storage.start(0, 100.0), storage.start(0, 100.0)
    ends: list[float] = []

    def wait() -> simpy.events.ProcessGenerator:
        yield env.timeout(4.0)
        storage.cancel(first)
        yield second.done
        ends.append(env.now)

    env.process(wait())
    env.run()
    assert ends == pytest.approx([12.0])
    assert first.met_another
    assert second.met_another
