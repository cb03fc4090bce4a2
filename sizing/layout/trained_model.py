"""The model as it is trained: padded vocabulary, frozen tensors, adapters, and further models."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sizing.checkpoint_files.peft_modules import (
    ALL_LINEAR,
    EXPERTS_OF_MODULES,
    is_all_dense,
    is_bare_parameter,
    means_all_linear,
    module_of,
    tensors_named,
)
from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS, base_dtype
from sizing.frameworks.saved_parts import copy_dtype, quantizes_experts
from sizing.frameworks.trainers import TRAINERS
from sizing.layout.parallelism import Parallelism
from sizing.model import Model, ResolvedModel
from sizing.model.inventory import Inventory, TensorGroup, with_counts, with_ends_on_one_stage, with_heads_cut
from sizing.model.model import resolve
from sizing.model.trained import (
    DESCRIBE,
    default_targets,
    targets_in,
    trained_whole,
    with_adapters,
    with_frozen,
    with_trained_biases,
    with_trained_count,
)
from sizing.provenance import Assumption
from sizing.state import Training
from sizing.state.optimizers import needs_matrices
from sizing.state.scaled_dtypes import QUANTIZED_BYTES
from sizing.state.training import DOUBLE_QUANTIZED, Adapters, TrainerName

CRITIC = "critic"
FROZEN_MODELS = "frozen_models"
"""Names of the tensors of a critic, and of reference and reward models that are saved beside the trained models."""


def resolved_model(model: Model, training: Training, parallelism: Parallelism) -> ResolvedModel:
    """Resolve the model of a scenario. `vocabulary_padding_multiple` x tensor pads its vocabulary, if given.

    Raises InvalidInput if the catalog does not know the preset or the config is not understood.
    """
    padding = training.vocabulary_padding_multiple
    return resolve(model, vocabulary_multiple=None if padding is None else padding * parallelism.tensor)


def trained_inventory(inventory: Inventory, training: Training) -> Inventory:
    """Mark frozen tensors, and add adapters and the models beside the policy to an inventory.

    Heads are cut if the framework's tensor ranks cut them. Raises InvalidInput for a name that no tensor has, or for an
    optimizer that needs unknown shapes of tensors.
    """
    if FRAMEWORKS[training.framework].key_value_heads == "cut":
        inventory = with_heads_cut(inventory)
    if training.frozen:  # before adapters are added, whose names begin with those of their matrices
        inventory = with_frozen(inventory, training.frozen, field="training.frozen")
    if training.trained_parameters is not None:
        inventory = with_trained_count(inventory, training.trained_parameters, field="training.trained_parameters")
    if training.adapters is not None:
        adapters, facts = training.adapters, TRAINERS[training.trainer] if training.trainer else None
        inventory = with_adapters(
            inventory,
            rank=adapters.rank,
            names=adapter_targets(adapters, training.trainer, inventory) or None,
            field="training.adapters.tensors",
            dora=adapters.dora,
            whole=trained_whole(inventory, adapters.modules_to_save or (), field="training.adapters.modules_to_save"),
            shares_experts=facts is not None and facts.shares_expert_adapters,
            cuts_both=facts is not None and facts.cuts_both_adapters,
        )
        inventory = with_bare_parameters(inventory, training)
        if adapters.bias != "none":
            inventory = with_trained_biases(inventory, of_adapted_alone=adapters.bias == "lora_only")
    if training.folds_pipeline:
        inventory = with_ends_on_one_stage(inventory)
    models, beside = training.reinforcement, list[tuple[str, int, bool]]()
    if models is not None and models.critic_parameters is not None:
        beside.append((CRITIC, models.critic_parameters, True))
    if models is not None and models.saved_frozen_parameters is not None:
        beside.append((FROZEN_MODELS, models.saved_frozen_parameters, False))
    inventory = with_counts(inventory, beside)
    if needs_matrices(training.optimizer) and has_bare_counts(inventory):
        raise InvalidInput.of(
            "training.optimizer",
            "must be one that needs no shapes of tensors where a trained model is given by its parameter count alone",
            value=training.optimizer,
            remedy=f"choose another, or {DESCRIBE}",
        )
    return inventory


def trained_adapters(inventory: Inventory, training: Training) -> Inventory:
    """Select the adapters, with what is trained beside them of the same model: no critic.

    Raises InvalidInput without adapters, and for a name that no tensor has.

    >>> from sizing.model import catalog
    >>> adapters = trained_adapters(catalog()["gpt2"].inventory, Training(adapters=Adapters(rank=8)))
    >>> sum(group.num_parameters for group in adapters) == 12 * 8 * (768 + 3 * 768)
    True
    """
    if training.adapters is None:
        remedy = "give training.adapters.rank, or content full"
        rule = "is required where adapters alone are exported or go to inference"
        raise InvalidInput.of("training.adapters", rule, value=None, remedy=remedy)
    return tuple(each for each in trained_inventory(inventory, training) if each.is_trained and each.name != CRITIC)


def with_bare_parameters(inventory: Inventory, training: Training) -> Inventory:
    """Mark what stays in 16 bits of a base in 8 or 4 bits: routers, and routed experts that nobody quantises.

    bitsandbytes replaces linear modules alone. Source: transformers 5.23, integrations/bitsandbytes.py,
    replace_with_bnb_linear.

    >>> from sizing.model.inventory import TensorGroup
    >>> experts = (TensorGroup("expert.up", (8, 4), 8, layers=range(3), experts=2, is_trained=False),)
    >>> bases = [Adapters(rank=2, base_dtype="nf4", quantize_experts=each) for each in (None, True)]
    >>> [with_bare_parameters(experts, Training(adapters=each))[0].role for each in bases]
    ['other', 'hidden-matrix']
    """
    if base_dtype(training) not in QUANTIZED_BYTES:
        return inventory
    leaves_experts = not quantizes_experts(training)

    def is_left(group: TensorGroup) -> bool:
        return leaves_experts if group.experts else is_bare_parameter(group.name)

    return tuple(
        group if group.is_trained else replace(group, is_never_quantised=is_left(group)) for group in inventory
    )


def adapter_targets(adapters: Adapters, trainer: TrainerName | None, inventory: Inventory) -> tuple[str, ...]:
    """Name what gets adapters: what is given, else the modules of a trainer with defaults of its own, else PEFT's.

    The word for all linear modules means those of such a trainer too, unless these are all that the word means.

    >>> from sizing.model import catalog
    >>> adapter_targets(Adapters(rank=8), "megatron-bridge", catalog()["qwen3-30b-a3b"].inventory)
    ('linear_qkv', 'linear_proj', 'expert.up', 'expert.down')
    >>> adapter_targets(Adapters(rank=8), "llamafactory", catalog()["llama-3.1-8b"].inventory)
    ('attention', 'ffn')
    """
    facts = TRAINERS[trainer] if trainer else None
    own = facts.adapter_targets if facts else ()
    is_default = adapters.tensors is None or (own not in ((), ALL_LINEAR) and means_all_linear(adapters.tensors))
    names = own if is_default or adapters.tensors is None else adapters.tensors
    if facts and facts.shares_expert_adapters:
        of_experts = [each for name in names for each in EXPERTS_OF_MODULES.get(module_of(name), ())]
        are_there = (module_of(name) not in EXPERTS_OF_MODULES or targets_in(inventory, [name]) for name in names)
        names = (*itertools.compress(names, are_there), *targets_in(inventory, of_experts))
    return targets_in(inventory, names) or default_targets(inventory) if is_default else names


def default_targets_source(names: Sequence[str], trainer: TrainerName | None, inventory: Inventory) -> str:
    """Say whose default it is that these matrices get adapters, and which others get some that are not counted.

    >>> default_targets_source(["attention.query", "attention.value"], None, ())
    "PEFT's, queries and values of most model types"
    """
    facts = TRAINERS[trainer] if trainer else None
    if facts is None or not set(names) & set(facts.adapter_targets):
        return "PEFT's, queries and values of most model types"
    others = [group.name for group in inventory if group.is_hidden_matrix and not is_all_dense([group.name])]
    of_others = ""
    if others and facts.adapter_targets == ALL_LINEAR:
        parts = ", ".join(dict.fromkeys(name.partition(".")[0] for name in others))
        of_others = f"; adapters of {parts} are not counted, as what gets one differs by version in this model"
    elif facts.shares_expert_adapters and any(group.experts for group in inventory):
        of_others = "; all experts of a rank have one adapter, of which files have a copy for each expert"
    elif any(group.experts for group in inventory):
        of_others = "; adapters of experts are not counted"
    return f"{facts.adapter_source}; these are {', '.join(tensors_named(names, ()))}{of_others}"


def has_bare_counts(inventory: Inventory) -> bool:
    """Return whether only the number of parameters is known of a trained model."""
    return any(group.placement == "spread" and group.is_trained for group in inventory)


def adapter_assumptions(training: Training, inventory: Inventory, *, is_sharded: bool) -> Iterator[Assumption]:
    """Report which matrices get an adapter, and the dtypes of frozen weights and copies, if the scenario is silent."""
    adapters = training.adapters
    if adapters is None:
        return
    if adapters.tensors is None:
        names = adapter_targets(adapters, training.trainer, inventory)
        reason = f"default: {default_targets_source(names, training.trainer, inventory)}"
        yield Assumption(field="training.adapters.tensors", value=", ".join(names), reason=reason)
    if adapters.base_dtype is None:
        dtype = base_dtype(training)
        reason = "default: trainers load the frozen model in 16 bits" if dtype else "default: as trained weights"
        yield Assumption(field="training.adapters.base_dtype", value=dtype or "as trained weights", reason=reason)
    elif adapters.double_quant is None and adapters.base_dtype in DOUBLE_QUANTIZED:
        reason = "default: as in QLoRA (Dettmers et al. 2023); BitsAndBytesConfig alone ships without"
        yield Assumption(field="training.adapters.double_quant", value=True, reason=reason)
    has_experts = any(group.experts for group in inventory)
    if adapters.quantize_experts is None and adapters.base_dtype in QUANTIZED_BYTES and has_experts:
        value = quantizes_experts(training)
        reason = (
            "default: transformers 5 keeps the experts of a layer as one parameter, which bitsandbytes leaves in 16 "
            "bits; axolotl's quantize_moe_experts and Unsloth quantise it"
        )
        yield Assumption(field="training.adapters.quantize_experts", value=value, reason=reason)
    if (of_copies := copy_dtype(training, is_sharded=is_sharded)) is not None:
        reason = (
            "PEFT copies modules from a base in bf16 as they are, with moments in their dtype; beside a base in 4 or 8 "
            "bits, and with FSDP, they are in fp32"
        )
        yield Assumption(field="training.adapters.modules_to_save", value=of_copies, reason=reason)
