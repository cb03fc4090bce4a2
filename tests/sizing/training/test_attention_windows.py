"""Attention with a window: what a layer computes, which layers have one, and where the fact is read."""

from typing import Any

import pytest

from sizing.errors import InvalidInput
from sizing.model import Model
from sizing.model.attention_window import AttentionWindow, window_of
from sizing.model.catalog import catalog
from sizing.model.huggingface import model_from
from sizing.model.model import resolve
from sizing.report import answer
from sizing.state import Training
from sizing.training.layer_work import ModelWork, model_work
from sizing.training.step_time import StepTime

SHAPE: dict[str, Any] = {
    "family": "llama",
    "hidden_size": 1024,
    "num_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 256,
    "tied_embeddings": False,
}


def work_of_model(**fields: Any) -> ModelWork:
    found = model_work(resolve(Model.model_validate(fields)), Training.model_validate({}))
    assert found is not None
    return found


def attention_flops(work: ModelWork, sequence_length: int) -> float:
    return work.attention_flops(work.between(len), sequence_length)


def step(model: dict[str, Any], **training: Any) -> StepTime:
    batch = {"sequence_length": 16_384, "micro_batch_size": 1, "global_batch_size": 1, "recomputation": "none"}
    document = {"model": model, "training": batch | training, "cluster": {"node": "dgx-h100"}}
    found = answer(document).training.step
    assert found is not None
    return found


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize(("tokens", "length"), [(16, 256), (100, 256), (256, 256), (1000, 256)])
def test_mean_keys_are_those_of_the_mask(tokens: int, length: int, is_chunked: bool) -> None:
    """The formula leaves out half the diagonal of each triangle, as s/2 does of a whole sequence."""
    seen = sum(query % tokens + 1 if is_chunked else min(query + 1, tokens) for query in range(length))
    diagonals = length if is_chunked else min(tokens, length)
    found = AttentionWindow(tokens, frozenset({0}), is_chunked).mean_keys(length)
    assert found * length == seen - diagonals / 2


def test_a_window_counts_the_operations_of_its_layers_alone() -> None:
    """4 layers of 8 heads of 128: 4 x 1024 operations a key forward; 2 layers see 480 of 8,192 keys on average."""
    full = work_of_model(architecture=SHAPE)
    half = work_of_model(architecture=SHAPE | {"sliding_window": 512, "sliding_window_layers": [0, 2]})
    assert attention_flops(full, 4096) == 4 * 4 * 1024 * 2048
    assert attention_flops(half, 4096) == 2 * 4 * 1024 * 2048 + 2 * 4 * 1024 * (512 - 512**2 / 8192)
    assert attention_flops(half, 512) == attention_flops(full, 512)
    assert full.between(len).matrices == half.between(len).matrices


def test_time_and_mfu_count_the_same_pairs() -> None:
    """Of 16,384 tokens one sees 8,192 on average, 992 in a window of 1,024 and 3,584 in one of 4,096."""
    full, short, long = (
        step({"architecture": SHAPE | window}) for window in ({}, {"sliding_window": 1024}, {"sliding_window": 4096})
    )
    saved = (8192 - 992) / (8192 - 3584)
    seconds = [full.compute_seconds - each.compute_seconds for each in (short, long)]
    assert seconds[0] == pytest.approx(saved * seconds[1])
    done = [each.mfu_fraction * each.seconds for each in (full, short, long)]
    assert done[0] - done[1] == pytest.approx(saved * (done[0] - done[2]))
    forward = 2 * 4 * 4 * 1024 * 16_384 * (8192 - 992)  # MFU counts pairs on both sides of the diagonal
    assert done[0] - done[1] == pytest.approx(3 * forward / 989.4e12, rel=0.001)


def test_eager_attention_computes_all_pairs_with_a_window_too() -> None:
    full, cut = (
        step({"architecture": SHAPE | window}, attention="eager", sequence_length=2048)
        for window in ({}, {"sliding_window": 128})
    )
    assert full.compute_seconds == pytest.approx(cut.compute_seconds)


GEMMA: dict[str, Any] = {"model_type": "gemma3_text", "sliding_window": 1024}
FULL, WINDOW = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("config", "num_tokens", "layers"),
    [
        (GEMMA, 1024, [0, 1, 2, 3, 4, 6, 7]),
        (GEMMA | {"sliding_window_pattern": 2}, 1024, [0, 2, 4, 6]),
        (GEMMA | {"layer_types": [FULL, WINDOW] * 4}, 1024, [1, 3, 5, 7]),
        ({"model_type": "gemma2"}, 4096, [0, 2, 4, 6]),
        ({"model_type": "mistral", "sliding_window": 4096}, 4096, list(range(8))),
        ({"model_type": "cwm"}, 8192, [1, 2, 3, 5, 6, 7]),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLLG"}, 4096, [0, 1, 2, 4, 5, 6]),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 6}, 4096, [6, 7]),
        ({"model_type": "qwen2_moe", "use_sliding_window": True, "max_window_layers": 6}, 4096, [0, 2, 4]),
        ({"model_type": "llama4_text"}, 8192, [0, 1, 2, 4, 5, 6]),
        ({"model_type": "llama4_text", "no_rope_layers": [1, 0] * 4}, 8192, [0, 2, 4, 6]),
        ({"model_type": "lfm3", "sliding_window": 256, "layer_types": ["conv", WINDOW] * 4}, 256, [1, 3, 5, 7]),
    ],
)
def test_a_config_says_the_window_and_its_layers(config: dict[str, Any], num_tokens: int, layers: list[int]) -> None:
    found = window_of(config, num_layers=8, field="config")
    assert found is not None
    assert (found.num_tokens, sorted(found.layers)) == (num_tokens, layers)
    assert found.is_chunked == (config["model_type"] == "llama4_text")


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "qwen2", "sliding_window": 4096, "max_window_layers": 0},
        {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False},
        {"model_type": "mistral", "sliding_window": None},
        {"model_type": "mistral"},
        {"model_type": "llama", "sliding_window": 4096},
        {"model_type": "llama4_text", "attention_chunk_size": None},
        GEMMA | {"layer_types": [FULL] * 8},
    ],
)
def test_a_config_without_a_window_has_none(config: dict[str, Any]) -> None:
    assert window_of(config, num_layers=8, field="config") is None


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"sliding_window": "wide"}, "sliding_window"),
        ({"sliding_window": -1}, "sliding_window"),
        ({"sliding_window": 4096.5}, "sliding_window"),
        ({"sliding_window": True}, "sliding_window"),
        ({"layer_types": [WINDOW]}, "layer_types"),
        ({"layer_types": WINDOW}, "layer_types"),
        ({"sliding_window_pattern": "LXG"}, "sliding_window_pattern"),
    ],
)
def test_a_config_with_a_wrong_window_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"config\.{name}"):
        window_of(GEMMA | fields, num_layers=8, field="config")


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"sliding_window": 0}, "sliding_window"),
        ({"sliding_window_layers": [0]}, "without sliding_window"),
        ({"sliding_window": 8, "sliding_window_layers": [4]}, "layer 4 in sliding_window_layers of num_layers 4"),
        ({"sliding_window": 8, "sliding_window_layers": []}, "sliding_window_layers"),
        ({"sliding_window": 8, "sliding_window_layers": "0,x"}, "sliding_window_layers"),
    ],
)
def test_an_architecture_with_a_wrong_window_is_refused(fields: dict[str, Any], rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        answer({"model": {"architecture": SHAPE | fields}})


def test_a_config_of_a_family_and_a_composed_one_keep_the_window() -> None:
    sizes: dict[str, Any] = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 128}
    mistral = {"model_type": "mistral", "intermediate_size": 128, "num_key_value_heads": 2, "sliding_window": 32}
    window = model_from(sizes | mistral).window
    assert window == AttentionWindow(32, frozenset(range(4)))
    gpt_oss = {"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2}
    assert model_from(sizes | gpt_oss).window == AttentionWindow(128, frozenset({0, 2}))


@pytest.mark.parametrize(
    ("preset", "num_tokens", "num_layers"),
    [
        ("mistral-7b-v0.1", 4096, 32),
        ("gemma-2-27b", 4096, 23),
        ("gemma-3-1b", 512, 22),
        ("gemma-3-27b", 1024, 52),
        ("gpt-oss-20b", 128, 12),
        ("olmo-3-32b", 4096, 48),
        ("llama-4-scout", 8192, 36),
        ("phi-3-mini-4k", 2047, 32),
        ("starcoder2-15b", 4096, 40),
    ],
)
def test_a_preset_has_the_window_of_its_public_config(preset: str, num_tokens: int, num_layers: int) -> None:
    window = catalog()[preset].described.window
    assert window is not None
    assert (window.num_tokens, len(window.layers)) == (num_tokens, num_layers)


@pytest.mark.parametrize("preset", ["mistral-7b-v0.2", "mistral-7b-v0.3", "mistral-small-24b", "qwen2.5-7b"])
def test_other_presets_see_the_whole_sequence(preset: str) -> None:
    assert catalog()[preset].described.window is None
