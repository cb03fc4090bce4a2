from __future__ import annotations

import itertools

import pytest

from io_bench import interruption
from io_bench.measure import repeating as caps_module
from io_bench.measure.repeating import Caps, Repeat
from io_bench.measure.sample import Sample
from io_bench.measure.stopwatch import OperationSample, RankSample
from io_bench.ranks.process_group import ProcessGroup


def sample(seconds: float, num_bytes: int = 100) -> Sample:
    operation = OperationSample((RankSample(seconds, num_bytes=num_bytes),))
    return Sample(operation, operation, moved_bytes=2 * num_bytes, elapsed_seconds=3 * seconds)


class Clock:
    """Time as the test has it; sleeping passes it."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(caps_module, "time", clock)
    monkeypatch.setattr(interruption, "sleep", clock.sleep)
    return clock


def test_a_repetition_that_would_end_too_late_is_not_begun(clock: Clock) -> None:
    caps = Caps(max_seconds=10.0, started=clock.now)
    clock.now = 4.0  # a repetition takes 6 s, of which 4 s are under the clock
    assert caps.reached_by_one_more(sample(2.0)) == ""
    clock.now = 4.1
    assert caps.reached_by_one_more(sample(2.0)) == "--max-seconds"


def test_bytes_written_and_read_count(clock: Clock) -> None:
    caps = Caps(max_bytes=600, started=clock.now)
    caps.spend(sample(1.0).moved_bytes)
    caps.spend(sample(1.0).moved_bytes)
    assert caps.reached_by_one_more(sample(1.0, 100)) == ""
    assert caps.reached_by_one_more(sample(1.0, 101)) == "--max-bytes"


def test_ranks_pause_until_the_mean_is_within_the_cap(clock: Clock, group: ProcessGroup) -> None:
    caps = Caps(max_bytes_per_second=100.0, started=clock.now)
    caps.spend(350)
    clock.now = 1.0
    caps.pause(group)
    assert clock.now == pytest.approx(3.5)
    assert max(clock.pauses) <= 1.0
    caps.pause(group)
    assert clock.now == pytest.approx(3.5)


def test_without_caps_nothing_is_reached(clock: Clock, group: ProcessGroup) -> None:
    caps = Caps(started=clock.now)
    caps.spend(10**18)
    caps.pause(group)
    assert caps.reached_by_one_more(sample(1e9)) == caps.reached() == ""
    assert clock.pauses == []


def test_repetitions_go_on_until_both_rates_have_settled() -> None:
    steady, wild = [sample(1.0)] * 5, [sample(t) for t in itertools.islice(itertools.cycle([1.0, 2.0]), 8)]
    assert Repeat(5, until_settled=True).is_enough(steady)
    assert not Repeat(6, until_settled=True).is_enough(steady)
    assert not Repeat(5, until_settled=True).is_enough(wild)
    assert Repeat(5, until_settled=False).is_enough(wild)
    assert (Repeat(5, until_settled=False).max_repetitions, Repeat(99, until_settled=True).max_repetitions) == (5, 99)
