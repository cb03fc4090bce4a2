"""Collisions and slow-downs by formula agree with what is known of queues and with brute force."""

import math

import numpy as np
import pytest

from sizing.questions.cluster.contention import (
    PeriodicWrites,
    Traffic,
    collision_fraction,
    compute_slowdown,
    concurrent_quantile,
    mean_concurrent,
)

MANY = 10**9


def wait_probability(num_servers: int, offered: float) -> float:
    """Erlang's C formula."""
    terms = [offered**k / math.factorial(k) for k in range(num_servers + 1)]
    waiting = terms[-1] * num_servers / (num_servers - offered)
    return waiting / (sum(terms[:-1]) + waiting)


@pytest.mark.parametrize("num_servers", [1, 2, 4, 10])
@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_equal_transfers_wait_as_in_a_queue_with_that_many_servers(num_servers: int, load: float) -> None:
    found = compute_slowdown([Traffic(MANY, load, 1 / num_servers)], bytes_per_second=1.0)
    assert found is not None
    waits = wait_probability(num_servers, num_servers * load)
    assert found.stretch[0] == pytest.approx(1 + waits / (num_servers * (1 - load)), rel=1e-6)
    assert found.limited_fraction == pytest.approx(load * waits, rel=1e-6)


def test_transfers_that_can_fill_the_file_system_wait_as_in_processor_sharing() -> None:
    groups = [Traffic(MANY, 10.0, math.inf), Traffic(MANY, 50.0, 200.0)]
    found = compute_slowdown(groups, bytes_per_second=100.0)
    assert found is not None
    assert found.stretch == pytest.approx([1 / (1 - 0.6)] * 2, rel=1e-6)


def test_a_job_never_waits_for_itself() -> None:
    found = compute_slowdown([Traffic(1, 0.9, 1.0)], bytes_per_second=1.0)
    assert found is not None
    assert found.stretch == pytest.approx([1.0])


def test_an_overloaded_file_system_has_no_steady_state() -> None:
    assert compute_slowdown([Traffic(2, 0.6, 1.0), Traffic(2, 0.4, 1.0)], bytes_per_second=1.0) is None


def test_collisions_are_those_of_independent_phases() -> None:
    groups = [PeriodicWrites(3, 20.0, 400.0), PeriodicWrites(2, 50.0, 1000.0)]
    generator = np.random.default_rng(7)
    own = generator.uniform(0, 400, 200_000)
    met = np.zeros(len(own), dtype=bool)
    for index, group in enumerate(groups):
        for _ in range(group.num_jobs - (index == 0)):
            after = (generator.uniform(0, group.interval_seconds, len(own)) - own) % group.interval_seconds
            met |= (after < 20.0) | (after > group.interval_seconds - group.write_seconds)
    error = 4 * (met.mean() * (1 - met.mean()) / len(own)) ** 0.5
    assert collision_fraction(groups, 0) == pytest.approx(met.mean(), abs=error)


def test_jobs_that_always_write_always_collide() -> None:
    assert collision_fraction([PeriodicWrites(2, 60.0, 100.0)], 0) == 1.0
    assert collision_fraction([PeriodicWrites(1, 60.0, 100.0)], 0) == 0.0


def test_equal_jobs_write_together_as_often_as_the_binomial_says() -> None:
    from scipy.stats import binom  # noqa: PLC0415 - a second, which only this test needs

    groups = [PeriodicWrites(600, 30.0, 600.0), PeriodicWrites(400, 15.0, 300.0)]
    assert mean_concurrent(groups) == pytest.approx(50.0)
    for fraction in (0.01, 0.5, 0.99, 0.9999):
        assert concurrent_quantile(groups, fraction) == binom.ppf(fraction, 1000, 0.05)
