"""From a Hugging Face `config.json` to a model: by a row of `huggingface.toml`, or composed of pieces.

A row of `huggingface.toml` says which Architecture the config of a model_type describes; other model_types are
composed of pieces (`composed`). Nothing is guessed: an unknown model_type, a missing field or a value that would change
the count in a way not known here is refused by name.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from sizing.errors import InvalidInput, Problem, explain
from sizing.model.architecture import Architecture
from sizing.model.composed import (
    Composition,
    check_model_class,
    composed_types,
    composition_of,
    defaults,
    uncounted_types,
)
from sizing.model.composed.model_types import model_types
from sizing.model.families import TRAITS, Family
from sizing.provenance import Assumption
from sizing.spelling import nearest

Config = Mapping[str, JsonValue]
FIELD = "model.huggingface_config"
OTHER_WAYS = (
    "list its tensors with `ckpt-size tensors --hf-config config.json --output model.json` on a machine with the extra "
    "hf, or give model.architecture, or model.num_parameters where only a count is known"
)
"""For a model of which no config is known here."""

_TEXT_TYPES = {"emu3": "emu3_text_model", "llava": "llama", "mistral3": "mistral"}
"""model_type of a text_config that does not say its own, where it is not that of the whole with `_text`."""
_OTHER_TOWERS = ("vision_config", "audio_config", "vq_config", "encoder_config")
MULTI_TOKEN_PREDICTION = ("num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers", "mtp_num_hidden_layers")
"""Fields of a config that count modules for multi-token prediction."""

_MAY_BE_ABSENT = {"ffn_hidden_size", "num_kv_heads", "head_dim", "attention_bias", "ffn_bias", "q_lora_rank"}


class ConfigClass(BaseModel):
    """How the config of a model_type reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """Every model_type that is known."""
    text = resources.files(__package__).joinpath("huggingface.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(text)
    whole = {name: rows[row.pop("like")] | row if "like" in row else row for name, row in rows.items()}
    return {name: ConfigClass.model_validate(row) for name, row in whole.items()}


def known_model_types() -> list[str]:
    """Every model_type whose config is understood."""
    return sorted({*config_classes(), *composed_types()})


def model_from(config: Config) -> Architecture | Composition:
    """The model that a `config.json` describes; of one that also sees or hears the language model.

    Raises InvalidInput for an unknown model_type, a missing or contradicting field.
    """
    config = _of_language_model(config)
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise InvalidInput.of(
            f"{FIELD}.model_type", "must be text", value=model_type, remedy="give the whole config.json"
        )
    if model_type in config_classes():
        return _architecture_from(config, config_classes()[model_type])
    if model_type in composed_types():
        return composition_of(config)
    raise InvalidInput.of(
        f"{FIELD}.model_type",
        "must be a model_type that is counted here",
        value=model_type,
        remedy=f"{_why_not(model_type)}; {OTHER_WAYS}",
    )


def _why_not(model_type: str) -> str:
    """What a model_type has that is not counted here, or which known ones are like it."""
    if model_type in uncounted_types():
        return f"its models have {uncounted_types()[model_type]}"
    known = known_model_types()
    close = ", ".join(nearest(model_type, known, max_names=3))
    return f"the nearest of {len(known)} are {close}" if close else f"none of {len(known)} is like it"


def left_out(config: Config) -> Iterator[Assumption]:
    """What a config describes beside the model that is counted, or is published with it."""
    yield from _left_to_its_class(config)
    language_model = _of_language_model(config)
    model_type = str(language_model.get("model_type"))
    if unstated := model_types()[model_type].left_out if model_type in model_types() else "":
        reason = f"{unstated} is not counted, as transformers leaves it out"
        yield Assumption(field=f"{FIELD}.model_type", value=model_type, reason=reason)
    for name, modules in language_model.items():
        if name in MULTI_TOKEN_PREDICTION and isinstance(modules, int) and modules > 0:
            yield Assumption(
                field=f"{FIELD}.{name}",
                value=modules,
                reason="multi-token-prediction modules are not counted, as transformers leaves them out; "
                "model.architecture.num_mtp_layers counts those of the deepseek family",
            )


def says_prediction_modules(assumption: Assumption) -> bool:
    """Whether it is one of `left_out` that says that modules for multi-token prediction are not counted."""
    return assumption.field.removeprefix(f"{FIELD}.") in MULTI_TOKEN_PREDICTION


def _left_to_its_class(config: Config) -> Iterator[Assumption]:
    """What a config with a `text_config` has beside it, and what it leaves to the class of the text."""
    text = config.get("text_config")
    if isinstance(text, dict):
        others = [name for name in config if name.endswith("_config") and name in _OTHER_TOWERS]
        yield Assumption(
            field=FIELD,
            value=str(_of_language_model(config).get("model_type")),
            reason=f"the language model of text_config alone; {', '.join(others) or 'other parts'} not counted",
        )
        for name, size in _sizes_of_class(_text_of(config, text)).items():
            reason = "left out of the config: the default of its class in transformers"
            yield Assumption(field=f"{FIELD}.text_config.{name}", value=size, reason=reason)


def _of_language_model(config: Config) -> Config:
    """The part of a config that describes the language model: all of it, or its `text_config`.

    Configs of models that also see or hear are published without what equals the default of a class: of the text too.
    """
    text = config.get("text_config")
    if not isinstance(text, dict):
        return config
    stated = _text_of(config, text)
    return _sizes_of_class(stated) | stated


def _sizes_of_class(text: Config) -> dict[str, JsonValue]:
    """The sizes that a `text_config` leaves to its class."""
    kind = defaults().get(str(text["model_type"]))
    return {} if kind is None else dict(kind.sizes_beside(text))


def _text_of(config: Config, text: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """What a config states of its language model."""
    whole = str(config.get("model_type"))
    inherited: dict[str, JsonValue] = {"model_type": _TEXT_TYPES.get(whole, f"{whole}_text")}
    if "tie_word_embeddings" in config:
        inherited["tie_word_embeddings"] = config["tie_word_embeddings"]
    return inherited | text


def _architecture_from(config: Config, kind: ConfigClass) -> Architecture:
    check_model_class(config, kind.model_class)
    _check_must_equal(config, kind)
    fields = _mapped(config, kind) | _particulars(config) | _no_prediction_modules(config, kind)
    try:
        return Architecture.model_validate({"family": kind.family} | fields)
    except ValidationError as error:
        raise _in_the_words_of_the_config(explain(error, Architecture), kind) from None


def _check_must_equal(config: Config, kind: ConfigClass) -> None:
    for name, expected in kind.must_equal.items():
        if config.get(name, expected) != expected:
            raise InvalidInput.of(
                f"{FIELD}.{name}",
                f"must be {expected} to be counted here",
                value=config[name],
                remedy="describe the model by model.architecture or model.num_parameters",
            )
    hidden, projected = config.get("hidden_size"), config.get("word_embed_proj_dim")
    if projected is not None and projected != hidden:
        raise InvalidInput.of(
            f"{FIELD}.word_embed_proj_dim",
            f"must equal hidden_size {hidden} to be counted here",
            value=projected,
            remedy="describe the model by model.num_parameters",
        )


def _mapped(config: Config, kind: ConfigClass) -> dict[str, JsonValue]:
    """The fields of an Architecture that the config states, or its class's defaults.

    Raises InvalidInput where a field is missing, or has two values.
    """
    named = {field for name, field in kind.fields.items() if name in config}
    found = _stated(config, kind)
    found |= {kind.fields[name]: value for name, value in kind.defaults.items() if kind.fields[name] not in named}
    missing = set(kind.fields.values()) - found.keys() - _MAY_BE_ABSENT
    if missing:
        names = sorted(name for name, field in kind.fields.items() if field in missing)
        raise InvalidInput(Problem(f"{FIELD}.{name}", "is required", "", "add it") for name in names)
    return found


def _stated(config: Config, kind: ConfigClass) -> dict[str, JsonValue]:
    """The fields that the config gives a value, by either of their names (`n_layer` and `num_hidden_layers`)."""
    found: dict[str, JsonValue] = {}
    for name, field in kind.fields.items():
        value = config.get(name)
        if value is not None and found.setdefault(field, value) != value:
            raise InvalidInput.of(
                f"{FIELD}.{name}",
                f"must equal {field} {found[field]}",
                value=value,
                remedy="keep one of the two",
            )
    return found


def _particulars(config: Config) -> dict[str, JsonValue]:
    """What one model_type says in a way of its own."""
    if config["model_type"] == "falcon":
        return _falcon(config)
    if config["model_type"] == "deepseek_v2" and config.get("n_routed_experts", 64) is None:
        return {"num_shared_experts": None, "num_experts_per_token": None, "first_dense_layers": None}
    return {}


def _no_prediction_modules(config: Config, kind: ConfigClass) -> dict[str, JsonValue]:
    """That there are no modules for multi-token prediction, where a family may have them and the config says so."""
    says_none = any(config.get(name) == 0 for name in MULTI_TOKEN_PREDICTION)
    return {"num_mtp_layers": 0} if says_none and TRAITS[kind.family].latent_attention else {}


def _falcon(config: Config) -> dict[str, JsonValue]:
    """Keys and values share one head (multi_query) or come in groups (the new decoder); norms follow.

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


def _in_the_words_of_the_config(error: InvalidInput, kind: ConfigClass) -> InvalidInput:
    """The same problems, under the config's own field names."""
    names = {field: name for name, field in reversed(kind.fields.items())}
    return InvalidInput(
        Problem(f"{FIELD}.{names.get(p.field, p.field)}".rstrip("."), p.rule, p.value, p.remedy) for p in error.problems
    )
