"""What the simulated file system moves, moment by moment, as a hand adds it up."""

from __future__ import annotations

from collections.abc import Generator

import pytest
import simpy

from sizing.questions.cluster.bandwidth_sharing import SharedBandwidth, Sharer
from sizing.questions.cluster.simulation import find_busiest_day
from sizing.units import SECONDS_PER_DAY


def test_nothing_moves_before_the_first_transfer_and_after_the_last() -> None:
    """100 B from second 10 and 60 B from second 15, of at most 10 B/s each, on a system of 12 B/s."""
    env = simpy.Environment()
    system = SharedBandwidth(env, bytes_per_second=12.0, sharers=[Sharer(10.0, 1.0)])

    def transfer(at: float, num_bytes: float) -> Generator[simpy.Event, None, None]:
        yield env.timeout(at)
        yield system.start(0, num_bytes).done

    env.process(transfer(10.0, 100.0))
    env.process(transfer(15.0, 60.0))
    env.run(until=100.0)
    rates = dict(zip(system.change_seconds, system.rates_after, strict=True))
    # Alone at 10 B/s until 15; 50 B are left. Then 6 B/s each until 15 + 50 / 6; 10 B of the second are left, at 10 B/s.
    first_ends = 15 + 50 / 6
    assert list(rates) == pytest.approx([0.0, 10.0, 15.0, first_ends, first_ends + 1.0])
    assert list(rates.values()) == pytest.approx([0.0, 10.0, 12.0, 10.0, 0.0])
    assert system.limited_seconds == pytest.approx(50 / 6)


def test_the_busiest_day_is_the_one_in_which_most_is_written_and_read_together() -> None:
    env = simpy.Environment()
    write, read = (SharedBandwidth(env, bytes_per_second=10.0, sharers=[Sharer(10.0, 1.0)]) for _ in range(2))

    def transfer(system: SharedBandwidth, day: int, num_bytes: float) -> Generator[simpy.Event, None, None]:
        yield env.timeout(day * SECONDS_PER_DAY)
        yield system.start(0, num_bytes).done

    env.process(transfer(write, 0, 2_000.0))
    env.process(transfer(write, 1, 1_500.0))
    env.process(transfer(read, 1, 1_500.0))
    env.run(until=3 * SECONDS_PER_DAY)
    day = find_busiest_day(write, read, horizon_seconds=3 * SECONDS_PER_DAY)
    assert [moment.at_seconds for moment in day] == [SECONDS_PER_DAY + 300 * place for place in range(288)]
    assert (day[0].write_bytes_per_second, day[0].read_bytes_per_second) == pytest.approx((5.0, 5.0))
    assert {moment.bytes_per_second("read") for moment in day[1:]} == {0.0}
