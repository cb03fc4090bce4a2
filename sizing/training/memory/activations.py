"""Activations: what the parts of a model keep for the backward pass, by kind of layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sizing.layout import Parallelism
from sizing.model import ResolvedModel
from sizing.model.composed import Composition
from sizing.state import Training
from sizing.training.execution import loss_of, value_bytes
from sizing.training.kernels import Kernels, kernels_of
from sizing.training.losses import LOSSES, LossKind
from sizing.training.memory.layer_activations import LayerShape
from sizing.training.memory.piece_activations import Cut, Kept, NoFormula, kept_by, kept_of_list

FRAMEWORK_WITH_LIST = "torchtitan"
"""Its selective recomputation goes by a list of operations: torchtitan, selective_ac_option op, its default."""
FRAMEWORKS_OF_TORCH_PIPELINING = ("fsdp2", "torchtitan")
"""Their stages have a buffer for what they receive of every microbatch, and keep what they sent."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers of one kind, and what each of them keeps; `listed` with a framework's own selective recomputation."""

    layers: Sequence[int]
    kept: Kept
    listed: Kept | None = None


@dataclass(frozen=True, slots=True)
class ModelActivations:
    """What the parts of a model keep on one tensor rank; multi-token-prediction modules are layers of the last kind."""

    kinds: tuple[LayerKind, ...]
    hidden_bytes: int
    mask_bytes: int
    vocab_size: int
    value_bytes: int
    loss: LossKind
    kernels: Kernels
    num_modules: int = 0
    keeps_passed: bool = False


def activations_of(model: ResolvedModel, training: Training, parallelism: Parallelism) -> ModelActivations | None:
    """What the parts of a model keep. None where nobody here has counted it: `uncounted_activations` says why."""
    try:
        kernels, loss = kernels_of(training), LOSSES[loss_of(training)]
        has_list = training.framework == FRAMEWORK_WITH_LIST
        found = None
        if model.architecture is not None:
            shape = LayerShape(model.architecture, parallelism, value_bytes(training), kernels)
            found = of_architecture(shape, loss=loss, has_list=has_list)
        elif model.composition is not None:
            per_token = model.num_experts_per_token or 0
            cut = Cut(parallelism, value_bytes(training), experts_per_token=per_token, kernels=kernels)
            found = _of_composition(model.composition, cut, loss=loss, has_list=has_list)
        return found and replace(found, keeps_passed=training.framework in FRAMEWORKS_OF_TORCH_PIPELINING)
    except NoFormula:
        pass
    return None


def uncounted_activations(model: ResolvedModel) -> str | None:
    """Why the activations of a model are not counted, as a sentence. None where they are."""
    if activations_of(model, Training(), Parallelism()) is not None:
        return None
    if model.composition is not None:
        return f"Activations not counted: no formula for all layers of a {model.composition.model_type}"
    if all(group.placement == "spread" for group in model.inventory):
        return "Activations not counted: only a number of parameters is given. Give the model's architecture"
    return "Activations not counted: a list of tensors does not say what its layers compute"


def of_architecture(shape: LayerShape, *, loss: LossKind, has_list: bool = False) -> ModelActivations:
    """What dense and sparse layers of an architecture keep, of which there are some of each kind."""
    a = shape.architecture
    kinds = []
    if a.dense_layers:
        listed = shape.listed(is_sparse=False) if has_list else None
        kinds.append(LayerKind(range(a.dense_layers), shape.dense, listed))
    if a.num_experts is not None and a.dense_layers < a.num_layers:
        listed = shape.listed(is_sparse=True) if has_list else None
        kinds.append(LayerKind(range(a.dense_layers, a.num_layers), shape.sparse, listed))
    return ModelActivations(
        tuple(kinds),
        hidden_bytes=shape.hidden_bytes,
        mask_bytes=shape.cut.mask_bytes * a.hidden_size,
        vocab_size=a.vocab_size,
        value_bytes=shape.value_bytes,
        loss=loss,
        kernels=shape.kernels,
        num_modules=a.num_mtp_layers or 0,
    )


def _of_composition(composition: Composition, cut: Cut, *, loss: LossKind, has_list: bool) -> ModelActivations:
    kept = [kept_by(placed.piece, cut) for placed in composition.placed]
    listed = [kept_of_list(placed.piece, cut) for placed in composition.placed]
    members = [frozenset(placed.layers) for placed in composition.placed]
    kinds: dict[tuple[int, ...], list[int]] = {}
    for layer in range(composition.num_layers):
        kinds.setdefault(tuple(i for i, layers in enumerate(members) if layer in layers), []).append(layer)
    found = (
        LayerKind(
            layers,
            sum((kept[i] for i in numbers), Kept()),
            sum((listed[i] for i in numbers), Kept()) if has_list else None,
        )
        for numbers, layers in kinds.items()
    )
    return ModelActivations(
        tuple(found),
        hidden_bytes=cut.value_bytes * composition.hidden_size,
        mask_bytes=0,
        vocab_size=composition.vocab_size,
        value_bytes=cut.value_bytes,
        loss=loss,
        kernels=cut.kernels,
    )
