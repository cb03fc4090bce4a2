"""Which part of the training state a stored tensor is, where its name tells.

The rule, on the components of the name (split at "." and "/"); the first line that holds decides:

- other: a component says random state, EMA copy, buffer (`running_mean`, `inv_freq`, ...) or scale of a
  quantised weight;
- moments and master of a universal checkpoint of DeepSpeed, which has a file for each: the name of the file;
- moments: a component is a moment of an optimizer of torch, Megatron, DeepSpeed or Optax (`exp_avg`, ...);
- master: a component is Megatron's or DeepSpeed's fp32 copy, it is the `param` beside an `exp_avg`, or it stands
  under Megatron's `optimizer.state.param`, as the fully reshardable optimizer names it;
- other: it stands in an optimizer (`optimizer`, `optim`, `param_groups`, ...), or its dtype holds no weights;
- weights: it stands in a model (`model`, `module`, `state_dict`, ...), or its name ends in weight or bias, or
  its container is one module's state: tensors by name and nothing else, some ending in weight or bias;
- other: nothing of this holds.

Nothing is inferred from sizes, with one exception: the causal mask of GPT-2 files (`attn.bias` of shape
1 x 1 x n x n) is a buffer.
"""

from __future__ import annotations

import re

from sizing.checkpoint_files.buffers import BUFFERS
from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.dtypes import FLOATING, NOT_STATED, QUANTISED
from sizing.checkpoint_files.kinds import Part

MOMENTS = frozenset(
    {
        "exp_avg",
        "exp_avg_sq",
        "max_exp_avg_sq",
        "exp_inf",
        "exp_avg_sq_row",
        "exp_avg_sq_col",
        "momentum_buffer",
        "square_avg",
        "grad_avg",
        "acc_delta",
    }
)
"""State of `torch.optim` and of the fused optimizers of Megatron and DeepSpeed, by names no module uses."""

MOMENTS_IN_OPTIMIZER = frozenset(
    {
        "sum",
        "row_var",
        "col_var",
        "variance",
        "state1",
        "state2",
    }
)
"""State of Adagrad, torch's Adafactor and the 8-bit optimizers: too common as words outside an optimizer."""

OPTAX_MOMENTS = frozenset({"mu", "nu", "trace"})
"""Branches of the state of Optax's Adam, Lion and momentum, each with a tree of the parameters below it."""

MASTER = frozenset(
    {
        "fp32_param",
        "master_param",
        "master_weights",
        "fp32_from_fp16_params",
        "fp32_from_float16_params",
        "shard_fp32_from_float16_groups",
        "shard_fp32_groups",
        "single_partition_of_fp32_groups",
        "fp32_flat_groups",
        "fp32_groups_flat",
        "fp32_groups",
    }
)
OPTIMIZER = frozenset(
    {
        "optimizer",
        "optim",
        "optimizers",
        "optimizer_state",
        "optimizer_states",
        "optimizer_state_dict",
        "base_optimizer_state",
        "opt_state",
        "param_groups",
    }
)
EMA = frozenset(
    {
        "ema",
        "ema_model",
        "model_ema",
        "ema_state_dict",
        "shadow_params",
    }
)

_MODEL = re.compile(r"(model|module|state_dict|model_state_dict|model_state|params)\d*")
_WEIGHT = re.compile(r"(.*_)?(weight|bias)\d*")
_RANDOM_STATE = re.compile(r"(.*_)?rng(_.*)?")
_CAUSAL_MASK = re.compile(r"(.*\.)?attn\.bias")


def parts_of(container: Container) -> list[Part]:
    """The part of every tensor of a container, in their order."""
    names = [tensor.name for tensor in container.tensors]
    optimizer_branches = {_branch(name) for name in names if _components(name)[-1] == "exp_avg"}
    is_module = container.is_state_dict and _is_module_state(names)
    of_file = _part_of_file(container)
    if of_file is not None:
        return [of_file if tensor.dtype in FLOATING else "other" for tensor in container.tensors]
    return [
        _part(tensor, is_module=is_module, beside_moments=_branch(tensor.name) in optimizer_branches)
        for tensor in container.tensors
    ]


def _part_of_file(container: Container) -> Part | None:
    """The part of a file of a universal checkpoint, `zero/NAME/fp32.pt`: one tensor, of ZeRO 1 and 2 a `param`."""
    path = container.paths[0] if container.paths else None
    is_alone = "param" in container.keys or not container.keys
    if path is None or not is_alone or path.parent.parent.name != "zero":
        return None
    return "master" if path.stem == "fp32" else "moments" if path.stem in MOMENTS else None


def _part(tensor: StoredTensor, *, is_module: bool, beside_moments: bool) -> Part:
    components = _components(tensor.name)
    if _is_other(tensor, components):
        return "other"
    if _is_moment(components):
        return "moments"
    if MASTER & set(components) or (components[-1] == "param" and beside_moments) or _is_reshardable_master(components):
        return "master"
    if _is_in_optimizer(components) or tensor.dtype not in FLOATING | QUANTISED | {NOT_STATED}:
        return "other"
    return "weights" if is_module or _is_weight(components) else "other"


def _is_in_optimizer(components: list[str]) -> bool:
    return bool(OPTIMIZER & set(components)) or components[0] == "state"


def _is_moment(components: list[str]) -> bool:
    if MOMENTS & set(components):
        return True
    named = components[-1] in MOMENTS_IN_OPTIMIZER or OPTAX_MOMENTS & set(components)
    return bool(named) and _is_in_optimizer(components)


def _is_reshardable_master(components: list[str]) -> bool:
    """Source: Megatron-Core 0.16, optimizer/distrib_optimizer.py, sharded_param_state_fully_reshardable."""
    return ("optimizer", "state", "param") in zip(components, components[1:], components[2:], strict=False)


def _is_weight(components: list[str]) -> bool:
    """Whether a name stands in a model, or ends as a weight does."""
    *places, last = components
    return any(map(_MODEL.fullmatch, places)) or _WEIGHT.fullmatch(last) is not None


def _is_other(tensor: StoredTensor, components: list[str]) -> bool:
    return (
        bool(EMA & set(components))
        or bool(BUFFERS & set(components))
        or components[-1].endswith("_scales")
        or any(_RANDOM_STATE.fullmatch(component) for component in components)
        or (_CAUSAL_MASK.fullmatch(tensor.name) is not None and tensor.shape[:2] == (1, 1))
    )


def _is_module_state(names: list[str]) -> bool:
    """Whether names are those of one module's state: some end in weight, and none stands in an optimizer."""
    components = [_components(name) for name in names]
    return any(_WEIGHT.fullmatch(parts[-1]) for parts in components) and not any(
        OPTIMIZER & set(parts) for parts in components
    )


def _components(name: str) -> list[str]:
    return re.split(r"[./]", name)


def _branch(name: str) -> str:
    return name.rpartition(".")[0]
