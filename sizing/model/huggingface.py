"""Read a Hugging Face `config.json` as a model, by a row of `huggingface.toml` or composed of pieces.

A row of `huggingface.toml` maps the config of a model_type to an Architecture. Other model_types are composed of pieces
(`composed`). Nothing is guessed: an unknown model_type, a missing field, or a value that would change the count in an
unknown way is refused by name.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Literal

from pydantic import Field, JsonValue, ValidationError

from sizing.errors import InvalidInput, Problem, explain
from sizing.model.architecture import Architecture
from sizing.model.attention_window import window_of
from sizing.model.composed import (
    Composition,
    check_model_class,
    composed_types,
    composition_of,
    defaults,
    tower_of,
    uncounted_types,
)
from sizing.model.composed.model_types import model_types
from sizing.model.families import TRAITS, Family
from sizing.model.inventory import Inventory, inventory_of, num_parameters
from sizing.provenance import Assumption
from sizing.spelling import nearest
from sizing.strict_model import StrictModel

Config = Mapping[str, JsonValue]
FIELD = "model.huggingface_config"
OTHER_WAYS = (
    "list its tensors in model.tensors, as transformers builds them on a machine with the extra hf, or give "
    "model.architecture, or model.num_parameters where only a count is known"
)
"""Remedy for a model whose config cannot be read."""

_TEXT_TYPES = {
    "emu3": "emu3_text_model",
    "idefics3": "llama",
    "internvl": "qwen2",
    "llava": "llama",
    "llava_next": "llama",
    "mistral3": "mistral",
    "paligemma": "gemma",
    "smolvlm": "llama",
}
"""model_type of a text_config that does not state its own, where it is not the whole's model_type with `_text`."""
READ_AS = {
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}
"""model_types of language models that occur only with a tower and whose tensors are those of another model_type. Fields
that their configs leave out take the defaults of their own class."""
TIED_BY: Mapping[str, bool | Literal["text", "either", "never"]] = {
    "aria": False,
    "aya_vision": True,
    "blip-2": "text",
    "cohere2_vision": True,
    "cosmos3_omni": False,
    "deepseek_vl": True,
    "deepseek_vl_hybrid": True,
    "exaone4_5": False,
    "fun_asr_nano": True,
    "fuyu": False,
    "gemma3": True,
    "glmasr": True,
    "got_ocr2": True,
    "granite_speech": True,
    "granite_speech_plus": True,
    "hyperclovax_vision_v2": True,
    "idefics2": False,
    "idefics3": False,
    "instructblip": "text",
    "instructblipvideo": "text",
    "internvl": True,
    "janus": True,
    "kimi_k25": True,
    "lfm2_vl": True,
    "lfm3_vl": True,
    "lighton_ocr": True,
    "llama4": "text",
    "llava": "either",
    "llava_next": False,
    "llava_next_video": "either",
    "llava_onevision": "either",
    "minicpm_ocr": True,
    "minicpmv4_6": False,
    "minicpmv4_7": False,
    "mistral3": True,
    "moss_transcribe_diarize": True,
    "ovis2": True,
    "paligemma": True,
    "pp_chart2table": True,
    "qianfan_ocr": False,
    "qwen2_5_vl": "either",
    "qwen2_audio": "never",
    "qwen2_vl": "either",
    "qwen3_5": False,
    "qwen3_5_moe": False,
    "qwen3_asr": True,
    "qwen3_vl": False,
    "qwen3_vl_moe": False,
    "shieldgemma2": "either",
    "smolvlm": False,
    "vibevoice_asr": "never",
    "video_llama_3": "either",
    "video_llava": False,
    "vipllava": False,
    "voxtral": "never",
}
"""What ties embedding and head of a config with a `text_config`: its own `tie_word_embeddings`, with this default; that
of the `text_config`; either of the two; or nothing. Source: the models of transformers 5.23, built in the tests."""
_TOWERS = ("vision_config", "audio_config", "vq_config", "encoder_config")
"""Configs that describe a part beside the language model, also where they leave out their own model_type."""
_ENCODE_TEXT = ("florence2",)
"""Models whose `text_config` describes an encoder and a decoder. Source: transformers 5.23, Florence2Model."""
_FLAT = ("qwen2_vl", "qwen2_5_vl")
"""Models whose published config states the language model beside the `vision_config`, without a `text_config`. Source:
transformers 5.23, Qwen2VLConfig and Qwen2_5_VLConfig."""
_OF_THE_WHOLE = ("model_type", "architectures", "text_config", "vision_config")
MULTI_TOKEN_PREDICTION = ("num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers", "mtp_num_hidden_layers")
"""Fields of a config that give the number of modules for multi-token prediction."""

_MAY_BE_ABSENT = {"ffn_hidden_size", "num_kv_heads", "head_dim", "attention_bias", "ffn_bias", "q_lora_rank"}


class ConfigClass(StrictModel):
    """How the config of a model_type reads."""

    family: Family = Field(description="Family that models of this model_type are built like.")
    model_class: str = Field(
        description="Only entry that `architectures` of the config may have: the language model itself."
    )
    fields: dict[str, str] = Field(
        description="Names in the config, each with the field of Architecture that it fills."
    )
    defaults: dict[str, JsonValue] = Field(
        default_factory=dict, description="Values that transformers takes where the config does not have the name."
    )
    must_equal: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="Values that the config must have, as others would change the count in a way not known here.",
    )


@functools.cache
def config_classes() -> dict[str, ConfigClass]:
    """Return the rows of `huggingface.toml` by model_type."""
    text = resources.files(__package__).joinpath("huggingface.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)
    whole = {name: rows[row.pop("like")] | row if "like" in row else row for name, row in rows.items()}
    return {name: ConfigClass.model_validate(row) for name, row in whole.items()}


def known_model_types() -> list[str]:
    """List every model_type whose config can be read."""
    return sorted({*config_classes(), *composed_types()})


MAX_CONFIG_DEPTH = 20
"""Blocks within blocks of a config whose names are read; deeper ones are left as they are."""


def as_json(value: Any, depth: int = MAX_CONFIG_DEPTH) -> Any:
    """Return a config as a config.json has it: names that are numbers become text, and tuples lists.

    `config.to_dict()` has both, and YAML has numbers as names, as in id2label. Source: the json module of Python.

    >>> as_json({"id2label": {0: "no", 1: "yes"}, "layer_types": ("full",)})
    {'id2label': {'0': 'no', '1': 'yes'}, 'layer_types': ['full']}
    """
    if depth and isinstance(value, dict):
        return {
            json.dumps(name) if isinstance(name, int | float) else name: as_json(each, depth - 1)
            for name, each in value.items()
        }
    return [as_json(each, depth - 1) for each in value] if depth and isinstance(value, list | tuple) else value


def model_from(config: Config) -> Architecture | Composition:
    """Return the model that a `config.json` describes; of a multimodal model, the language model.

    Raises InvalidInput for an unknown model_type, a missing or contradicting field.
    """
    if config.get("model_type") in _ENCODE_TEXT:
        raise InvalidInput.of(
            f"{FIELD}.model_type",
            "must be a model_type that is counted here",
            value=config["model_type"],
            remedy=f"its text_config describes an encoder and a decoder, of which the decoder is counted; {OTHER_WAYS}",
        )
    given, config = config, _find_language_model(config)
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise InvalidInput.of(
            f"{FIELD}.model_type", "must be text", value=model_type, remedy="give the whole config.json"
        )
    if model_type in config_classes():
        return _read_architecture(config, config_classes()[model_type])
    if model_type in composed_types():
        return composition_of(config)
    text = _find_text_config(given)
    is_of_text = text is not None and "model_type" in text
    raise InvalidInput.of(
        f"{FIELD}.text_config.model_type" if is_of_text else f"{FIELD}.model_type",
        "must be a model_type that is counted here",
        value=model_type if is_of_text else given.get("model_type"),
        remedy=f"{_explain_unknown_type(model_type)}; {OTHER_WAYS}",
    )


def _explain_unknown_type(model_type: str) -> str:
    """Say what a model_type has that is not counted here, or which known ones are similar."""
    if model_type in uncounted_types():
        return f"its models have {uncounted_types()[model_type]}"
    known = known_model_types()
    close = ", ".join(nearest(model_type, known, max_names=3))
    is_or_are = "are" if ", " in close else "is"
    return f"the nearest of {len(known)} {is_or_are} {close}" if close else f"none of {len(known)} is like it"


def beside_language_model(config: Config, language_model: Architecture | Composition) -> Inventory | None:
    """List the tensors of a config's vision tower, projector and modules for multi-token prediction.

    None if it has parts beside its `text_config` that are not counted here.
    """
    modules = _list_prediction_modules(_find_language_model(config), language_model)
    if _find_text_config(config) is None:
        return modules
    is_known = _list_towers(config) == ["vision_config"]
    tower = tower_of(config, text_hidden=language_model.hidden_size) if is_known else None
    return None if tower is None else (*tower, *modules)


def _list_prediction_modules(config: Config, language_model: Architecture | Composition) -> Inventory:
    """List the tensors of the modules for multi-token prediction that a language model's config states."""
    if not isinstance(language_model, Architecture):
        return language_model.prediction
    if not language_model.traits.latent_attention or language_model.num_mtp_layers is not None:
        return ()
    stated = next((config[name] for name in MULTI_TOKEN_PREDICTION if config.get(name)), None)
    try:
        checked = Architecture.model_validate(language_model.model_dump() | {"num_mtp_layers": stated})
    except ValidationError as error:
        raise explain(error, Architecture) from None
    return tuple(group for group in inventory_of(checked) if group.name.startswith("mtp."))


def left_out(config: Config, beside: Inventory | None) -> Iterator[Assumption]:
    """Report what a config describes beside the language model, and whether it is counted.

    `beside` has the tensors that are counted; it is None if the config's towers cannot be counted.
    """
    yield from _report_class_defaults(config, beside)
    language_model = _find_language_model(config)
    model_type = str(language_model.get("model_type"))
    modules = num_parameters(tuple(group for group in beside or () if group.name.startswith("mtp.")))
    unstated = model_types()[model_type].left_out if model_type in model_types() else ""
    if unstated and not modules:
        reason = f"{unstated} is not counted, as transformers leaves it out"
        yield Assumption(field=f"{FIELD}.model_type", value=model_type, reason=reason)
    counted = f"multi-token-prediction modules are counted, {modules:,} parameters; transformers leaves them out"
    for name, number in language_model.items():
        if name in MULTI_TOKEN_PREDICTION and isinstance(number, int) and number > 0:
            yield Assumption(
                field=f"{FIELD}.{name}",
                value=number,
                reason=counted
                if modules
                else "multi-token-prediction modules are not counted, as transformers leaves them out; "
                "model.architecture.num_mtp_layers counts those of the deepseek family",
            )


def not_counted(config: Config, beside: Inventory | None) -> Iterator[str]:
    """Warn of what a config describes and nothing counts, each with the way to count it."""
    if beside is None:
        towers = " and ".join(name.removesuffix("_config") for name in _list_towers(config))
        what = f"its {towers} part and what projects into" if towers else "what it has beside"
        yield (
            f"Not counted of the model: {what} the language model. To count all, list the tensors that transformers "
            "builds of it in model.tensors"
        )
    modules = sum("prediction" in each.reason and "not counted" in each.reason for each in left_out(config, beside))
    if modules:
        yield (
            "Not counted of the model: its modules for multi-token prediction, each about as large as a layer. Where "
            "they are trained, list the tensors of the published files in model.tensors"
        )


def _list_towers(config: Config) -> list[str]:
    """List the names of the configs beside the `text_config`, such as that of a vision tower."""
    if _find_text_config(config) is None:
        return []
    own = {name for name, part in config.items() if isinstance(part, dict) and "model_type" in part}
    return [name for name in config if name in _TOWERS or (name in own and name != "text_config")]


def says_prediction_modules(assumption: Assumption) -> bool:
    """Return whether an assumption of `left_out` is about modules for multi-token prediction."""
    return assumption.field.removeprefix(f"{FIELD}.") in MULTI_TOKEN_PREDICTION


def _report_class_defaults(config: Config, beside: Inventory | None) -> Iterator[Assumption]:
    """Report a config's towers, and the sizes that its `text_config` leaves to the default of its class."""
    text = _find_text_config(config)
    if text is not None:
        others = ", ".join(_list_towers(config))
        towers = num_parameters(tuple(group for group in beside or () if not group.name.startswith("mtp.")))
        alone = f"the language model of text_config alone; {others or 'other parts'} not counted"
        counted = (
            f"the language model of text_config and {towers:,} parameters of {others} and what "
            "projects into it; their activations and time are not counted"
        )
        model_type = str(_find_language_model(config).get("model_type"))
        yield Assumption(field=FIELD, value=model_type, reason=counted if towers else alone)
        for name, size in _find_class_sizes(_complete_text_config(config, text)).items():
            reason = "left out of the config: the default of its class in transformers"
            yield Assumption(field=f"{FIELD}.text_config.{name}", value=size, reason=reason)


def _find_language_model(config: Config) -> Config:
    """Return the part of a config that describes the language model: all of it, or its `text_config`.

    Published configs of multimodal models leave out values that equal the default of a class; these are filled in.
    """
    text = _find_text_config(config)
    if text is None:
        return config
    stated = _complete_text_config(config, text)
    model_type = str(stated["model_type"])
    return _find_class_sizes(stated) | stated | {"model_type": READ_AS.get(model_type, model_type)}


def _find_text_config(config: Config) -> dict[str, JsonValue] | None:
    """Return the fields of a multimodal config that describe the language model; None for a config without towers."""
    text = config.get("text_config")
    if isinstance(text, dict):
        return text
    if config.get("model_type") in _FLAT and isinstance(config.get("vision_config"), dict):
        return {name: value for name, value in config.items() if name not in _OF_THE_WHOLE}
    return None


def _find_class_sizes(text: Config) -> dict[str, JsonValue]:
    """Return the sizes that a `text_config` leaves to its class."""
    kind = defaults().get(str(text["model_type"]))
    return {} if kind is None else dict(kind.sizes_beside(text))


def _complete_text_config(config: Config, text: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the `text_config`, with the model_type and the tied embedding that the whole config implies."""
    whole = str(config.get("model_type"))
    inherited: dict[str, JsonValue] = {"model_type": _TEXT_TYPES.get(whole, f"{whole}_text")}
    name = "tie_word_embeddings"
    ties: JsonValue
    match TIED_BY.get(whole):
        case "text":
            ties = text.get(name)
        case "either":
            ties = text.get(name) or config.get(name)
        case "never":
            ties = False
        case default:
            ties = config.get(name, default)
    return inherited | text | ({} if ties is None else {name: ties})


def _read_architecture(config: Config, kind: ConfigClass) -> Architecture:
    check_model_class(config, kind.model_class)
    _check_must_equal(config, kind)
    fields = _map_fields(config, kind) | _read_particulars(config)
    says_no_modules = any(config.get(name) == 0 for name in MULTI_TOKEN_PREDICTION)
    if says_no_modules and TRAITS[kind.family].latent_attention:
        fields["num_mtp_layers"] = 0
    try:
        described = Architecture.model_validate({"family": kind.family} | fields)
    except ValidationError as error:
        names = {field: name for name, field in reversed(kind.fields.items())}  # as the config has them
        raise InvalidInput(
            Problem(f"{FIELD}.{names.get(p.field, p.field)}".rstrip("."), p.rule, p.value, p.remedy)
            for p in explain(error, Architecture).problems
        ) from None
    window = window_of(config, num_layers=described.num_layers, field=FIELD)
    if window is None:
        return described
    layers = tuple(sorted(window.layers)) if len(window.layers) < described.num_layers else None
    return described.model_copy(update={"sliding_window": window.num_tokens, "sliding_window_layers": layers})


def _check_must_equal(config: Config, kind: ConfigClass) -> None:
    for name, expected in kind.must_equal.items():
        if config.get(name, expected) != expected:
            raise InvalidInput.of(
                f"{FIELD}.{name}",
                f"must be {expected} to be counted here",
                value=config[name],
                remedy=OTHER_WAYS,
            )
    hidden, projected = config.get("hidden_size"), config.get("word_embed_proj_dim")
    if projected is not None and projected != hidden:
        raise InvalidInput.of(
            f"{FIELD}.word_embed_proj_dim",
            f"must equal hidden_size {hidden} to be counted here",
            value=projected,
            remedy="describe the model by model.num_parameters",
        )


def _map_fields(config: Config, kind: ConfigClass) -> dict[str, JsonValue]:
    """Map a config to the fields of an Architecture, with the class's defaults.

    Raises InvalidInput where a field is missing, or has two values.
    """
    values: dict[str, JsonValue] = {}
    for name, field in kind.fields.items():  # a field may have two names, as n_layer and num_hidden_layers
        value = config.get(name)
        if value is not None and values.setdefault(field, value) != value:
            raise InvalidInput.of(
                f"{FIELD}.{name}",
                f"must equal {field} {values[field]}",
                value=value,
                remedy="keep one of the two",
            )
    in_config = {field for name, field in kind.fields.items() if name in config}
    values |= {kind.fields[name]: value for name, value in kind.defaults.items() if kind.fields[name] not in in_config}
    missing = set(kind.fields.values()) - values.keys() - _MAY_BE_ABSENT
    if missing:
        names = sorted(name for name, field in kind.fields.items() if field in missing)
        raise InvalidInput(Problem(f"{FIELD}.{name}", "is required", "", "add it") for name in names)
    return values


def _read_particulars(config: Config) -> dict[str, JsonValue]:
    """Read the fields that a model_type states in a way of its own."""
    if config["model_type"] == "falcon":
        return _read_falcon(config)
    if config["model_type"] == "deepseek_v2" and config.get("n_routed_experts", 64) is None:
        return {"num_shared_experts": None, "num_experts_per_token": None, "first_dense_layers": None}
    return {}


def _read_falcon(config: Config) -> dict[str, JsonValue]:
    """Read Falcon's heads and norms: keys and values share one head (multi_query) or come in groups (new decoder).

    Source: `transformers`, models/falcon/modeling_falcon.py.
    """
    new, bias = config.get("new_decoder_architecture", False), config.get("bias", False)
    parallel = config.get("parallel_attn", True)
    in_parallel = config.get("num_ln_in_parallel_attn") or (2 if new else 1)
    heads = config.get("num_kv_heads") if new else 1 if config.get("multi_query", True) else None
    return {
        "num_kv_heads": heads,
        "ffn_bias": bias,
        "norms_per_layer": 2 if not new and not parallel else in_parallel,
    }
