"""Law: a scenario of adapters, frozen tensors, bare counts and exports has an answer or a sentence."""

import random
from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.report import answer
from tests.sizing.laws.scenarios import FRESH_SEEDS, drawn, repeated

_DEFAULT_SEED, _NUM = 39_000, 60
_NAMES = ("attention", "attention.query", "attention.value", "ffn", "norm", "embedding", "parameters", "expert")
_NOTHING_BUT_MOMENTS = {"weights": None, "master": None}


def _partly_trained(seed: int) -> dict[str, Any]:
    """A drawn scenario in which adapters are trained or tensors are frozen; in one of four only a count is known."""
    dice, document = random.Random(seed), drawn(seed)  # noqa: S311 - equal seeds must draw equal scenarios
    training: dict[str, Any] = document["training"]
    training["frozen"] = dice.sample(_NAMES, k=dice.randint(0, 4))
    if dice.random() < 0.7:
        training["adapters"] = {"rank": dice.choice((1, 16)), "save_base": dice.random() < 0.3}
        if dice.random() < 0.5:
            training["adapters"]["base_dtype"] = dice.choice(
                ("nf4", "fp4", "int8", "fp8-block", "mxfp4", "bf16", "fp32")
            )
        if dice.random() < 0.4:
            training["adapters"]["tensors"] = dice.sample(_NAMES, k=2)
    if dice.random() < 0.2:
        training["saved_state"] = _NOTHING_BUT_MOMENTS
    if dice.random() < 0.25:
        document["model"] = {"num_parameters": "7541237184"}
    if dice.random() < 0.5:
        document["checkpoint"]["export"] = {"every": 1, "written_by": dice.choice(("rank-0", "every-rank"))}
    return document


def _hold(first_seed: int, num: int) -> None:
    num_answers = 0
    for seed in range(first_seed, first_seed + num):
        document = _partly_trained(seed)
        try:
            num_answers += answer(document).checkpoint.total_bytes > 0
        except InvalidInput:
            continue
        except Exception as error:
            error.add_note(repeated(seed, document))
            raise
    assert num_answers > num / 10


def test_partly_trained_models_have_an_answer_or_a_sentence() -> None:
    _hold(_DEFAULT_SEED, _NUM)


@pytest.mark.exhaustive(minutes=3)
def test_partly_trained_models_never_drawn_before_have_one_too() -> None:
    _hold(FRESH_SEEDS, 40 * _NUM)
