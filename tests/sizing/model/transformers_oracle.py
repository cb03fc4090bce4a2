"""What `transformers` builds on the meta device, and the two files made from it.

    python -m tests.sizing.model.transformers_oracle

writes the defaults of the configuration classes (`sizing/model/composed/defaults.json`) and the golden counts
(`transformers_golden.json` beside this file), both with the version of transformers that was asked.
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
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from sizing.model.composed import model_types as rows
from sizing.model.composed.expressions import names_in
from sizing.model.composed.model_types import Expression, ModelType, model_types
from sizing.model.huggingface import config_classes, known_model_types

GOLDEN = Path(__file__).with_name("transformers_golden.json")
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


def config_of(model_type: str, **fields: Any) -> transformers.PreTrainedConfig:
    """The config of a model_type, by default its class's own."""
    return transformers.AutoConfig.for_model(model_type, **INCOMPLETE.get(model_type, {}) | fields)


def built(config: transformers.PreTrainedConfig) -> Built:
    """The model that `transformers` makes, tied tensors once."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)  # type: ignore[no-untyped-call]  # transformers has no type for it
    layers: dict[int, int] = {}
    for name, parameter in model.named_parameters():
        if found := _LAYER.search(name):
            layers[int(found[1])] = layers.get(int(found[1]), 0) + parameter.numel()
    whole = sum(parameter.numel() for parameter in model.parameters())
    return Built(whole, tuple(layers[number] for number in sorted(layers)))


def names_read(model_type: str) -> set[str]:
    """The names of a config that tell its tensors here."""
    if model_type in config_classes():
        return {*config_classes()[model_type].fields, *config_classes()[model_type].must_equal}
    row = model_types()[model_type]
    return {name for expression in _expressions(row) for name in _read(expression, row.values)}


def defaults_of(model_type: str) -> dict[str, Any]:
    """The row of a model_type in `defaults.json`."""
    kind = type(config_of(model_type))
    other_names = dict(kind.attribute_map or {})
    fields = {field.name: field for field in dataclasses.fields(kind)}
    fields |= {same: fields[name] for name, same in other_names.items() if name in fields and same not in fields}
    values = model_types()[model_type].values
    core = {name for value in CORE if value in values for name in _read(values[value], values)}
    read = names_read(model_type)
    required = sorted(name for name in core & fields.keys() if _is_number(_default(fields[name])))
    return {
        "required": required,
        "values": {name: _default(fields[name]) for name in sorted(read & fields.keys() - set(required))},
        "other_names": {name: same for name, same in sorted(other_names.items()) if same in read},
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
    _write(DEFAULTS, {name: defaults_of(name) for name in sorted(model_types())})
    _write(GOLDEN, {name: golden_of(name) for name in known_model_types() if name in causal_types()})
