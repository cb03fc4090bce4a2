"""How laws are tried: the same examples each time, and a search for the smallest counterexample that ends."""

from collections.abc import Callable, Iterator

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine

from tests.examples import examples


def test_the_default_run_repeats_its_examples_and_the_long_run_does_not() -> None:
    assert hypothesis.settings.get_profile("repeatable").derandomize
    assert not hypothesis.settings.get_profile("fresh").derandomize


@pytest.fixture
def profile() -> Iterator[Callable[[str], None]]:
    """Loads one for the time of a test."""
    loaded = hypothesis.settings.get_current_profile_name()
    yield hypothesis.settings.load_profile
    hypothesis.settings.load_profile(loaded)


def test_the_long_run_holds_a_law_on_all_its_examples_and_the_default_run_on_a_quarter(
    profile: Callable[[str], None],
) -> None:
    profile("fresh")
    assert (examples(40).max_examples, hypothesis.settings().max_examples) == (40, 100)
    profile("repeatable")
    assert (examples(40).max_examples, examples(4).max_examples, hypothesis.settings().max_examples) == (10, 4, 25)


def num_calls_until_failure() -> int:
    """How often a law is tried that fails for every long list, of which many are smaller than the one first found."""
    calls = 0

    @hypothesis.settings(derandomize=True, database=None, phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink])
    @hypothesis.given(st.lists(st.integers(), min_size=5))
    def law(numbers: list[int]) -> None:
        nonlocal calls
        calls += 1
        assert sum(map(abs, numbers)) < 1000

    with pytest.raises(AssertionError):
        law()
    return calls


def test_shrinking_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.MAX_SHRINKING_SECONDS == 20
    to_the_end = num_calls_until_failure()
    monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", 0)
    assert num_calls_until_failure() < to_the_end / 2
