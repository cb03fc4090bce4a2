"""Tensors that are trained: all, all except some, or only adapters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from sizing.checkpoint_files.peft_modules import (
    HALVES_OF_GATE,
    TENSORS_OF_MODULES,
    has_half_of_gate,
    means_all_linear,
    module_of,
    tensors_named,
)
from sizing.errors import InvalidInput
from sizing.model.families import FusedPart
from sizing.model.inventory import COPY, Inventory, TensorGroup, with_fused

_OF_ATTENTION = re.compile(r"(?:^|\.)(?:cross|(?!linear)[^.]*(?:attention|attn))(?:\.|$)")
"""Part of a name that means attention. Linear attention is a kind of layer of its own."""
_FUSED_MODULES: dict[str, FusedPart] = {
    "linear_qkv": "attention",
    "attention_qkv": "attention",
    "linear_fc1": "ffn",
    "mlp_fc1": "ffn",
    "mlp": "ffn",
}
"""Modules of Megatron-Core that keep several matrices as one in every model, by the part of a layer."""
DESCRIBE = "describe the model by model.preset, model.architecture or model.huggingface_config"
"""Remedy where a number of parameters alone names no tensor."""
_DESCRIBE_OR_COUNT = f"{DESCRIBE}; or say by training.trained_parameters alone how many are trained"


_PARTS_BY_OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "experts": ("expert",),
    "ffn": ("expert", "shared_expert"),
    "mlp": ("ffn", "expert", "shared_expert"),
    "feed_forward": ("ffn", "expert", "shared_expert"),
    "attn": ("attention",),
    "self_attn": ("attention",),
    "embeddings": ("embedding",),
    "embed_tokens": ("embedding",),
    "tok_embeddings": ("embedding",),
    "word_embeddings": ("embedding",),
    "embed_in": ("embedding",),
    "wte": ("embedding",),
    "lm_head": ("output_head",),
    "embed_out": ("output_head",),
    "head": ("output_head",),
    "norms": ("norm", "final_norm"),
    "gate": ("router",),
    "vision_tower": ("vision",),
    "visual": ("vision",),
}
"""Parts of a model by names of other libraries, and in the plural. Source: modules of transformers 5.23."""


def _names_of_parts(inventory: Inventory, names: Collection[str]) -> tuple[str, ...]:
    """Replace a name that no tensor has by the parts of this model that it means elsewhere, such as `experts`.

    >>> of_expert = TensorGroup("expert.up", (8, 4), 8, layers=range(3), experts=2)
    >>> _names_of_parts((of_expert,), ["experts", "ffn", "other"])
    ('expert', 'other')
    """

    def parts_of(name: str) -> list[str]:
        others = _PARTS_BY_OTHER_NAMES.get(module_of(name)) or TENSORS_OF_MODULES.get(module_of(name), ())
        meant = [name] if any(_is_named(group, [name]) for group in inventory) else others
        return [part for part in meant if any(_is_named(group, [part]) for group in inventory)]

    return tuple(dict.fromkeys(part for name in names for part in parts_of(name) or [name]))


def with_frozen(inventory: Inventory, names: Collection[str], *, field: str) -> Inventory:
    """Mark tensors as not trained, by name or by the beginning of the name.

    Raises InvalidInput for a name that no tensor has.
    """
    names = _names_of_parts(inventory, names)
    _check_names(inventory, names, field=field, remedy_of_count=f"give training.trained_parameters, or {DESCRIBE}")
    return tuple(replace(group, is_trained=False) if _is_named(group, names) else group for group in inventory)


def with_trained_count(inventory: Inventory, num_trained: int, *, field: str) -> Inventory:
    """Cut a model of which only the number of parameters is known into trained and frozen ones.

    Raises InvalidInput where tensors or experts are known, which have names, and where fewer parameters are there.

    >>> whole = TensorGroup("parameters", (100,), 100, placement="spread")
    >>> [(g.num_parameters, g.is_trained) for g in with_trained_count((whole,), 30, field="f")]
    [(30, True), (70, False)]
    """
    if len(inventory) > 1 or inventory[0].placement != "spread":
        rule, remedy = "needs a model given by num_parameters alone, without experts", "name tensors in training.frozen"
        if inventory[0].placement == "spread":
            remedy = f"{DESCRIBE}, and {remedy}"
        raise InvalidInput.of(field, rule, value=num_trained, remedy=remedy)
    (whole,) = inventory
    num_frozen = whole.num_parameters - num_trained
    if num_frozen < 0:
        rule = f"must be at most model.num_parameters {whole.num_parameters}"
        raise InvalidInput.of(field, rule, value=num_trained, remedy="lower it")
    trained = replace(whole, shape=(num_trained,), pieces=num_trained)
    frozen = replace(whole, name=f"{whole.name}.frozen", shape=(num_frozen,), pieces=num_frozen, is_trained=False)
    return (trained, frozen) if num_frozen else (whole,)


def with_adapters(
    inventory: Inventory,
    *,
    rank: int,
    names: Collection[str] | None,
    field: str,
    dora: bool = False,
    whole: Inventory = (),
    shares_experts: bool = False,
    cuts_both: bool = False,
) -> Inventory:
    """Freeze all tensors, and add low-rank adapters beside the named matrices.

    A matrix of out x in gets rank x in and out x rank. If the ranks cut the matrix by its outputs, they cut the second
    adapter along the same dimension; if by its inputs, the first. The other adapter is whole on every rank, unless the
    trainer `cuts_both`: then the rank is cut, or the outputs. Matrices that transformers keeps as one (queries, keys
    and values of GPT-2) share the first adapter: PEFT puts one pair beside each module (PEFT 0.21,
    tuners/lora/layer.py); one of gate_proj and up_proj is half of the matrices of `ffn.up`. With `dora` each output has
    a magnitude, cut as the outputs are (Liu et al. 2024, arXiv 2402.09353, equation 5; PEFT 0.21, tuners/lora/dora.py,
    get_weight_norm). Without names, `default_targets` get adapters. Matrices that are trained `whole` (`trained_whole`)
    get none. With `shares_experts` all experts of a rank have one adapter, beside gate and up-projection as one matrix.
    Source: Hu et al. 2021, arXiv 2106.09685, section 4.1. Raises InvalidInput for a name that no matrix of the layers
    has, without names if there are no targets, and where all targets are trained whole.

    >>> matrix = TensorGroup("ffn.up", (8, 4), 8, layers=range(3))
    >>> [g.shape for g in with_adapters((matrix,), rank=2, names=["ffn"], field="f", dora=True)]
    [(8, 4), (2, 4), (8, 2), (8,)]
    >>> adapters = with_adapters((matrix,), rank=2, names=["ffn"], field="f", cuts_both=True)[1:]
    >>> [(g.shape, g.pieces) for g in adapters]
    [((2, 4), 2), ((8, 2), 8)]
    """
    matrices = tuple(group for group in inventory if group.is_hidden_matrix)
    if names is None and not (names := default_targets(inventory)):
        rule = "is required for a model of which no attention is known"
        remedy = f"name some of its matrices: {_list_names(matrices)}" if matrices else _DESCRIBE_OR_COUNT
        raise InvalidInput.of(field, rule, value=None, remedy=remedy)
    if not matrices:
        raise InvalidInput.of(field, "needs a model of which matrices are known", value=None, remedy=_DESCRIBE_OR_COUNT)
    if has_half_of_gate(set(map(module_of, names))):
        others = [name for name in names if module_of(name) not in HALVES_OF_GATE]
        both = tensors_named(others, {group.name for group in matrices})
        halves = [g for g in matrices if g.name == "ffn.up" and g.count % 2 == 0 and not _is_named(g, both)]
        matrices = tuple(replace(g, count=g.count // 2) if g in halves else g for g in matrices)
    fused_parts = [_FUSED_MODULES[name] for name in map(module_of, names) if name in _FUSED_MODULES]
    matrices = with_fused(matrices, [*fused_parts, "experts"] if shares_experts else fused_parts)
    names = name_tensors(names, matrices, field=field)
    matrices = tuple(part for group in matrices for part in _split_keys_and_values(group, names))
    _check_names(matrices, names, field=field)
    copied = {group.name.removesuffix(COPY) for group in whole}
    matrices = tuple(part for group in matrices for part in _split_keys_and_values(group, copied))
    matrices = tuple(group for group in matrices if group.name not in copied)
    if copied and not any(_is_named(group, names) for group in matrices):
        rule, remedy = (
            "must leave matrices that are not trained whole",
            "remove some of training.adapters.modules_to_save",
        )
        raise InvalidInput.of(field, rule, value=", ".join(names), remedy=remedy)
    frozen = tuple(replace(group, is_trained=False) for group in inventory)
    adapters: list[TensorGroup] = []
    with_first: set[tuple[str, Sequence[int]]] = set()
    for group in matrices:
        if not _is_named(group, names):
            continue
        outputs, inputs = group.shape
        adapter = replace(group, is_trained=True, is_shared=shares_experts and group.experts > 0)
        of_inputs, of_outputs = (group.pieces, 1) if group.cut else (1, group.pieces)
        first = replace(adapter, name=f"{group.name}.adapter_in", shape=(rank, inputs), pieces=of_inputs)
        second = replace(adapter, name=f"{group.name}.adapter_out", shape=(outputs, rank), pieces=of_outputs, cut=0)
        magnitude = replace(second, name=f"{group.name}.magnitude", shape=(outputs,))
        if cuts_both:
            first = first if group.cut else replace(first, pieces=rank)
            second = replace(second, pieces=outputs)
        fused = (group.fused, group.layers)
        if fused not in with_first:
            adapters.append(replace(first, count=1) if group.fused else first)
        adapters.append(second)
        adapters.extend([magnitude] if dora else [])
        with_first.update([fused] if group.fused else [])
    return (*frozen, *adapters, *whole)


def name_tensors(modules: Collection[str], matrices: Inventory, *, field: str) -> tuple[str, ...]:
    """Replace modules of PEFT by the matrices that they stand for; other names stay.

    Raises InvalidInput for PEFT's word for all linear modules, if what that means differs by version in this model.

    >>> query = TensorGroup("attention.query", (8, 4), 8, layers=range(3))
    >>> name_tensors(["q_proj"], (query,), field="f")
    ('attention.query',)
    """
    names = tensors_named(tuple(modules), {group.name for group in matrices})
    if means_all_linear(names):
        parts = ", ".join(dict.fromkeys(group.name.partition(".")[0] for group in matrices))
        rule = (
            "must name matrices of a model that has others than attention and ffn, as PEFT's choice differs by version"
        )
        raise InvalidInput.of(field, rule, value=", ".join(names), remedy=f"name those that get adapters, of {parts}")
    return names


def trained_whole(inventory: Inventory, names: Collection[str], *, field: str) -> Inventory:
    """Copy the modules that PEFT trains whole beside adapters, with their biases.

    PEFT copies each module, so tied embeddings and head become two tensors that are trained apart, and `norm` means
    every module whose name ends so. Source: PEFT 0.21, utils/other.py, ModulesToSaveWrapper and
    _set_trainable. Raises InvalidInput for a name that no module has.

    >>> tied = TensorGroup("embedding", (9, 2), 9, "first-and-last-stage")
    >>> [(g.name, g.placement) for g in trained_whole((tied,), ["embed_tokens", "lm_head"], field="f")]
    [('embedding.modules_to_save', 'first-stage'), ('output_head.modules_to_save', 'last-stage')]
    """
    own = [group for group in inventory if not group.name.startswith(("mtp.", "vision.", "audio.", "projector."))]
    tied = [group for group in own if group.placement == "first-and-last-stage"]
    own = [replace(group, placement="first-stage") if group in tied else group for group in own]
    own += [replace(group, name="output_head", placement="last-stage") for group in tied]
    halves = [group.name.replace("key_value", half) for group in own for half in ("key", "value")]
    own = [part for group in own for part in _split_keys_and_values(group, halves)]
    of_norms = [group.name for group in own if group.name.endswith("norm")]
    meant = [each for name in names for each in (of_norms if module_of(name) == "norm" else [name])]
    parts = _names_of_parts(tuple(own), meant)
    _check_names(tuple(own), parts, field=field)
    return tuple(replace(each, name=f"{each.name}{COPY}", is_trained=True) for each in own if _is_named(each, parts))


def with_trained_biases(inventory: Inventory, *, of_adapted_alone: bool) -> Inventory:
    """Train the biases of a frozen model beside its adapters: all, or only those of adapted matrices.

    Norms that have biases keep half of their tensors as such. Source: PEFT 0.21, tuners/lora/model.py,
    _mark_only_adapters_as_trainable, `bias` all and lora_only.

    >>> up = TensorGroup("ffn.up", (8, 4), 8, layers=range(3), is_trained=False)
    >>> bias = replace(up, name="ffn.up.bias", shape=(8,))
    >>> adapted = (up, bias, replace(up, name="ffn.up.adapter_out", is_trained=True))
    >>> [g.name for g in with_trained_biases(adapted, of_adapted_alone=True) if g.is_trained]
    ['ffn.up.bias', 'ffn.up.adapter_out']
    """
    adapted = {group.name.removesuffix(".adapter_out") for group in inventory if group.name.endswith(".adapter_out")}
    have_norms_biases = any(group.name == "final_norm" and group.count % 2 == 0 for group in inventory)

    def with_trained(group: TensorGroup) -> Iterator[TensorGroup]:
        matrix, is_norm = group.name.removesuffix(".bias"), group.name in ("norm", "final_norm", "embedding_norm")
        if is_norm and have_norms_biases and not of_adapted_alone:
            half = replace(group, count=group.count // 2)
            yield from (half, replace(half, name=f"{group.name}.bias", is_trained=True))
        elif matrix == group.name:
            yield group
        elif not of_adapted_alone or matrix in adapted:
            yield replace(group, is_trained=True)
        else:
            names = [f"{each}.bias" for each in adapted]
            halves = _split_keys_and_values(group, names)
            yield from (replace(half, is_trained=half.name in names) for half in halves)

    return tuple(each for group in inventory for each in with_trained(group))


def default_targets(inventory: Inventory) -> tuple[str, ...]:
    """Name the matrices that get adapters by default: queries and values, with the keys that share a module with them.

    So does PEFT in most model types (llama: q_proj, v_proj; gpt2: c_attn). It adapts the feed-forward block too in
    Phi-1 and Phi-2 (q_proj, v_proj, fc1, fc2), and all of attention beside layers of a state space (nemotron_h: q_proj,
    k_proj, v_proj, o_proj). It has no default for latent attention, of which all is taken, and for Mamba, whose output
    projection it refuses to adapt. Modules for multi-token prediction get none: the models that PEFT adapts lack them.
    Source: PEFT 0.21, peft/utils/constants.py, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.

    >>> query = TensorGroup("attention.query", (8, 4), 8, layers=range(3))
    >>> default_targets((query, replace(query, name="attention.key_value")))
    ('attention.query', 'attention.value')
    >>> default_targets((replace(query, name="attention.query_up"),))
    ('attention.query_up',)
    """
    hidden = [group for group in inventory if group.is_hidden_matrix and not group.name.startswith("mtp.")]
    of_attention = [group for group in hidden if _OF_ATTENTION.search(group.name)]
    has_other_layers = any(group.name.startswith(("ssm.", "linear.")) for group in hidden)
    lasts = {group.name.rpartition(".")[2] for group in of_attention}
    names = [group.name for group in of_attention]
    if not has_other_layers and "query" in lasts and lasts & {"value", "key_value"}:
        names = [
            group.name if group.fused else group.name.replace("key_value", "value")
            for group in of_attention
            if group.fused or group.name.endswith((".query", ".value", ".key_value"))
        ]
    elif not names:
        names = [group.name for group in hidden if group.name == "ssm.in" or group.name.startswith("ssm.in.")]
    return tuple(dict.fromkeys([*names, *(group.name for group in hidden if group.is_adapted)]))


def targets_in(inventory: Inventory, modules: Sequence[str]) -> tuple[str, ...]:
    """Select the modules of which a model has a matrix: one with experts alone has no dense feed-forward block.

    >>> targets_in((TensorGroup("attention.query", (8, 4), 8, layers=range(3)),), ["linear_qkv", "linear_fc1"])
    ('linear_qkv',)
    """
    matrices = [group for group in inventory if group.is_hidden_matrix]
    return tuple(
        module
        for module in modules
        if any(_is_named(group, TENSORS_OF_MODULES.get(module, (module,))) for group in matrices)
    )


def _split_keys_and_values(group: TensorGroup, names: Collection[str]) -> Iterator[TensorGroup]:
    """Split a group of keys and values in two if `names` has only one of them, as PEFT names them."""
    both, halves = "key_value", ("key", "value")
    parts = [replace(group, name=group.name.replace(both, half), count=group.count // 2) for half in halves]
    is_apart = group.name.removesuffix(".bias").split(".")[-1] == both and any(_is_named(part, names) for part in parts)
    yield from parts if is_apart and not _is_named(group, names) else [group]


def _is_named(group: TensorGroup, names: Collection[str]) -> bool:
    """Return whether `names` has the group's name or a beginning of it. The name `key_value` covers both halves."""
    own = {group.name, _join_key_value(group.name)}
    return any(each == name or each.startswith(f"{name}.") for name in names for each in own)


def _join_key_value(name: str) -> str:
    """Replace `key` or `value` in a name by `key_value`.

    >>> _join_key_value("attention.value.bias")
    'attention.key_value.bias'
    """
    return ".".join("key_value" if part in ("key", "value") else part for part in name.split("."))


def _check_names(inventory: Inventory, names: Collection[str], *, field: str, remedy_of_count: str = DESCRIBE) -> None:
    for name in names:
        if not any(_is_named(group, [name]) for group in inventory):
            named = [group for group in inventory if group.placement != "spread"]
            remedy = f"this model has {_list_names(named)}" if named else remedy_of_count
            raise InvalidInput.of(field, "must name weights of the model", value=name, remedy=remedy)


def _list_names(inventory: Sequence[TensorGroup]) -> str:
    return ", ".join(dict.fromkeys(group.name for group in inventory))
