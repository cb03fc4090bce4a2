"""What `transformers` builds on the meta device, and the two files made from it.

    python -m tests.sizing.model.transformers_oracle

writes the defaults of the configuration classes (`sizing/model/composed/defaults.json`), the golden counts and the lists
of tensors (`transformers_golden.json` and `transformers_tensors.json` beside this file), all with the version of
transformers that was asked.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.initialization import no_init_weights
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from sizing.model import from_module
from sizing.model.composed import model_types as rows
from sizing.model.composed.expressions import names_in
from sizing.model.composed.model_types import Expression, ModelType, model_types, towers
from sizing.model.huggingface import READ_AS, ConfigClass, config_classes, known_model_types

GOLDEN = Path(__file__).with_name("transformers_golden.json")
TENSORS = Path(__file__).with_name("transformers_tensors.json")
DEFAULTS = Path(rows.__file__).with_name("defaults.json")

CORE = ("hidden", "layers", "heads", "vocab")
"""Values that a config must state itself."""
INCOMPLETE: Mapping[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 8, "moe_topk": 2},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
}
"""Fields without which the default config of a model_type does not build, or says nothing of its experts."""
UNBUILT: Mapping[str, str] = {
    "cohere_compass_text": "KeyError: full_attention",
    "dbrx": "DbrxAttentionConfig has no rope_theta",
    "dots1": "empty() takes 1 positional argument but 3 were given",
    "gemma3n": "needs the library timm",
    "gemma4_assistant": "hidden_size_per_layer_input must be 0, got 25",
    "gemma4_unified_assistant": "layer types that produce a cache are not those that use it",
    "lfm2_moe": "NoneType is not subscriptable",
    "musicgen": "MusicgenConfig has no dropout",
    "musicgen_melody": "MusicgenMelodyConfig has no dropout",
    "qwen4_exp": "NoneType // NoneType",
    "qwen4_exp_text": "NoneType // NoneType",
    "reformer": "wants is_decoder=True",
}
"""Model types whose default config transformers 5.23 does not build, and what it says."""
_LAYER = re.compile(r"\.(?:layers|layer|h|blocks)\.(\d+)\.")


@dataclasses.dataclass(frozen=True)
class Built:
    """Parameters of a model, of its layers one by one, and of the rest."""

    num_parameters: int
    layers: tuple[int, ...]

    @property
    def outside(self) -> int:
        """Parameters outside the layers."""
        return self.num_parameters - sum(self.layers)

    @property
    def runs(self) -> list[list[int]]:
        """The layers as runs of equal ones: how many, and their parameters."""
        return [[len(list(equal)), parameters] for parameters, equal in groupby(self.layers)]


def causal_types() -> list[str]:
    """Every model_type of a causal language model."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def buildable_types() -> list[str]:
    """Those of which transformers builds a default config."""
    return [name for name in causal_types() if name not in UNBUILT]


def config_of(model_type: str, **fields: Any) -> transformers.PreTrainedConfig:
    """The config of a model_type, by default its class's own."""
    return transformers.AutoConfig.for_model(model_type, **INCOMPLETE.get(model_type, {}) | fields)


def module_of(config: transformers.PreTrainedConfig) -> Any:
    """The model that `transformers` makes, on the meta device, without drawing weights that it does not have."""
    with torch.device("meta"), no_init_weights():
        module = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]  # transformers has no type for it
    module.tie_weights()
    return module


def tensors_of(model_type: str) -> dict[str, Any]:
    """The row of a model_type in `transformers_tensors.json`: names, shapes and roles that its module tells."""
    module = module_of(config_of(model_type))
    return compact(num_parameters_of(module), from_module(module).model_dump(mode="json", exclude_unset=True))


def compact(num_parameters: int, model: dict[str, Any]) -> dict[str, Any]:
    """A `model` block in few characters: without the dtypes, which are all fp32 in these models."""
    rows = [[entry["name"], entry["shape"], *entry.get("roles", [])] for entry in model.pop("tensors")]
    return {"num_parameters": num_parameters, "beside": model, "tensors": rows}


def num_parameters_of(module: Any) -> int:
    """Parameters of a module, tied ones once."""
    return sum(parameter.numel() for parameter in module.parameters())


def built(config: transformers.PreTrainedConfig) -> Built:
    """The model that `transformers` makes, tied tensors once."""
    model = module_of(config)
    layers: dict[int, int] = {}
    for name, parameter in model.named_parameters():
        if found := _LAYER.search(name):
            layers[int(found[1])] = layers.get(int(found[1]), 0) + parameter.numel()
    return Built(num_parameters_of(model), tuple(layers[number] for number in sorted(layers)))


def names_read(model_type: str) -> set[str]:
    """The names of a config that tell its tensors here."""
    if model_type in config_classes():
        return {*config_classes()[model_type].fields, *config_classes()[model_type].must_equal}
    row = model_types()[model_type]
    return {name for expression in _expressions(row) for name in _read(expression, row.values)}


def defaults_of(model_type: str) -> dict[str, Any]:
    """The row of a model_type in `defaults.json`."""
    kind = type(config_of(model_type))
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if (known := READ_AS.get(model_type, model_type)) in config_classes():
        return _defaults_of_architecture(config_classes()[known], fields)
    other_names = dict(kind.attribute_map or {})
    fields |= {same: fields[name] for name, same in other_names.items() if name in fields and same not in fields}
    values = model_types()[model_type].values
    core = {name for value in CORE if value in values for name in _read(values[value], values)}
    read = names_read(model_type)
    required = sorted(name for name in core & fields.keys() if _is_number(_default(fields[name])))
    return {
        "required": {name: fields[name].default for name in required},
        "values": {name: _default(fields[name]) for name in sorted(read & fields.keys() - set(required))},
        "other_names": {name: same for name, same in sorted(other_names.items()) if same in read},
    }


def _defaults_of_architecture(kind: ConfigClass, fields: Mapping[str, dataclasses.Field[Any]]) -> dict[str, Any]:
    """The same of one that an Architecture describes; what its config must have, its row of huggingface.toml says."""
    sizes = {name: fields[name].default for name in sorted(kind.fields) if name in fields}
    by_meaning = {kind.fields[name]: name for name in sizes}
    others = {name: by_meaning[meant] for name, meant in sorted(kind.fields.items()) if meant in by_meaning}
    return {
        "required": {},
        "values": {name: size for name, size in sizes.items() if _is_number(size)},
        "other_names": {name: same for name, same in others.items() if name != same},
    }


def types_with_defaults() -> list[str]:
    """The model_types of `defaults.json`: those that are read here, by themselves or as another, and transformers has."""
    return [name for name in sorted({*known_model_types(), *READ_AS}) if name in transformers.CONFIG_MAPPING]


def defaults_of_tower(model_type: str) -> dict[str, Any]:
    """The row of a vision tower in `defaults.json`: its class has a default of all that is read."""
    row = towers().tower[model_type]
    read = {name for expression in _expressions(row) for name in _read(expression, row.values)}
    projectors = (expression for whole in towers().whole.values() for t in whole.outside for expression in t.shape)
    read |= {name for expression in projectors for name in _read(expression, row.values)}
    config = transformers.AutoConfig.for_model(model_type)
    return {
        "required": {},
        "values": {name: value for name, value in sorted(config.to_dict().items()) if name in read},
        "other_names": {name: same for name, same in sorted((config.attribute_map or {}).items()) if same in read},
    }


def golden_of(model_type: str) -> dict[str, Any]:
    """The default config of a model_type, as far as it is read here, with what transformers builds from it."""
    config = config_of(model_type)
    found = built(config)
    text = config.to_dict()
    read = {name: text[name] for name in sorted(names_read(model_type) & text.keys()) if text[name] is not None}
    return {
        "config": {"model_type": model_type} | read,
        "num_parameters": found.num_parameters,
        "layers": found.runs,
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _default(field: dataclasses.Field[Any]) -> Any:
    """A default that is a number, a switch or text; others are made from other fields."""
    return field.default if isinstance(field.default, (int, float, str, bool)) else None


def _expressions(row: ModelType) -> Iterator[Expression]:
    yield from (*row.values.values(), *row.refused)
    for piece in row.pieces.values():
        yield from (piece.where, *piece.fields.values())
    for tensor in (*row.outside, *(tensor for piece in row.pieces.values() for tensor in piece.tensors)):
        yield from (tensor.pieces, tensor.count, *tensor.shape)


def _read(expression: Expression, values: Mapping[str, Expression]) -> Iterator[str]:
    """What an expression reads of a config; a value that names itself means the config's name."""
    for name in names_in(expression) - {"i"} if isinstance(expression, str) else ():
        if name in values:
            yield from _read(values[name], {other: value for other, value in values.items() if other != name})
        else:
            yield name


def _write(path: Path, types: dict[str, Any]) -> None:
    document = {"source": f"transformers {transformers.__version__}", "types": types}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in types.items())
    path.write_text(
        f'{{\n "source": {json.dumps(document["source"])},\n "types": {{\n{lines}\n }}\n}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # transformers has no type for it
    _write(
        DEFAULTS,
        {name: defaults_of(name) for name in types_with_defaults()}
        | {name: defaults_of_tower(name) for name in towers().tower},
    )
    _write(GOLDEN, {name: golden_of(name) for name in known_model_types() if name in causal_types()})
    _write(TENSORS, {name: tensors_of(name) for name in buildable_types()})
