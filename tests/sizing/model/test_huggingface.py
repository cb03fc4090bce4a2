"""A config.json counts what `transformers` builds from it, or is refused by name."""

import json
from typing import Any

import pytest
import torch
import transformers
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sizing.errors import InvalidInput
from sizing.model import Architecture, Model, num_parameters
from sizing.model.huggingface import config_classes, model_from
from sizing.model.inventory import inventory_of
from sizing.report import answer
from tests.examples import examples

MODEL_TYPES = sorted(config_classes().keys() - {"kimi_k2"})
"""Those that transformers knows; kimi_k2 is a deepseek_v3 under another name."""
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}


def test_a_config_without_a_name_is_called_by_its_type() -> None:
    assert answer({"model": {"huggingface_config": LLAMA}}).model.name == "llama"
    assert answer({"model": {"huggingface_config": LLAMA | {"_name_or_path": "mine"}}}).model.name == "mine"


@pytest.mark.parametrize(("modules", "is_said"), [(0, False), (1, True)])
def test_prediction_modules_that_are_not_counted_are_said(modules: int, is_said: bool) -> None:
    report = answer({"model": {"huggingface_config": LLAMA | {"num_nextn_predict_layers": modules}}})
    said = [row.value for row in report.assumptions if row.field.endswith("num_nextn_predict_layers")]
    assert said == [modules] * is_said


def counted(config: dict[str, Any]) -> int:
    described = model_from(config)
    return num_parameters(inventory_of(described) if isinstance(described, Architecture) else described.inventory)


def built(config: transformers.PreTrainedConfig) -> int:
    """Parameters of the model that `transformers` makes, tied ones once."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]  # transformers has no type for it
    return sum(parameter.numel() for parameter in model.parameters())


def config_of(model_type: str, **fields: Any) -> transformers.PreTrainedConfig:
    return transformers.AutoConfig.for_model(model_type, **fields)


@st.composite
def expert_fields(draw: st.DrawFn) -> dict[str, Any]:
    experts = draw(st.sampled_from([4, 8]))
    return {
        "num_local_experts": experts,
        "num_experts": experts,
        "n_routed_experts": experts,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": draw(st.integers(3, 40)),
        "shared_expert_intermediate_size": draw(st.integers(3, 40)),
    }


@st.composite
def latent_fields(draw: st.DrawFn, *, layers: int) -> dict[str, Any]:
    return {
        "kv_lora_rank": draw(st.integers(3, 30)),
        "q_lora_rank": draw(st.none() | st.integers(3, 30)),
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": draw(st.sampled_from([4, 8])),
        "first_k_dense_replace": draw(st.integers(0, layers)),
        "n_group": 1,
        "topk_group": 1,
        "n_shared_experts": draw(st.integers(1, 3)),
    }


OWN_FIELDS: tuple[tuple[tuple[str, ...], st.SearchStrategy[dict[str, Any]]], ...] = (
    (
        ("llama", "mistral", "mixtral", "qwen3", "qwen3_moe", "gemma", "gemma2"),
        st.fixed_dictionaries({"head_dim": st.integers(1, 9).map(lambda pairs: 2 * pairs)}),
    ),
    (
        ("llama", "gpt_neox", "qwen3", "qwen3_moe", "gemma", "gemma2"),
        st.fixed_dictionaries({"attention_bias": st.booleans()}),
    ),
    (("llama",), st.fixed_dictionaries({"mlp_bias": st.booleans()})),
    (("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3"), expert_fields()),
)


@st.composite
def configs(draw: st.DrawFn) -> transformers.PreTrainedConfig:
    """Small valid configs of every model_type that is known."""
    model_type = draw(st.sampled_from(MODEL_TYPES))
    heads = draw(st.sampled_from([2, 4, 6]))
    head_dim = 2 * draw(st.integers(1, 6))
    layers, vocabulary = draw(st.integers(1, 4)), draw(st.integers(8, 200))
    width = draw(st.integers(4, 90))
    tied = model_type != "gptj" and draw(st.booleans())
    fields: dict[str, Any] = {"vocab_size": vocabulary, "tie_word_embeddings": tied, "pad_token_id": None}
    if model_type in ("gpt2", "gpt-sw3", "gptj"):
        sizes = {"n_embd": heads * head_dim, "n_layer": layers, "n_head": heads, "rotary_dim": 2}
        fields |= sizes | {
            "n_inner": draw(st.none() | st.just(width)),
            "n_positions": draw(st.integers(4, 64)),
        }
    else:
        fields |= {"hidden_size": heads * head_dim, "num_hidden_layers": layers, "num_attention_heads": heads}
        fields |= {"intermediate_size": width, "num_key_value_heads": draw(st.sampled_from([1, 2, heads]))}
    if model_type == "opt":
        fields |= {"ffn_dim": width, "word_embed_proj_dim": heads * head_dim}
    for model_types, own_fields in OWN_FIELDS:
        if model_type in model_types:
            fields |= draw(own_fields)
    if model_type in ("deepseek_v2", "deepseek_v3"):
        fields |= draw(latent_fields(layers=layers))
    if model_type == "falcon":
        new, multi_query = draw(st.booleans()), draw(st.booleans())
        fields |= {"new_decoder_architecture": new, "multi_query": multi_query, "num_kv_heads": heads // 2}
        fields |= {
            "parallel_attn": draw(st.booleans()),
            "bias": draw(st.booleans()),
            "ffn_hidden_size": width,
        }
    return config_of(model_type, **fields)


@given(configs())
@examples(250)
def test_random_configs_count_what_transformers_builds(config: transformers.PreTrainedConfig) -> None:
    assert counted(config.to_dict()) == built(config)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_the_default_config_of_every_model_type_counts_what_transformers_builds(model_type: str) -> None:
    config = config_of(model_type)
    if model_type == "deepseek_v2":
        config.num_experts_per_tok = 6
    assert counted(config.to_dict()) == built(config)


def test_a_config_as_python_and_yaml_have_it_is_the_one_of_its_json() -> None:
    config = transformers.LlamaConfig.from_dict({"num_labels": 3}).to_dict() | {
        "layers_block_type": ("attention", "attention")
    }
    assert config["id2label"] == {0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}
    of_python, of_yaml, of_json = (
        Model.model_validate({"huggingface_config": each})
        for each in (
            config,
            yaml.safe_load(yaml.safe_dump(json.loads(json.dumps(config)) | {"id2label": config["id2label"]})),
            json.loads(json.dumps(config)),
        )
    )
    assert of_python == of_yaml == of_json


def test_the_biases_of_falcon_are_counted() -> None:
    config = config_of("falcon", bias=True, hidden_size=32, num_attention_heads=4, num_hidden_layers=2, vocab_size=50)
    assert counted(config.to_dict()) == built(config)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_what_a_config_leaves_out_takes_the_default_of_its_class(model_type: str) -> None:
    config = config_of(model_type)
    if model_type == "deepseek_v2":
        config.num_experts_per_tok = 6
    left_out = config_classes()[model_type].defaults
    shortened = {name: value for name, value in config.to_dict().items() if name not in left_out}
    assert counted(shortened) == built(config)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"model_type": "phi3small"},
            "huggingface_config.model_type must be a model_type that is counted here, got 'phi3small': "
            "the nearest of 131 is phi3; "
            "list its tensors in model.tensors, as transformers builds them on a machine with the "
            "extra hf, or give model.architecture, or model.num_parameters where only a count is known.",
        ),
        (
            {"model_type": "zzz"},
            "got 'zzz': none of 131 is like it; list its tensors in model.tensors, as transformers",
        ),
        (
            {"model_type": "rwkv"},
            "got 'rwkv': its models have recurrent cells; list its tensors in model.tensors, as transformers builds them",
        ),
        ({"model_type": None}, "huggingface_config.model_type must be text: give the whole config.json"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "must be ['LlamaForCausalLM']"),
        ({"hidden_size": None}, "huggingface_config.hidden_size is required: add it."),
        ({"hidden_size": "big"}, "huggingface_config.hidden_size must be a whole number, got 'big'"),
        ({"hidden_size": 65}, "has hidden_size 65, which num_attention_heads 4 does not divide"),
        ({"num_key_value_heads": 3}, "has num_attention_heads 4, which num_kv_heads 3 does not divide"),
        ({"num_hidden_layers": 10**6}, "huggingface_config.num_hidden_layers must be at most 10000"),
        (
            {"model_type": "bloom", "architectures": None, "n_layer": 3},
            "huggingface_config.num_hidden_layers must equal num_layers 3, got 2",
        ),
        (
            {"model_type": "qwen3_moe", "architectures": None, "decoder_sparse_step": 2},
            "huggingface_config.decoder_sparse_step must be 1 to be counted here, got 2: list its tensors in model.tensors",
        ),
        (
            {"model_type": "opt", "architectures": None, "ffn_dim": 9, "word_embed_proj_dim": 32},
            "huggingface_config.word_embed_proj_dim must equal hidden_size 64",
        ),
    ],
)
def test_a_config_that_is_not_understood_is_refused_by_name(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        model_from(LLAMA | changed)
    assert sentence in str(caught.value)


def test_a_given_head_dim_settles_a_width_that_heads_do_not_divide() -> None:
    even, odd = (LLAMA | {"hidden_size": size, "head_dim": 16} for size in (64, 65))
    per_unit_of_hidden_size = 2 * (4 * 16 * 2 + 2 * 16 * 2 + 3 * 96 + 2) + 2 * 100 + 1
    assert counted(odd) - counted(even) == per_unit_of_hidden_size
