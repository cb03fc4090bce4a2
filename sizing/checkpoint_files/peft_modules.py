"""PEFT's names of the modules that get adapters, and the matrices of a scenario that they stand for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_QUERY_KEY_VALUE = ("attention.query", "attention.key", "attention.value")
TENSORS_OF_MODULES: dict[str, tuple[str, ...]] = {
    "q_proj": ("attention.query",),
    "k_proj": ("attention.key",),
    "v_proj": ("attention.value",),
    "o_proj": ("attention.output",),
    "gate_proj": ("ffn.up",),
    "up_proj": ("ffn.up",),
    "down_proj": ("ffn.down",),
    "query": ("attention.query",),
    "key": ("attention.key",),
    "value": ("attention.value",),
    "out_proj": ("attention.output",),
    "wo": ("attention.output",),
    "qkv_proj": _QUERY_KEY_VALUE,
    "wqkv": _QUERY_KEY_VALUE,
    "query_key_value": _QUERY_KEY_VALUE,
    "c_attn": _QUERY_KEY_VALUE,
    "w_pack": _QUERY_KEY_VALUE,
    "linear_qkv": _QUERY_KEY_VALUE,
    "attention_qkv": _QUERY_KEY_VALUE,
    "linear_proj": ("attention.output",),
    "attention_dense": ("attention.output",),
    "linear_fc1": ("ffn.up",),
    "linear_fc2": ("ffn.down",),
    "mlp_fc1": ("ffn.up",),
    "mlp_fc2": ("ffn.down",),
    "mlp": ("ffn.up", "ffn.down"),
    "dense": ("attention.output",),
    "q_a_proj": ("attention.query_down",),
    "q_b_proj": ("attention.query_up",),
    "kv_a_proj_with_mqa": ("attention.key_value_down",),
    "kv_b_proj": ("attention.key_value_up",),
    "gate_up_proj": ("ffn.up",),
    "dense_h_to_4h": ("ffn.up",),
    "dense_4h_to_h": ("ffn.down",),
    "fc1": ("ffn.up",),
    "fc2": ("ffn.down",),
    "c_fc": ("ffn.up",),
    "c_proj": ("attention.output", "ffn.down"),
}
"""Matrices by modules. A gate and the projection beside it are two of one name; GPT-2 has a c_proj in attention
and in its feed-forward block, of which PEFT adapts both. Source: the models of transformers 5.23; Megatron-Bridge,
peft/lora.py, and NeMo 1, whose modules begin with linear, attention and mlp."""
EXPERTS_OF_MODULES: dict[str, tuple[str, ...]] = {
    "linear_fc1": ("shared_expert.up", "expert.up"),
    "linear_fc2": ("shared_expert.down", "expert.down"),
}
"""Matrices of experts by modules whose names they share in Megatron-Core. Source: Megatron-Bridge 0.6, peft/utils.py,
is_expert_linear."""
HALVES_OF_GATE = frozenset({"gate_proj", "up_proj"})

_BARE_PARAMETERS = ("expert", "router", "ssm.decay")
"""Matrices that modules of transformers keep as bare parameters, by the first parts of their names: routed experts
stand in one tensor of three dimensions for each layer. Source: transformers 5.23, of 23 model types with experts or
layers of a state space that were built; before version 5 experts were linear modules
(bitsandbytes-foundation/bitsandbytes#1849). Llama 4's router is a linear module of a class of its own."""

ALL_LINEAR = ("attention", "ffn")
"""Matrices of a dense model that PEFT's `all-linear` adapts: all linear modules but the head."""

_WORDS_FOR_ALL = ("all", "all-linear", "all_linear")


def has_half_of_gate(modules: Collection[str]) -> bool:
    """Return whether one of gate_proj and up_proj is named without the other, and so half of the matrices of `ffn.up`.

    >>> has_half_of_gate(["up_proj"]), has_half_of_gate(["gate_proj", "up_proj"]), has_half_of_gate(["q_proj"])
    (True, False, False)
    """
    return len(HALVES_OF_GATE.intersection(modules)) == 1


def tensors_of_modules(modules: Collection[str]) -> tuple[str, ...]:
    """Return the matrices of modules that are all known; half of a gate keeps the name of its module.

    >>> tensors_of_modules({"up_proj", "gate_proj"}), tensors_of_modules({"up_proj", "down_proj"})
    (('ffn.up',), ('ffn.down', 'up_proj'))
    """
    halves = HALVES_OF_GATE if has_half_of_gate(modules) else ()
    return tuple(
        sorted({each for name in modules for each in ((name,) if name in halves else TENSORS_OF_MODULES[name])})
    )


def module_of(name: str) -> str:
    """Return the last part of a path of modules, as the tables spell it.

    >>> module_of("model.layers.0.self_attn.q_proj")
    'q_proj'
    """
    return name.rpartition(".")[2].lower()


def is_bare_parameter(name: str) -> bool:
    """Return whether a matrix is no linear module in transformers, so that bitsandbytes does not find it.

    >>> [is_bare_parameter(name) for name in ("expert.up", "mtp.router", "shared_expert.up", "ssm.in")]
    [True, True, False, False]
    """
    own = f"{name.removeprefix('mtp.')}."
    return any(own.startswith(f"{each}.") for each in _BARE_PARAMETERS)


def means_all_linear(modules: Collection[str]) -> bool:
    """Return whether these modules are PEFT's word for all linear ones.

    >>> means_all_linear(["all-linear"]), means_all_linear(["q_proj"])
    (True, False)
    """
    return len(modules) == 1 and next(iter(modules)).lower() in _WORDS_FOR_ALL


def is_all_dense(matrices: Collection[str]) -> bool:
    """Return whether `ALL_LINEAR` covers all these matrices of layers.

    Of others, PEFT's choice differs by version and model type. Of Mixtral and Qwen3 it adapts routers and routed
    experts, gate and up-projection with twice the rank; of gpt-oss, Granite and Jamba it leaves both out; of Mamba,
    Nemotron-H and Falcon-H1 it refuses the word. Source: PEFT 0.21.2 with transformers 5.23, on 18 model types;
    utils/transformers_weight_conversion.py, _convert_peft_config_moe.
    """
    return all(each.startswith(ALL_LINEAR) for each in matrices)


def tensors_named(names: Sequence[str], matrices: Collection[str]) -> tuple[str, ...]:
    """Replace modules of PEFT among names by the matrices that they stand for; other names stay.

    >>> tensors_named(["q_proj", "attention.output"], ["attention.query", "attention.output", "ffn.up"])
    ('attention.query', 'attention.output')
    >>> tensors_named(["all-linear"], ["attention.query", "ffn.up"])
    ('attention', 'ffn')
    """
    if means_all_linear(names) and is_all_dense(matrices):
        return ALL_LINEAR
    own = {name for matrix in matrices for name in (matrix, matrix.split(".")[0])}
    of_modules = {name: TENSORS_OF_MODULES.get(module_of(name), (name,)) for name in names if name not in own}
    return tuple(dict.fromkeys(tensor for name in names for tensor in of_modules.get(name, (name,))))
