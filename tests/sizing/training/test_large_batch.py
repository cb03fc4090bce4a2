"""Steps, time and checkpoints of a run by its batch, after McCandlish et al. 2018."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.report import SizingReport, answer
from sizing.training.run_length import steps_of_run

TOKENS = st.integers(1, 10**15)


@given(fewest=TOKENS, batch=TOKENS, critical=TOKENS)
def test_steps_and_tokens_lie_on_the_hyperbola_of_the_paper(fewest: int, batch: int, critical: int) -> None:
    """(S/S_min - 1)(E/E_min - 1) = 1."""
    steps = steps_of_run(fewest, batch_tokens=batch, critical_batch_tokens=critical)
    more_steps, more_tokens = critical / batch, batch / critical
    assert steps == pytest.approx(fewest / critical * (1 + more_steps))
    assert steps * batch == pytest.approx(fewest * (1 + more_tokens))


def asked(**training: Any) -> SizingReport:
    """Llama 3.1 405B on 16,384 GPUs: 16 million tokens a step."""
    step = {"sequence_length": 8192, "micro_batch_size": 1, "global_batch_size": 2048, "recomputation": "full"}
    scenario: dict[str, Any] = {
        "model": {"preset": "llama-3.1-405b"},
        "training": step | {"num_tokens": "15.6T"} | training,
        "parallelism": {"tensor": 8, "pipeline": 16, "data": 128},
        "checkpoint": {"interval_seconds": "1h"},
        "storage": {"profile": {"write_bytes_per_second": "1 TB/s", "read_bytes_per_second": "1 TB/s"}},
    }
    return answer(scenario)


def test_a_run_of_known_tokens_has_steps_time_and_checkpoints() -> None:
    report = asked(step_seconds=6)
    found = report.run_length
    assert found is not None
    assert found.batch_tokens == 2**24
    assert found.num_steps == 929_833  # 15.6e12 / 2**24, rounded up
    assert found.training_seconds == 929_833 * 6
    assert found.interval_steps == 600
    assert report.overhead.fraction is not None
    assert found.wall_seconds == pytest.approx(929_833 * 6 / (1 - report.overhead.fraction))
    assert found.num_checkpoints == (found.wall_seconds or 0) // 3600


def test_a_batch_as_large_as_the_critical_one_takes_twice_the_fewest_steps() -> None:
    found = asked(critical_batch_tokens=2**24).run_length
    assert found is not None
    assert found.min_steps == 929_833
    assert found.num_steps == pytest.approx(2 * found.min_steps, abs=1)
    assert (found.training_seconds, found.num_checkpoints) == (None, None)


def test_larger_batches_take_fewer_steps_more_tokens_and_fewer_checkpoints() -> None:
    small, large = (asked(global_batch_size=size, step_seconds=6, critical_batch_tokens=2**24) for size in (2048, 4096))
    assert small.run_length is not None
    assert large.run_length is not None
    assert large.run_length.num_steps < small.run_length.num_steps
    assert large.run_length.num_tokens > small.run_length.num_tokens
    assert (large.run_length.num_checkpoints or 0) < (small.run_length.num_checkpoints or 0)


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"global_batch_size": None}, "has num_tokens without global_batch_size"),
        ({"num_tokens": None, "critical_batch_tokens": 8}, "has critical_batch_tokens without num_tokens"),
    ],
)
def test_a_run_without_its_batch_is_refused(training: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        asked(**training)


def test_without_tokens_there_is_no_block() -> None:
    assert asked(num_tokens=None).run_length is None
