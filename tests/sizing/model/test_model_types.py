"""Every model_type counts what transformers builds: recorded, and asked again in the long test."""

import contextlib
import copy
import json
import random
import re
from itertools import groupby
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.stages import stage_spans
from sizing.model import Architecture, from_module, num_parameters
from sizing.model.composed import Composition, uncounted_types
from sizing.model.composed.expressions import evaluate
from sizing.model.composed.model_types import defaults, towers
from sizing.model.huggingface import known_model_types, model_from
from sizing.model.inventory import Inventory, inventory_of
from sizing.model.model import resolve
from tests.examples import examples, spread
from tests.sizing.model.transformers_oracle import (
    GOLDEN,
    TENSORS,
    UNBUILT,
    buildable_types,
    built,
    causal_types,
    config_of,
    defaults_of,
    module_of,
    num_parameters_of,
    tensors_of,
    types_with_defaults,
)

RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))["types"]

VARIED: list[tuple[str, dict[str, Any]]] = [
    ("bamba", {"num_hidden_layers": 4, "attn_layer_indices": [1, 2]}),
    ("cohere", {"use_qk_norm": True, "num_hidden_layers": 2}),
    ("glm4_moe", {"use_qk_norm": True, "head_dim": 128, "num_hidden_layers": 3}),
    ("granitemoehybrid", {"num_hidden_layers": 4, "layer_types": ["mamba", "attention", "mamba", "mamba"]}),
    ("kimi_linear", {"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}),
    ("laguna", {"num_hidden_layers": 4, "num_attention_heads_per_layer": [48, 64, 48, 64]}),
    ("lfm2", {"num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"], "conv_bias": True}),
    ("lfm2", {"num_hidden_layers": 3, "full_attn_idxs": [1], "block_ffn_dim_multiplier": 1.3}),
    ("llama4_text", {"num_hidden_layers": 5, "interleave_moe_layer_step": 2}),
    ("mamba", {"num_hidden_layers": 2, "time_step_rank": "auto", "use_bias": True}),
    ("minimax", {"num_hidden_layers": 5}),
    ("nemotron_h", {"num_hidden_layers": 6, "hybrid_override_pattern": "M-ME*E"}),
    ("nemotron_h", {"num_hidden_layers": 2, "hybrid_override_pattern": "E-", "moe_latent_size": 64, "mlp_bias": True}),
    ("olmo_hybrid", {"num_hidden_layers": 2}),
    ("qwen3_next", {"num_hidden_layers": 5, "mlp_only_layers": [2], "attention_bias": True}),
    ("qwen3_next", {"num_hidden_layers": 6, "full_attention_interval": 3}),
]


def inventory_from(config: dict[str, Any]) -> Inventory:
    described = model_from(config)
    return inventory_of(described) if isinstance(described, Architecture) else described.inventory


def layers_of(inventory: Inventory) -> list[int]:
    """Parameters of each layer."""
    in_layers = [group for group in inventory if group.placement == "layers" and group.layers]
    found = np.zeros(1 + max(group.layers[-1] for group in in_layers), dtype=np.int64)
    for group in in_layers:
        found[list(group.layers)] += group.num_parameters // len(group.layers)
    return [int(parameters) for parameters in found]


@pytest.mark.parametrize("model_type", RECORDED)
def test_parts_have_names_in_one_style(model_type: str) -> None:
    config = RECORDED[model_type]["config"] | ({"use_bias": True} if model_type == "mamba2" else {})
    found = {group.name for group in inventory_from(config)}
    assert {name for name in found if not re.fullmatch(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*", name)} == set()


def composed(model_type: str, **fields: Any) -> Composition:
    found = model_from(RECORDED[model_type]["config"] | fields)
    assert isinstance(found, Composition)
    return found


@pytest.mark.parametrize("model_type", RECORDED)
def test_a_default_config_counts_what_transformers_built_layer_by_layer(model_type: str) -> None:
    recorded = RECORDED[model_type]
    inventory = inventory_from(recorded["config"])
    assert num_parameters(inventory) == recorded["num_parameters"]
    if recorded["layers"]:
        runs = [[len(list(equal)), parameters] for parameters, equal in groupby(layers_of(inventory))]
        assert runs == recorded["layers"]


def test_every_model_type_is_recorded_counted_or_listed_with_a_reason() -> None:
    known = set(known_model_types())
    assert known - set(RECORDED) == {"emu3_text_model", "kimi_k2"}, "parts of others, and one that reads as deepseek_v3"
    assert not known & set(uncounted_types())
    texts = {"emu3", "fuyu", "gemma3", "got_ocr2", "llama4", "moss_transcribe_diarize", "qwen3_5", "qwen3_5_moe"}
    assert set(causal_types()) == (known & set(RECORDED)) | set(uncounted_types()) | texts
    assert len(RECORDED) >= 100


@pytest.mark.parametrize("model_type", ["emu3", "llama4", "qwen3_5", "qwen3_5_moe"])
def test_a_text_config_is_counted_as_the_language_model(model_type: str) -> None:
    config = config_of(model_type)
    assert num_parameters(inventory_from(config.to_dict())) == built(config).num_parameters


WITH_TEXT = {
    "gemma3": "gemma3_text",
    "idefics3": "llama",
    "internvl": "qwen2",
    "llama4": "llama4_text",
    "llava": "llama",
    "llava_next": "llama",
    "mistral3": "mistral",
    "paligemma": "gemma",
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "smolvlm": "llama",
}


TIES = [(True, False), (False, True), (None, True), (None, False), (True, True), (False, False)]
"""What stands outside of the text_config, and inside."""


@pytest.mark.parametrize(
    ("outside", "inside"), [*TIES[:4], *(pytest.param(*tie, marks=pytest.mark.long) for tie in TIES[4:])]
)
@pytest.mark.parametrize("whole", spread(WITH_TEXT, by_default=["llava", *list(WITH_TEXT)[::5]]))
def test_embeddings_are_tied_as_transformers_ties_them(whole: str, outside: bool | None, inside: bool) -> None:
    """What stands outside of the text_config decides, else the class of the whole; that of llava takes the text's."""
    text: dict[str, Any] = {"model_type": WITH_TEXT[whole], "num_hidden_layers": 2, "tie_word_embeddings": inside}
    stated: dict[str, Any] = {"text_config": text} | ({} if outside is None else {"tie_word_embeddings": outside})
    auto: Any = transformers.AutoModelForImageTextToText
    with torch.device("meta"):
        built_whole = auto.from_config(transformers.CONFIG_MAPPING[whole](**copy.deepcopy(stated)))
    language = {
        id(parameter): parameter.numel()
        for name, parameter in built_whole.named_parameters()
        if any(part in name for part in ("language_model", "text_model", "lm_head")) and "vision" not in name
    }
    config = transformers.CONFIG_MAPPING[WITH_TEXT[whole]](**text).to_dict()
    found = inventory_from(stated | {"model_type": whole, "text_config": config | text})
    assert num_parameters(found) == sum(language.values())


GEMMA_3_4B = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
GEMMA_3_27B = {
    "head_dim": 128,
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "num_attention_heads": 32,
    "num_hidden_layers": 62,
    "num_key_value_heads": 16,
}


@pytest.mark.parametrize(
    ("whole", "model_type", "text"),
    [
        ("gemma3", "gemma3_text", GEMMA_3_4B),
        ("gemma3", "gemma3_text", GEMMA_3_27B),
        ("llava", "llama", {"vocab_size": 32064}),
        ("llava", "bloom", {"num_hidden_layers": 3, "vocab_size": 64}),
        ("llava", "mixtral", {"num_hidden_layers": 2}),
    ],
)
def test_what_a_text_config_leaves_out_is_what_transformers_takes(
    whole: str, model_type: str, text: dict[str, Any]
) -> None:
    """Of gemma-3-4b-it and gemma-3-27b-it, llava-1.5-7b-hf, and types whose config has two names for a size."""
    published = {"model_type": whole, "text_config": {"model_type": model_type} | text}
    assert num_parameters(inventory_from(published)) == built(config_of(model_type, **text)).num_parameters


@pytest.mark.parametrize(("model_type", "fields"), VARIED, ids=lambda each: each if isinstance(each, str) else "")
def test_patterns_of_layers_and_switches_count_what_transformers_builds(
    model_type: str, fields: dict[str, Any]
) -> None:
    if model_type == "kimi_linear":
        fields = fields | {"mlp_layer_types": ["dense", "sparse"]}
    config = config_of(model_type, **fields)
    required = {name: getattr(config, name) for name in defaults()[model_type].required}
    whole = built(config)
    for written in (config.to_dict(), {"model_type": model_type} | required | fields):
        inventory = inventory_from(written)
        assert num_parameters(inventory) == whole.num_parameters
        assert not whole.layers or layers_of(inventory) == list(whole.layers)


def test_defaults_are_those_of_the_configuration_classes() -> None:
    assert list(defaults()) == [*types_with_defaults(), *towers().tower]
    for model_type in types_with_defaults():
        assert defaults()[model_type].model_dump(mode="json") == defaults_of(model_type), model_type


@pytest.mark.parametrize(
    "model_type", ["qwen3_next", "jamba", "gpt_oss", "deepseek_v32", "nemotron_h", "granitemoehybrid"]
)
@pytest.mark.parametrize("pipeline", [1, 2, 3, 4])
def test_the_stages_of_a_pipeline_hold_every_layer_once(model_type: str, pipeline: int) -> None:
    model = composed(model_type)
    spans = stage_spans(model.inventory, Parallelism(pipeline=pipeline), num_layers=model.num_layers)
    held = sum(
        len(span.stages) * holding.count * max(1, holding.experts) * int(np.prod(holding.shape))
        for span in spans
        for holding in span.holdings
        if not holding.is_copy
    )
    assert held == num_parameters(model.inventory)
    by_stage = [stage for span in spans for stage in span.stages]
    assert by_stage == list(range(pipeline))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"hidden_size": None}, "huggingface_config.hidden_size is required: add it."),
        ({"num_hidden_layers": 10**6}, "huggingface_config must give 1 to 10000 as num_hidden_layers, got 1000000"),
        (
            {"num_attention_heads": "many"},
            "must give a whole number as num_attention_heads, got 'many': correct it",
        ),
        ({"num_attention_heads": 0}, "give or correct hidden_size, num_attention_heads"),
        ({"intermediate_size": 2.5}, "must give a whole number as intermediate_size, got 2.5"),
        ({"intermediate_size": -8}, "must give 0 to 1000000000 as intermediate_size, got -8"),
        ({"vocab_size": 0}, "must give 1 to 1000000000 as vocab_size, got 0"),
        ({"vocab_size": [1]}, "must give a whole number as vocab_size, got [1]"),
        ({"architectures": ["Olmo2ForSequenceClassification"]}, "must be ['Olmo2ForCausalLM'] for this model_type"),
    ],
)
def test_a_config_that_does_not_describe_a_model_is_refused_by_name(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        model_from(RECORDED["olmo2"]["config"] | {"head_dim": None} | changed)
    assert sentence in str(caught.value)


def test_a_list_shorter_than_the_layers_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"give or correct .*layer_types"):
        composed("qwen3_next", layer_types=["full_attention"])


def test_what_would_be_counted_wrong_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"must give 7 equal parts of ssm.in, 8192: correct its heads, groups or"):
        composed("bamba", mamba_n_heads=7)
    with pytest.raises(InvalidInput, match=r"must not have experts of cross-domain mixtures \(is_moe\)"):
        composed("doge", is_moe=True)


def test_an_expression_takes_numbers_only_into_arithmetic() -> None:
    assert evaluate("2 * a if a in (3, 4) else each(b, 1) - len(b)", {"a": 5, "b": [7, 9]}.__getitem__) == 7
    for text in ("a * b", "a + 1", "b // 0", "b[5]", "max(a, b)"):
        with pytest.raises((TypeError, LookupError, ArithmeticError)):
            evaluate(text, {"a": "text", "b": 3}.__getitem__)


@pytest.mark.exhaustive(minutes=4)
def test_transformers_builds_what_is_counted_of_all_its_types_and_of_500_varied_configs() -> None:
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers has no type for it
    exact = [model_type for model_type in causal_types() if _builds_as_counted(model_type)]
    assert len(exact) >= 128
    drawn = random.Random(0)  # noqa: S311 - draws examples
    changed = [drawn.choice(sorted(RECORDED)) for _ in range(500)]
    checked = sum(_counts_a_change(model_type, drawn) for model_type in changed)
    assert checked >= 300


def _builds_as_counted(model_type: str) -> bool:
    """Whether a default config is counted, and builds; then both agree."""
    try:
        config = config_of(model_type)
        inventory = inventory_from(config.to_dict())
        whole = built(config).num_parameters
    except Exception:  # noqa: BLE001 - not every class has a default that builds
        return False
    has_towers = model_type in {"fuyu", "gemma3", "got_ocr2", "moss_transcribe_diarize"}
    assert has_towers or num_parameters(inventory) == whole, model_type
    return not has_towers


def _counts_a_change(model_type: str, drawn: random.Random) -> bool:
    """Whether one field of a default config can be changed; then transformers and this code count the same."""
    config = RECORDED[model_type]["config"]
    name, value = drawn.choice([(n, v) for n, v in config.items() if isinstance(v, int) and n != "num_hidden_layers"])
    other = not value if isinstance(value, bool) else drawn.choice([2 * value, max(1, value // 2)])
    try:
        changed = config_of(model_type, **{name: other})
        module = module_of(changed)
    except Exception:  # noqa: BLE001 - not every value is allowed in transformers
        return False
    whole = num_parameters_of(module)
    assert resolve(from_module(module)).num_parameters == whole, f"the list of {model_type}: {name} {other}"
    try:
        inventory = inventory_from(changed.to_dict())
    except InvalidInput:
        return False
    assert num_parameters(inventory) == whole, f"{model_type}: {name} {other}"
    return True


@pytest.mark.exhaustive(minutes=4)
def test_transformers_builds_the_recorded_lists_of_all_its_types() -> None:
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers has no type for it
    recorded = json.loads(TENSORS.read_text(encoding="utf-8"))["types"]
    assert list(recorded) == buildable_types()
    for model_type in recorded:
        assert json.loads(json.dumps(tensors_of(model_type))) == recorded[model_type], model_type
    for model_type in UNBUILT:
        with pytest.raises(Exception):  # noqa: B017, PT011 - each class has a reason of its own
            module_of(config_of(model_type))


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
VALUES = JSON | st.lists(JSON, max_size=4) | st.dictionaries(st.text(max_size=3), JSON, max_size=2)


@given(st.sampled_from(sorted(RECORDED)), st.data())
@examples(300)
def test_no_value_of_a_field_gets_more_than_a_sentence(model_type: str, data: st.DataObject) -> None:
    config = RECORDED[model_type]["config"]
    name = data.draw(st.sampled_from(sorted(config.keys() - {"model_type"})))
    with contextlib.suppress(InvalidInput):
        inventory = inventory_from(config | {name: data.draw(VALUES)})
        assert all(group.num_parameters > 0 and group.pieces > 0 for group in inventory)
