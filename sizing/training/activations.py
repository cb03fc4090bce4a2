"""Activations of a model on each pipeline stage: layers by kind, microbatches in flight, and the loss on the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sizing.frameworks import FRAMEWORKS
from sizing.layout import Parallelism
from sizing.layout.stages import StageSpan
from sizing.model import ResolvedModel
from sizing.model.composed import Composition
from sizing.model.composed.pieces import Piece
from sizing.model.inventory import layers_between
from sizing.state import Training
from sizing.training.execution import DEFAULT_RECOMPUTE_MODULES, Execution, loss_of, recompute_modules_of, value_bytes
from sizing.training.kernels import LOSSES, Kernels, LossKind, cached_bytes, kernels_of
from sizing.training.layer_activations import (
    Cut,
    KeptBytes,
    LayerShape,
    NoFormula,
    kept_by,
    kept_of_list,
    kept_without_modules,
    layer_activation_bytes,
)


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers of one kind and what each keeps; `selected`: what it keeps with selective recomputation, if not all."""

    layers: Sequence[int]
    kept: KeptBytes
    selected: KeptBytes | None = None


KeptOf = Callable[[Piece, Cut], KeptBytes]
"""Bytes that a piece of a layer keeps with some kind of selective recomputation."""


def _selection(training: Training) -> KeptOf | None:
    """Choose the kind of selective recomputation: of a list of operations, of modules, or of scores alone (None)."""
    if FRAMEWORKS[training.framework].lists_operations:
        return kept_of_list
    modules = recompute_modules_of(training)
    return None if modules == DEFAULT_RECOMPUTE_MODULES else kept_without_modules(modules)


@dataclass(frozen=True, slots=True)
class ModelActivations:
    """Activations that one tensor rank keeps of a model. Its MTP modules count as layers of the last kind."""

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
    """Return the activations that a model keeps, or None where no formula counts them (see `uncounted_activations`)."""
    kernels, loss = kernels_of(training), LOSSES[loss_of(training)]
    selection, cached = _selection(training), cached_bytes(training)
    try:
        if model.architecture is not None:
            shape = LayerShape(model.architecture, parallelism, value_bytes(training), kernels, cached)
            activations = activations_of_architecture(shape, loss=loss, selection=selection)
        elif model.composition is not None:
            per_token = model.num_experts_per_token or 0
            cut = Cut(
                parallelism,
                value_bytes(training),
                experts_per_token=per_token,
                kernels=kernels,
                cached_bytes=cached,
            )
            activations = _activations_of_composition(model.composition, cut, loss=loss, selection=selection)
        else:
            return None
    except NoFormula:
        return None
    return replace(activations, keeps_passed=FRAMEWORKS[training.framework].keeps_passed)


def uncounted_activations(model: ResolvedModel) -> str | None:
    """Explain in a sentence why a model's activations are not counted; None where they are."""
    if activations_of(model, Training(), Parallelism()) is not None:
        return None
    if model.composition is not None:
        return f"Activations not counted: no formula for all layers of a {model.composition.model_type}"
    if all(group.placement == "spread" for group in model.inventory):
        return "Activations not counted: only a number of parameters is given. Give the model's architecture"
    return "Activations not counted: a list of tensors does not say what its layers compute"


def activations_of_architecture(
    shape: LayerShape, *, loss: LossKind, selection: KeptOf | None = None
) -> ModelActivations:
    """Return the activations of an architecture, by its dense and its sparse layers."""
    a = shape.architecture
    kinds = []
    if a.dense_layers:
        selected = shape.selected(selection, is_sparse=False) if selection else None
        kinds.append(LayerKind(range(a.dense_layers), shape.dense, selected))
    if a.num_experts is not None and a.dense_layers < a.num_layers:
        selected = shape.selected(selection, is_sparse=True) if selection else None
        kinds.append(LayerKind(range(a.dense_layers, a.num_layers), shape.sparse, selected))
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


def _activations_of_composition(
    composition: Composition, cut: Cut, *, loss: LossKind, selection: KeptOf | None
) -> ModelActivations:
    kept = [kept_by(placed.piece, cut) for placed in composition.placed]
    selected = [selection(placed.piece, cut) for placed in composition.placed] if selection else []
    members = [frozenset(placed.layers) for placed in composition.placed]
    kinds: dict[tuple[int, ...], list[int]] = {}
    for layer in range(composition.num_layers):
        kinds.setdefault(tuple(i for i, layers in enumerate(members) if layer in layers), []).append(layer)
    return ModelActivations(
        tuple(
            LayerKind(
                layers,
                sum((kept[i] for i in numbers), KeptBytes()),
                sum((selected[i] for i in numbers), KeptBytes()) if selection else None,
            )
            for numbers, layers in kinds.items()
        ),
        hidden_bytes=cut.value_bytes * composition.hidden_size,
        mask_bytes=0,
        vocab_size=composition.vocab_size,
        value_bytes=cut.value_bytes,
        loss=loss,
        kernels=cut.kernels,
    )


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """Bytes of activations on a GPU of a stage: kept for the backward pass, and the peaks at the loss and in a layer.

    `kept`: of layers, and of the head its inputs. `kept_logits`: of the loss, until the backward pass has begun.
    `loss`: all that the loss holds of a microbatch, at its max. `layer`: what is computed again of a layer, and what
    its backward pass holds.
    """

    kept: float = 0.0
    kept_logits: float = 0.0
    loss: float = 0.0
    layer: float = 0.0

    def staying(self, fraction: float) -> HeldBytes:
        """Return the bytes that remain where this fraction of the kept activations stays on the GPU."""
        return self if fraction == 1.0 else replace(self, kept=fraction * self.kept)


class _LayerBytes(NamedTuple):
    """Bytes that a layer keeps of one microbatch, and those that its backward pass adds: recomputation, gradients."""

    kept: float
    working: float


class StageActivations:
    """Activations that the stages of a pipeline keep. Layers of one kind are counted once."""

    def __init__(self, model: ModelActivations, *, parallelism: Parallelism, execution: Execution) -> None:
        self._model = model
        self._tensor = parallelism.tensor
        self._execution = execution
        self._kinds = [(kind.layers, self._layer(kind, execution)) for kind in model.kinds]
        whole = replace(execution, recomputation="none")
        self._whole = [self._layer(kind, whole) for kind in model.kinds]

    def of_stage(self, span: StageSpan) -> HeldBytes:
        """Return what a GPU holds of the first stage of a span, which holds the max of its stages.

        Layers x microbatches in flight, the embedding's dropout on the first stage, and on the last 2 w h a token, the
        inputs of the last norm and of the head, and V/t logits as LOSSES says.
        Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.3; LOSSES.

        >>> from sizing.model import catalog
        >>> from sizing.layout.stages import stage_spans
        >>> from sizing.model.inventory import inventory_of
        >>> from sizing.training.kernels import LOSSES
        >>> from sizing.training.activations import activations_of_architecture
        >>> from sizing.training.layer_activations import LayerShape
        >>> gpt3, degrees = catalog()["gpt3-175b"].architecture, Parallelism(tensor=8, pipeline=8)
        >>> step = Execution(2048, 1, 64, 8, 1, "1f1b", "selective", num_sharing=8)
        >>> first = stage_spans(inventory_of(gpt3), degrees, num_layers=96)[0]
        >>> whole = activations_of_architecture(LayerShape(gpt3, degrees, 2), loss=LOSSES["vocab-parallel"])
        >>> held = StageActivations(whole, parallelism=degrees, execution=step).of_stage(first)
        >>> held.kept == 8 * (12 * 34 + 1) * 2048 * 12288 / 8
        True
        """
        model, execution, stage = self._model, self._execution, span.stages.start
        in_flight = execution.held_of_stage(stage)
        waiting = in_flight if execution.schedule == "gpipe" else 1.0
        num_modules = model.num_modules if span.has_head else 0
        num_heads = waiting * (1 + num_modules) if span.has_head else 0.0

        layers = [self._count_layers(chunk) for chunk in span.chunks]
        number, last_kind = layers[-1][-1]
        layers[-1][-1] = number + num_modules, last_kind
        chunk_bytes = [sum(number * layer.kept for number, layer in chunk) for chunk in layers]
        masks = execution.num_tokens * model.mask_bytes / execution.num_sharing if stage == 0 else 0.0
        head_shares = 1 / execution.num_sharing + (1 if model.kernels.keeps_gathered else 1 / execution.num_sharing)
        head_inputs = execution.num_tokens * model.hidden_bytes * head_shares
        logits = self._logits(model.loss.kept_bytes(model.value_bytes)) if span.has_head else 0.0
        return HeldBytes(
            kept=execution.held_bytes(stage, chunk_bytes)
            + in_flight * masks
            + num_heads * head_inputs
            + (self._passed_values(span, in_flight) if model.keeps_passed else 0.0),
            kept_logits=num_heads * logits,
            loss=(num_heads - 1) * logits + self._loss_peak() if span.has_head else 0.0,
            layer=max((layer.working for chunk in layers for number, layer in chunk if number), default=0.0)
            + (waiting - 1) * logits,
        )

    def _layer(self, kind: LayerKind, execution: Execution) -> _LayerBytes:
        kept, recomputed = layer_activation_bytes(
            kind.kept, hidden_bytes=self._model.hidden_bytes, execution=execution, selected=kind.selected
        )
        return _LayerBytes(kept, recomputed + execution.num_tokens * kind.kept.working)

    def _count_layers(self, chunk: range) -> list[tuple[int, _LayerBytes]]:
        """Count the layers of each kind in a chunk: first those that keep all while others are computed again."""
        past = self._execution.again(chunk).stop if self._execution.recomputed_layers else chunk.stop
        whole = zip(self._kinds, self._whole, strict=True) if past < chunk.stop else ()
        return [
            *((len(layers_between(layers, past, chunk.stop)), each) for (layers, _), each in whole),
            *((len(layers_between(layers, chunk.start, past)), each) for layers, each in self._kinds),
        ]

    def _passed_values(self, span: StageSpan, in_flight: float) -> float:
        """Return the bytes of torch's pipeline buffers: inputs by microbatch and direction, and outputs sent forward.

        Source: PyTorch, torch/distributed/pipelining/stage.py, _prepare_forward_infra, _setup_backward_recv_info and
        fwd_cache.
        """
        num_stages, chunks = self._execution.num_stages, len(span.chunks)
        is_first, is_last = span.stages.start == 0, span.has_head
        if num_stages == 1:
            return 0.0
        buffered = self._execution.num_microbatches or in_flight
        received = buffered * (2 * chunks - is_first - is_last)
        sent = in_flight * (chunks - is_last)
        return self._execution.num_tokens * self._model.hidden_bytes / self._execution.num_sharing * (received + sent)

    def _logits(self, bytes_per_logit: float) -> float:
        return self._execution.num_tokens * bytes_per_logit * self._model.vocab_size / self._tensor

    def _loss_peak(self) -> float:
        """Return the larger peak: at the loss, or in the head's backward pass with its gradients."""
        model = self._model
        gradients = (2 if self._execution.num_sharing > 1 else 1) * model.hidden_bytes * self._execution.num_tokens
        of_head = self._logits(model.value_bytes / model.loss.num_chunks) + gradients
        return max(self._logits(model.loss.peak_bytes(model.value_bytes, tensor=self._tensor)), of_head)
