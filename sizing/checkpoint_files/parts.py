"""Decide from a stored tensor's name which part of the training state it is.

The rule, on the components of the name (split at "." and "/"); the first line that holds decides:

- other: a component says random state, EMA copy, buffer (`running_mean`, `inv_freq`, ...) or scale of a
  quantised weight;
- moments and master of a universal checkpoint of DeepSpeed, which has a file for each: the name of the file;
- moments: a component is a moment of an optimizer of torch, Megatron, DeepSpeed or Optax (`exp_avg`, ...);
- master: a component is Megatron's or DeepSpeed's fp32 copy, it is the `param` beside an `exp_avg`, or it stands
  under Megatron's `optimizer.state.param`, as the fully reshardable optimizer names it; or a component outside the
  model says a master copy (`master`, `main_params`, `model_fp32`, ...), as scripts call it, and the container is more
  than one module's state;
- other: it stands in an optimizer (`optimizer`, `optim`, `param_groups`, ...), or its dtype holds no weights;
- weights: it stands in a model (`model`, `module`, `state_dict`, ...), or its name ends in weight or bias, or
  its container is one module's state: tensors by name and nothing else, some ending in weight or bias, or a
  safetensors file whose name says that it holds a model;
- other: nothing of this holds.

Nothing is inferred from sizes, with one exception: the causal mask of GPT-2 files (`attn.bias` of shape
1 x 1 x n x n) is a buffer.
"""

from __future__ import annotations

import itertools
import re

from sizing.checkpoint_files.container import Container, StoredTensor
from sizing.checkpoint_files.contents import Part
from sizing.checkpoint_files.dtypes import BUFFERS, FLOATING, NOT_STATED, QUANTISED

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
"""State of `torch.optim` and of the fused optimizers of Megatron and DeepSpeed, by names that no module uses."""

MOMENTS_IN_OPTIMIZER = frozenset(
    {
        "sum",
        "row_var",
        "col_var",
        "variance",
        "state1",
        "state2",
        "ax",
        "prev",
        "step_size",
    }
)
"""State of Adagrad, torch's Adafactor, the 8-bit optimizers, ASGD and Rprop: words that are too common outside an
optimizer."""

OPTAX_MOMENTS = frozenset({"mu", "nu", "trace"})
"""Branches of the state of Optax's Adam, Lion and momentum, each with a tree of the parameters below it."""

MASTER = frozenset(
    {
        "fp32_param",
        "master_param",
        "master_weights",
        "fp32_from_fp16",
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
_OF_MODEL = r"(model|params?|parameters|weights?|state_dict)"
_MASTER_BRANCH = re.compile(
    rf"((fp32|float32|{_OF_MODEL})_)?master(_(copy|{_OF_MODEL}))?|main_(params?|parameters|weights?)"
    rf"|(fp32|float32)(_(copy|{_OF_MODEL}))?|{_OF_MODEL}_(fp32|float32)"
)
"""What scripts call the fp32 copy that they save beside the weights."""
_WEIGHT = re.compile(r"(.*_)?(weight|bias)\d*")
_MODEL_FILE = re.compile(r"(.*_)?model([.-].*)?\.safetensors(\.index\.json)?")
"""Files that libraries write weights alone to: model.safetensors, adapter_model.safetensors, their shards and index."""
_RANDOM_STATE = re.compile(r"(.*_)?rng(_.*)?")
_CAUSAL_MASK = re.compile(r"(.*\.)?attn\.bias")


def parts_of(container: Container) -> list[Part]:
    """Return the part of every tensor of a container, in order."""
    part_of_file = _decide_part_of_file(container)
    if part_of_file is not None:
        return [part_of_file if tensor.dtype in FLOATING else "other" for tensor in container.tensors]
    names = [tensor.name for tensor in container.tensors]
    optimizer_branches = {_branch(name) for name in names if _components(name)[-1] == "exp_avg"}
    words = [_components(name) for name in names]
    has_weights = any(_WEIGHT.fullmatch(each[-1]) for each in words) or (
        container.format == "safetensors" and all(_MODEL_FILE.fullmatch(path.name) for path in container.paths)
    )
    is_module = container.is_state_dict and has_weights and not any(OPTIMIZER & set(each) for each in words)
    has_branches = not is_module or any(_MODEL.fullmatch(each[0]) for each in words)
    return [
        _decide_part(
            tensor,
            is_module=is_module,
            has_branches=has_branches,
            beside_moments=_branch(tensor.name) in optimizer_branches,
        )
        for tensor in container.tensors
    ]


def _decide_part_of_file(container: Container) -> Part | None:
    """Decide the part of a file of a universal checkpoint, `zero/NAME/fp32.pt`.

    Such a file has one tensor, `param` with ZeRO 1 and 2. None for any other file.
    """
    path = container.paths[0] if container.paths else None
    is_alone = "param" in container.keys or not container.keys
    if path is None or not is_alone or path.parent.parent.name != "zero":
        return None
    return "master" if path.stem == "fp32" else "moments" if path.stem in MOMENTS else None


def _decide_part(tensor: StoredTensor, *, is_module: bool, has_branches: bool, beside_moments: bool) -> Part:
    """Decide the part of a tensor by the rule above, line by line.

    `has_branches`: the first components of names are parts of a state, and not modules of a model.

    Source of the master weight that any layout can load: Megatron-Core 0.16, optimizer/distrib_optimizer.py,
    sharded_param_state_fully_reshardable.
    """
    components = _components(tensor.name)
    *places, last = components
    words = set(components)
    is_in_optimizer = bool(OPTIMIZER & words) or components[0] == "state"
    is_reshardable = ("optimizer", "state", "param") in zip(components, components[1:], components[2:], strict=False)
    is_no_state = (  # random state, an EMA copy, a buffer or a scale of a quantised weight
        is_average(tensor)
        or bool(BUFFERS & words)
        or last.endswith("_scales")
        or any(map(_RANDOM_STATE.fullmatch, components))
        or (_CAUSAL_MASK.fullmatch(tensor.name) is not None and tensor.shape[:2] == (1, 1))
    )
    if is_no_state:
        return "other"
    if MOMENTS & words or (is_in_optimizer and (last in MOMENTS_IN_OPTIMIZER or OPTAX_MOMENTS & words)):
        return "moments"
    outside_model = itertools.takewhile(lambda each: not _MODEL.fullmatch(each), components) if has_branches else ()
    if MASTER & words or (last == "param" and beside_moments) or is_reshardable:
        return "master"
    if tensor.dtype in FLOATING and any(map(_MASTER_BRANCH.fullmatch, outside_model)):
        return "master"
    if is_in_optimizer or tensor.dtype not in FLOATING | QUANTISED | {NOT_STATED}:
        return "other"
    is_in_model = any(map(_MODEL.fullmatch, places))
    return "weights" if is_module or is_in_model or _WEIGHT.fullmatch(last) else "other"


def is_named_as_weight(tensor: StoredTensor) -> bool:
    """Return whether a tensor's name ends as that of a module's weight or bias."""
    return _WEIGHT.fullmatch(_components(tensor.name)[-1]) is not None


def is_average(tensor: StoredTensor) -> bool:
    """Return whether a tensor is of a moving average of the weights (EMA), by its name."""
    return not EMA.isdisjoint(_components(tensor.name))


def _components(name: str) -> list[str]:
    return re.split(r"[./]", name)


def _branch(name: str) -> str:
    return name.rpartition(".")[0]
