"""Vision towers and projectors are counted as transformers builds them on the meta device, and as published."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers.initialization import no_init_weights
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
)

from sizing.cli.meta_device import tensors_on_meta_device
from sizing.errors import InvalidInput
from sizing.model.composed.model_types import defaults, towers
from sizing.model.huggingface import TIED_BY
from sizing.model.listed.grouping import entries_of
from sizing.model.model import Model, ResolvedModel, resolve
from sizing.report import answer
from tests.examples import spread
from tests.sizing.model.transformers_oracle import defaults_of_tower, num_parameters_of

SMALL = {"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6, "intermediate_size": 160}
SMALL_TEXT = SMALL | {"vocab_size": 512, "num_key_value_heads": 2}
LLAMA4_TEXT = SMALL_TEXT | {"intermediate_size_mlp": 64, "num_local_experts": 2}
QWEN = {"hidden_size": 64, "depth": 3, "num_heads": 4, "intermediate_size": 80, "out_hidden_size": 96}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "llava-default": ("llava", {}, {}, {}),
    "llava-published": (
        "llava",
        {"num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "image_size": 336, "patch_size": 14},
        {},
        {"vision_feature_layer": -2},
    ),
    "llava-features": ("llava", SMALL, SMALL_TEXT, {"vision_feature_layer": [-2, -1]}),
    "llava-without-bias": ("llava", SMALL, SMALL_TEXT, {"multimodal_projector_bias": False}),
    "llava-siglip": ("llava", SMALL | {"model_type": "siglip_vision_model"}, SMALL_TEXT, {}),
    "llava-siglip-without-head": (
        "llava",
        SMALL | {"model_type": "siglip_vision_model", "vision_use_head": False},
        SMALL_TEXT,
        {},
    ),
    "llava-pixtral": ("llava", SMALL | {"model_type": "pixtral", "patch_size": 14}, SMALL_TEXT, {}),
    "llava-next": ("llava_next", SMALL, SMALL_TEXT, {"multimodal_projector_bias": False}),
    "gemma3-default": ("gemma3", {}, {}, {}),
    "gemma3": ("gemma3", SMALL | {"vision_use_head": False, "image_size": 896, "patch_size": 14}, SMALL_TEXT, {}),
    "paligemma": ("paligemma", SMALL | {"projection_dim": 48}, SMALL_TEXT, {"projection_dim": 96}),
    "llama4-default": ("llama4", {}, {}, {}),
    "llama4": (
        "llama4",
        SMALL | {"projector_input_dim": 80, "projector_output_dim": 80, "vision_output_dim": 80, "image_size": 336},
        LLAMA4_TEXT,
        {},
    ),
    "internvl-default": ("internvl", {}, {}, {}),
    "internvl": ("internvl", SMALL | {"attention_bias": True, "use_qk_norm": True}, SMALL_TEXT, {}),
    "internvl-rms": (
        "internvl",
        SMALL | {"norm_type": "rms_norm", "use_mean_pooling": False, "use_mask_token": True, "image_size": [224, 448]},
        SMALL_TEXT,
        {"downsample_ratio": 0.25},
    ),
    "internvl-without-positions": (
        "internvl",
        SMALL | {"use_absolute_position_embeddings": False},
        SMALL_TEXT,
        {"tie_word_embeddings": False},
    ),
    "qwen2-vl-default": ("qwen2_vl", {}, {}, {}),
    "qwen2-vl": ("qwen2_vl", {"embed_dim": 64, "hidden_size": 96, "depth": 3, "mlp_ratio": 3}, SMALL_TEXT, {}),
    "qwen2.5-vl-default": ("qwen2_5_vl", {}, {}, {}),
    "qwen2.5-vl": ("qwen2_5_vl", QWEN | {"temporal_patch_size": 3}, SMALL_TEXT | {"tie_word_embeddings": True}, {}),
    "qwen3-vl-default": ("qwen3_vl", {}, {}, {}),
    "qwen3-vl": ("qwen3_vl", QWEN | {"deepstack_visual_indexes": [1], "num_position_embeddings": 49}, SMALL_TEXT, {}),
    "qwen3-vl-moe-default": ("qwen3_vl_moe", {}, {}, {}),
    "qwen3-vl-moe": (
        "qwen3_vl_moe",
        QWEN | {"deepstack_visual_indexes": []},
        SMALL_TEXT | {"num_experts": 4, "moe_intermediate_size": 32},
        {"tie_word_embeddings": True},
    ),
    "qwen3.5-default": ("qwen3_5", {}, {}, {}),
    "qwen3.5": ("qwen3_5", QWEN, SMALL_TEXT | {"head_dim": 16}, {"tie_word_embeddings": True}),
    "qwen3.5-moe-default": ("qwen3_5_moe", {}, {}, {}),
    "qwen3.5-moe": (
        "qwen3_5_moe",
        QWEN | {"num_position_embeddings": 49},
        SMALL_TEXT | {"head_dim": 16, "num_experts": 4, "moe_intermediate_size": 32},
        {},
    ),
    "mistral3-default": ("mistral3", {}, {}, {}),
    "mistral3": (
        "mistral3",
        SMALL,
        SMALL_TEXT,
        {"spatial_merge_size": 4, "multimodal_projector_bias": True, "vision_feature_layer": [-1, -3, -5]},
    ),
}


def built(config: transformers.PreTrainedConfig) -> int:
    with torch.device("meta"), no_init_weights():
        module = transformers.AutoModelForMultimodalLM.from_config(config)  # type: ignore[no-untyped-call]  # transformers has no type for it
    module.tie_weights()
    return num_parameters_of(module)


def smallest(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config with one layer and few experts, also in the configs that it holds."""
    few = {name: 1 for name in config if re.fullmatch("num_hidden_layers|depth|(en|de)coder_layers", name)}
    few |= {
        name: 8
        for name in config
        if re.fullmatch("num_local_experts|num_experts|n_routed_experts|moe_num_experts", name)
    }
    few |= {name: 1 for name in config if name == "first_k_dense_replace"}
    few |= {"layer_types": config["layer_types"][:1]} if config.get("layer_types") else {}
    return config | few | {name: smallest(value) for name, value in config.items() if isinstance(value, dict)}


def counted(config: dict[str, Any], **fields: Any) -> ResolvedModel:
    return resolve(Model.model_validate({"huggingface_config": config} | fields))


@pytest.mark.parametrize("case", CASES)
def test_a_model_with_a_vision_tower_is_counted_to_the_integer(case: str) -> None:
    whole, vision, text, outer = CASES[case]
    config = transformers.AutoConfig.for_model(whole, vision_config=vision, text_config=text, **outer)
    expected = built(config)
    for stated in (config.to_json_string(use_diff=True), config.to_json_string(use_diff=False)):
        found = counted(json.loads(stated))
        assert found.num_parameters == expected, case
        assert found.warnings == ()
    as_written = {"model_type": whole, "vision_config": vision, "text_config": text} | outer
    assert counted(as_written).num_parameters == expected


OF_EACH_RULE = ("janus", "vipllava", "instructblip", "video_llama_3", "voxtral")
"""Tied by default, not tied by default, by the text_config alone, by either, never."""
NOT_ALIKE = ("aya_vision", "ovis2")
"""The default of the first is not built; the other has a further table that follows what is tied."""


@pytest.mark.parametrize(
    "whole",
    spread([model for model in TIED_BY if model not in NOT_ALIKE], by_default=OF_EACH_RULE),
)
def test_the_embedding_and_the_head_are_one_tensor_where_the_whole_config_ties_them(whole: str) -> None:
    """Towers that are not counted add the same to each count, whatever is tied."""
    tied = "tie_word_embeddings"
    base = smallest(json.loads(transformers.AutoConfig.for_model(whole).to_json_string(use_diff=False)))
    text = {name: value for name, value in base["text_config"].items() if name != tied}
    outer = {name: value for name, value in base.items() if name != tied}
    beside = set()
    for of_whole, of_text in (({}, True), ({}, False), ({tied: True}, False), ({tied: False}, True)):
        config = outer | of_whole | {"text_config": text | {tied: of_text}}
        read = transformers.CONFIG_MAPPING[whole].from_dict(json.loads(json.dumps(config)))
        beside.add(built(read) - counted(config).num_parameters)
    assert len(beside) == 1


@pytest.mark.parametrize("tower", towers().tower)
def test_the_defaults_of_a_tower_are_those_of_its_class(tower: str) -> None:
    recorded = defaults()[tower].model_dump()
    asked = json.loads(json.dumps(defaults_of_tower(tower)))
    assert recorded == asked


def test_a_projector_takes_the_defaults_of_its_class() -> None:
    for whole, projector in towers().whole.items():
        config = transformers.AutoConfig.for_model(whole).to_dict()
        assert {name: config[name] for name in projector.outer} == projector.outer, whole
        assert config["vision_config"]["model_type"] == projector.tower


@pytest.mark.parametrize("whole", towers().whole)
def test_the_tensors_of_a_default_config_are_those_of_the_whole_model(whole: str) -> None:
    config = json.loads(transformers.AutoConfig.for_model(whole).to_json_string(use_diff=False))
    listed = tensors_on_meta_device(config, Path("config.json"))
    told = Model.model_validate({"tensors": entries_of(listed)})
    assert resolve(told).num_parameters == counted(config).num_parameters


def test_a_tower_that_is_not_known_is_left_out_and_the_first_screen_says_so() -> None:
    config = {"model_type": "llava", "text_config": SMALL_TEXT, "vision_config": {"model_type": "siglip2_vision_model"}}
    found = counted(config)
    assert [warning.split(":")[0] for warning in found.warnings] == ["Not counted of the model"]
    assert not [group for group in found.inventory if group.name.startswith(("vision.", "projector."))]


def test_no_default_config_with_parts_that_are_not_counted_is_counted_in_silence() -> None:
    """All that transformers builds from text and images or sound; vibevoice_asr names its towers in a way of its own."""
    silent: set[str] = set()
    warned: set[str] = set()
    for whole in MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES | MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES:
        config = json.loads(transformers.AutoConfig.for_model(whole).to_json_string(use_diff=False))
        with contextlib.suppress(InvalidInput):
            (warned if counted(config).warnings else silent).add(whole)
    assert silent <= set(towers().whole)
    assert {"fuyu", "vibevoice_asr", "ovis2"} <= warned


def test_a_decoder_is_not_counted_as_a_model_that_has_an_encoder_too() -> None:
    florence = json.loads(transformers.AutoConfig.for_model("florence2").to_json_string(use_diff=False))
    with pytest.raises(InvalidInput, match=r"got 'florence2': its text_config describes an encoder and a decoder"):
        counted(florence)
    bart = florence["text_config"] | {"model_type": "bart", "architectures": None}
    with pytest.raises(InvalidInput, match=r"architectures must be \['BartForCausalLM'\] where is_encoder_decoder"):
        counted(bart)
    alone = counted(bart | {"architectures": ["BartForCausalLM"]})
    assert alone.num_parameters == counted(bart | {"is_encoder_decoder": False}).num_parameters


@pytest.mark.parametrize("whole", ["qwen2_vl", "qwen2_5_vl"])
def test_a_config_that_states_the_language_model_beside_the_tower_is_read_as_published(whole: str) -> None:
    flat = SMALL_TEXT | {"model_type": whole, "vision_config": {"depth": 2}, "architectures": ["Qwen2VL"]}
    assert counted(flat).num_parameters == built(transformers.CONFIG_MAPPING[whole].from_dict(dict(flat)))


@pytest.mark.parametrize("whole", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"])
def test_a_tower_with_the_model_type_of_the_whole_is_counted_too(whole: str) -> None:
    """The config.json of Qwen3-VL-8B-Instruct has "qwen3_vl" in both places: transformers 4.57 wrote it."""
    config = transformers.AutoConfig.for_model(whole, vision_config={"depth": 2}, text_config=SMALL_TEXT)
    stated = json.loads(config.to_json_string())
    stated["vision_config"]["model_type"] = whole
    found = counted(stated)
    assert (found.num_parameters, found.warnings) == (built(config), ())


def test_a_text_config_that_is_not_counted_is_refused_by_a_name_that_was_typed() -> None:
    inner = {"model_type": "glm4v_text"} | SMALL_TEXT
    with pytest.raises(InvalidInput, match=r"huggingface_config\.text_config\.model_type .* got 'glm4v_text'"):
        counted({"model_type": "glm4v", "text_config": inner, "vision_config": {}})
    with pytest.raises(InvalidInput, match=r"huggingface_config\.model_type .* got 'glm4v':"):
        counted({"model_type": "glm4v", "text_config": SMALL_TEXT, "vision_config": {}})


def test_a_tower_that_contradicts_itself_is_refused() -> None:
    config = {"model_type": "llava", "text_config": SMALL_TEXT, "vision_config": SMALL | {"hidden_size": "many"}}
    with pytest.raises(InvalidInput, match="hidden"):
        counted(config)


def test_the_language_model_alone_can_be_asked_for() -> None:
    config = {"model_type": "llava", "text_config": SMALL_TEXT, "vision_config": SMALL}
    alone, whole = counted(config, language_model_only=True), counted(config)
    beside = [g for g in whole.inventory if g.name.startswith(("vision.", "projector."))]
    assert alone.num_parameters == whole.num_parameters - sum(group.num_parameters for group in beside)
    assert alone.warnings == ()
    assert set(alone.inventory) == set(whole.inventory) - set(beside)


def test_matrices_of_a_tower_are_hidden_ones_to_an_optimizer_and_positions_are_not() -> None:
    config = {"model_type": "llava", "text_config": SMALL_TEXT, "vision_config": SMALL}
    roles = {group.name: group.role for group in counted(config).inventory}
    assert roles["vision.attention.query"] == roles["vision.ffn.up"] == roles["projector.up"] == "hidden-matrix"
    assert roles["vision.positions"] == "embedding"
    assert roles["vision.patches"] == roles["vision.norm"] == "other"


def test_a_tower_stands_on_the_first_stage_whole_or_cut_by_heads() -> None:
    config = {"model_type": "llava", "text_config": SMALL_TEXT | {"num_hidden_layers": 4}, "vision_config": SMALL}
    document = {"model": {"huggingface_config": config}, "parallelism": {"pipeline": 2, "data": 1}}
    whole = counted(config)
    report = answer(document)
    assert report.model.num_parameters == whole.num_parameters
    assert {g.placement for g in whole.inventory if g.name.startswith("vision.")} == {"first-stage"}


@pytest.mark.parametrize(
    ("preset", "published", "copies", "has_buffers"),
    [
        ("glm-4.5", 358_337_791_296, 2, True),
        ("glm-4.5-air", 110_468_824_832, 2, True),
        ("glm-5", 753_864_139_008, 0, True),
        ("qwen3-next-80b-a3b", 81_324_862_720, 0, False),
    ],
)
def test_modules_for_multi_token_prediction_make_up_the_published_total(
    preset: str, published: int, copies: int, has_buffers: bool
) -> None:
    """Totals of the hub's files, with a bias per expert in each router, and for GLM-4.5 a second embedding and head."""
    model = resolve(Model(preset=preset))
    tables = [group.tensor_parameters for group in model.inventory if group.name == "embedding"]
    routers = [group.num_tensors * group.shape[0] for group in model.inventory if group.name.endswith("router")]
    assert model.num_parameters + copies * sum(tables) + has_buffers * sum(routers) == published
    assert model.warnings == ()


def test_the_modules_that_a_config_of_deepseek_v3_states_make_up_its_published_total() -> None:
    """684,531,386,000 numbers in the hub's files, of which 41,555,600 in FP32 are scales and biases of routers."""
    deepseek = transformers.AutoConfig.for_model("deepseek_v3").to_dict()
    names = ("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size")
    config = {name: deepseek[name] for name in names}
    latent = {name: deepseek[name] for name in deepseek if "lora_rank" in name or "head_dim" in name}
    experts = {name: deepseek[name] for name in deepseek if "expert" in name or "dense" in name}
    whole = counted(config | latent | experts | {"moe_intermediate_size": 2048, "num_nextn_predict_layers": 1})
    assert whole.num_parameters + 2 * 129_280 * 7168 == 684_531_386_000 - 41_555_600
    assert whole.warnings == ()
    (said,) = [row for row in whole.assumptions if "multi-token-prediction modules" in row.reason]
    assert "are counted, 11,6" in said.reason


@pytest.mark.parametrize("stated", [0, None])
def test_a_config_without_modules_for_multi_token_prediction_has_none(stated: int | None) -> None:
    config = {"model_type": "glm4_moe", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8}
    plain = counted(config | {"vocab_size": 512})
    assert counted(config | {"vocab_size": 512, "num_nextn_predict_layers": stated}).inventory == plain.inventory
    two = counted(config | {"vocab_size": 512, "num_nextn_predict_layers": 2})
    assert two.num_parameters > plain.num_parameters
    assert {g.count for g in two.inventory if g.name == "mtp.projection"} == {2}
    with pytest.raises(InvalidInput, match="num_nextn_predict_layers"):
        counted(config | {"vocab_size": 512, "num_nextn_predict_layers": 1.5})
