"""Lists of tensors, made from a module in memory or from tensors that were read elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """Attributes of a tensor that are read, as torch's tensors have them."""

    @property
    def shape(self) -> Iterable[int]:
        """Size of each dimension."""

    @property
    def dtype(self) -> object:
        """Dtype of the values."""


class Module(Protocol):
    """A torch module: parameters and buffers by name, with a tied parameter under each of its names."""

    def named_parameters(self, *, remove_duplicate: bool) -> Iterable[tuple[str, _Tensor]]:
        """List every parameter by name; with `remove_duplicate` off, a tied one under each of its names."""

    def named_buffers(self) -> Iterable[tuple[str, _Tensor]]:
        """List every buffer by its name."""


def from_module(module: Module) -> Model:
    """Make the `model` block of a torch module. No value is read; a module on the meta device takes no memory.

    Heads and experts per token come from `module.config`, if it has one as transformers' models do. Raises InvalidInput
    if the tensors are not a model, as `model_of_tensors` does.
    """
    return model_of_tensors(tensors_of_module(module), config_of_module(module))


def tensors_of_module(module: Module) -> list[FlatTensor]:
    """List parameters, then buffers. A parameter under a second name has the role `tied`."""
    tensors: list[FlatTensor] = []
    seen: set[int] = set()
    for name, parameter in module.named_parameters(remove_duplicate=False):
        tensors.append(_flatten(name, parameter, "tied" if id(parameter) in seen else None))
        seen.add(id(parameter))
    tensors += (_flatten(name, buffer, "buffer") for name, buffer in module.named_buffers())
    return tensors


def config_of_module(module: object) -> Mapping[str, Any]:
    """Return the config of a module of transformers; empty if it has none."""
    as_dict = getattr(getattr(module, "config", None), "to_dict", None)
    config = as_dict() if callable(as_dict) else {}
    return config if isinstance(config, Mapping) else {}


def model_of_tensors(tensors: Iterable[FlatTensor], config: Mapping[str, Any] | None = None) -> Model:
    """Make the `model` block of tensors. A config.json can add heads and experts per token.

    Raises InvalidInput where no parameter is among them, or where they do not fit one list.
    """
    text = _find_text_config(config or {})
    num_heads = _find_positive(text, _ATTENTION_HEADS)
    heads = Heads(num_heads, _find_positive(text, _KEY_VALUE_HEADS) if num_heads else None)
    entries = entries_of(tensors)
    listed = listed_model(entries, heads)
    fields = {"num_attention_heads": heads.num_attention, "num_kv_heads": heads.num_key_value}
    per_token = _find_positive(text, _EXPERTS_PER_TOKEN)
    if listed.num_experts and per_token and per_token <= listed.num_experts:
        fields["num_experts_per_token"] = per_token
    return Model.model_validate({"tensors": entries} | {name: value for name, value in fields.items() if value})


def modules_left_out(config: Mapping[str, Any], model: Model) -> int:
    """Count the modules for multi-token prediction that a config states but the list lacks; 0 if it has them.

    Source: the fields of the configs of DeepSeek-V3, GLM-4.5, MiMo and Qwen3-Next.

    >>> entries = entries_of([FlatTensor("model.layers.0.norm.weight", (4,), "bfloat16")])
    >>> modules_left_out({"num_nextn_predict_layers": 1}, Model(tensors=entries))
    1
    """
    listed = listed_model(model.tensors or (), Heads())
    has_them = any(row.predicts_further for row in listed.rows) or any(
        group.name.startswith("mtp.") for group in listed.inventory
    )
    return 0 if has_them else _find_positive(_find_text_config(config), MULTI_TOKEN_PREDICTION) or 0


def _flatten(name: str, tensor: _Tensor, role: Any) -> FlatTensor:
    return FlatTensor(name, tuple(int(size) for size in tensor.shape), str(tensor.dtype).removeprefix("torch."), role)


def _find_text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    text = config.get("text_config")
    return text if isinstance(text, Mapping) else config


def _find_positive(config: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """Find the first of some fields that is a positive number."""
    values = (config.get(name) for name in names)
    return next((value for value in values if type(value) is int and value > 0), None)
