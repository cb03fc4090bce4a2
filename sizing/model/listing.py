"""Lists of tensors made from what people have: a module in memory, or tensors that were read elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from sizing.model.huggingface import MULTI_TOKEN_PREDICTION
from sizing.model.listed import FlatTensor, Heads, entries_of, listed_model
from sizing.model.model import Model

_ATTENTION_HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "attention_heads",
    "decoder_attention_heads",
    "num_decoder_attention_heads",
)
_KEY_VALUE_HEADS = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
_EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts")


class _Tensor(Protocol):
    """What is read of a tensor; torch's have it."""

    @property
    def shape(self) -> Iterable[int]:
        """Dimensions."""

    @property
    def dtype(self) -> object:
        """Kind of its values."""


class Module(Protocol):
    """A module as torch has it: parameters and buffers by name, a tied parameter under each of its names."""

    def named_parameters(self, *, remove_duplicate: bool) -> Iterable[tuple[str, _Tensor]]:
        """Every parameter, under each of its names where duplicates are not removed."""

    def named_buffers(self) -> Iterable[tuple[str, _Tensor]]:
        """Every buffer."""


def from_module(module: Module) -> Model:
    """The `model` block of a torch module, of which no value is read; one on the meta device takes no memory.

    Heads and experts per token are those of `module.config`, where it has one as transformers' models do.
    Raises InvalidInput where the tensors are no model, as `model_of_tensors` does.
    """
    return model_of_tensors(tensors_of_module(module), config_of_module(module))


def tensors_of_module(module: Module) -> list[FlatTensor]:
    """Parameters, then buffers; a parameter that was named before is tied."""
    return [*_parameters(module), *(_flat(name, buffer, "buffer") for name, buffer in module.named_buffers())]


def config_of_module(module: object) -> Mapping[str, Any]:
    """The config of a module of transformers; empty where it has none."""
    as_dict = getattr(getattr(module, "config", None), "to_dict", None)
    found = as_dict() if callable(as_dict) else {}
    return found if isinstance(found, Mapping) else {}


def model_of_tensors(tensors: Iterable[FlatTensor], config: Mapping[str, Any] | None = None) -> Model:
    """The `model` block of tensors, with what a config.json says beside them: heads, experts per token.

    Raises InvalidInput where no parameter is among them, or where they do not fit one list.
    """
    text = _of_text(config or {})
    entries, heads = entries_of(tensors), _heads(text)
    listed = listed_model(entries, heads)
    fields = {"num_attention_heads": heads.num_attention, "num_kv_heads": heads.num_key_value}
    per_token = _first(text, _EXPERTS_PER_TOKEN)
    if listed.num_experts and per_token and per_token <= listed.num_experts:
        fields["num_experts_per_token"] = per_token
    return Model.model_validate({"tensors": entries} | {name: value for name, value in fields.items() if value})


def modules_left_out(config: Mapping[str, Any], model: Model) -> int:
    """Modules of multi-token prediction that a config counts and of which the list has no tensor; 0 where it has.

    Source: the fields of the configs of DeepSeek-V3, GLM-4.5, MiMo and Qwen3-Next.

    >>> entries = entries_of([FlatTensor("model.layers.0.norm.weight", (4,), "bfloat16")])
    >>> modules_left_out({"num_nextn_predict_layers": 1}, Model(tensors=entries))
    1
    """
    listed = listed_model(model.tensors or (), Heads())
    has_them = any(row.predicts_further for row in listed.rows) or any(
        group.name.startswith("mtp.") for group in listed.inventory
    )
    return 0 if has_them else _first(_of_text(config), MULTI_TOKEN_PREDICTION) or 0


def _parameters(module: Module) -> Iterator[FlatTensor]:
    seen: set[int] = set()
    for name, parameter in module.named_parameters(remove_duplicate=False):
        yield _flat(name, parameter, "tied" if id(parameter) in seen else None)
        seen.add(id(parameter))


def _flat(name: str, tensor: _Tensor, role: Any) -> FlatTensor:
    return FlatTensor(name, tuple(int(size) for size in tensor.shape), str(tensor.dtype).removeprefix("torch."), role)


def _of_text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, Mapping) else config


def _heads(config: Mapping[str, Any]) -> Heads:
    attention = _first(config, _ATTENTION_HEADS)
    return Heads(attention, _first(config, _KEY_VALUE_HEADS) if attention else None)


def _first(config: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """The first of some fields that is a positive number."""
    found = (config.get(name) for name in names)
    return next((value for value in found if type(value) is int and value > 0), None)
