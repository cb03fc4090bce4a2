"""A checkpoint of RL post-training holds policy and critic with their optimizers; frozen models only where asked."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.report import answer
from sizing.scenario import scenario_from

POLICY = 8_030_261_248
DOCUMENT: dict[str, Any] = {
    "model": {"preset": "llama-3-8b"},
    "training": {"framework": "fsdp2"},
    "parallelism": {"data": 8},
}


def total_bytes(**reinforcement: Any) -> int:
    training = DOCUMENT["training"] | {"reinforcement": reinforcement}
    return answer(DOCUMENT | {"training": training}).checkpoint.total_bytes


def test_a_critic_is_saved_with_its_optimizer() -> None:
    assert total_bytes(critic_parameters="8B") == 12 * (POLICY + 8 * 10**9)


def test_frozen_models_are_saved_as_weights_and_only_where_asked() -> None:
    assert total_bytes(saved_frozen_parameters="16B") == 12 * POLICY + 4 * 16 * 10**9
    assert total_bytes(publication={"interval_seconds": 60}) == 12 * POLICY


def test_the_critic_is_trained_beside_adapters_of_the_policy() -> None:
    training = DOCUMENT["training"] | {"adapters": {"rank": 8}, "reinforcement": {"critic_parameters": "1B"}}
    trained = answer(DOCUMENT | {"training": training}).model.num_trained_parameters
    assert 10**9 < trained < 1.01 * 10**9


def test_an_empty_block_says_what_it_may_hold() -> None:
    with pytest.raises(InvalidInput, match="critic_parameters, saved_frozen_parameters or publication"):
        scenario_from(DOCUMENT | {"training": {"reinforcement": {}}})


def test_a_delta_larger_than_the_weights_is_refused() -> None:
    publication = {"interval_seconds": 60, "content": "delta", "delta_fraction": 1.5}
    with pytest.raises(InvalidInput, match="delta_fraction"):
        total_bytes(publication=publication)


@pytest.mark.parametrize(
    ("training", "is_said"),
    [
        ({"framework": "verl"}, True),
        ({"framework": "SkyRL"}, True),
        ({"framework": "fsdp2"}, False),
        ({"framework": "megatron", "reinforcement": {"critic_parameters": "8B"}}, True),
    ],
)
def test_that_gpu_memory_is_without_what_makes_samples_is_said(training: dict[str, Any], is_said: bool) -> None:
    warnings = answer(DOCUMENT | {"training": training}).warnings
    assert any("An inference engine and a reference model on the same GPUs" in each for each in warnings) is is_said


def test_bytes_per_parameter_are_of_the_models_that_are_trained() -> None:
    """Adam in Megatron keeps 14 per parameter; a frozen model as large adds 2 of weights to each."""
    asked: dict[str, Any] = {"model": {"preset": "llama-3.1-8b"}, "parallelism": {"data": 8}}
    num_parameters = answer(asked).model.num_parameters
    with_frozen = asked | {"training": {"reinforcement": {"saved_frozen_parameters": num_parameters}}}
    with_critic = {"critic_parameters": num_parameters, "saved_frozen_parameters": num_parameters}
    both = answer(asked | {"training": {"reinforcement": with_critic}}).checkpoint
    assert answer(with_frozen).checkpoint.bytes_per_parameter == pytest.approx(16)
    assert both.bytes_per_parameter == pytest.approx(15)
    assert sum(part.bytes_per_parameter for part in both.parts.values()) == pytest.approx(15)
