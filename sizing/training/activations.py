"""Activations: what the forward pass keeps for the backward pass, tensor by tensor.

Every input that a backward pass needs is kept once: 2 bytes a value (4 in fp32), 1 byte a value of a dropout mask. For
the layer of GPT this is the count of Korthikanti et al. 2022, arXiv 2205.05198, section 4.1; other layers are counted
by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sizing.layout import Parallelism
from sizing.layout.stages import StageSpan
from sizing.model import Architecture, ResolvedModel
from sizing.model.composed import Composition, dense_pieces, sparse_pieces
from sizing.model.composed.pieces import Attention, Experts, FeedForward, LatentAttention, Norms, Piece
from sizing.model.inventory import layers_between
from sizing.state import Training
from sizing.training.execution import Execution, value_bytes

MASK_BYTES = 1
"""Of a dropout mask, per value: Korthikanti et al. 2022, section 4.1."""
LOGIT_BYTES = 4
"""Logits are kept in fp32 for the loss: Korthikanti et al. 2022, section 4.3."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that a layer keeps on one tensor rank.

    `split`, per token: of tensors that the ranks share. `whole`, per token: of tensors that each keeps, unless
    sequence parallelism shares them too. `scores`, per pair of tokens: of attention.
    """

    split: float = 0.0
    whole: float = 0.0
    scores: float = 0.0

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.split + other.split, self.whole + other.whole, self.scores + other.scores)


@dataclass(frozen=True, slots=True)
class Cut:
    """How one tensor rank runs a layer; `mask_bytes` are those of a dropout mask, per value."""

    parallelism: Parallelism
    value_bytes: int
    mask_bytes: int = 0
    experts_per_token: int = 0


class NoFormula(Exception):
    """A layer has a piece whose activations nobody here has counted."""


def kept_by(piece: Piece, cut: Cut) -> Kept:
    """What a piece of a layer keeps.

    Raises NoFormula for a piece that is not of attention, a feed-forward block, experts or norms.
    """
    formula = _FORMULAS.get(type(piece))
    if formula is None:
        raise NoFormula
    return formula(piece, cut)


def _norms(norms: Norms, cut: Cut) -> Kept:
    """Inputs of the norms, and of the projections that follow; with one norm both blocks share theirs."""
    inputs = cut.value_bytes * norms.hidden * (norms.norms + min(2, norms.norms))
    return Kept(whole=inputs + 2 * cut.mask_bytes * norms.hidden)


def _scores(heads: float, cut: Cut) -> Kept:
    """Attention's scores, and with dropout a mask and what is left."""
    dropped = cut.mask_bytes + cut.value_bytes if cut.mask_bytes else 0
    return Kept(scores=(cut.value_bytes + dropped) * heads)


def _attention(attention: Attention, cut: Cut) -> Kept:
    """Queries, keys, values and attention's output; again what is normed, and what is gated with its gate."""
    tensor = cut.parallelism.tensor
    heads = attention.heads / tensor
    kv_heads = max(attention.kv_heads / tensor, 1.0)
    values = (heads + kv_heads) * (attention.head_dim + attention.value_dim)
    if attention.head_norms or attention.wide_norms:
        values += (heads + kv_heads) * attention.head_dim
    values += 2 * attention.gate_rows / tensor
    return Kept(split=cut.value_bytes * values) + _scores(heads, cut)


def _latent(attention: LatentAttention, cut: Cut) -> Kept:
    """The same, and the latents before and after their norms."""
    heads = attention.heads / cut.parallelism.tensor
    latents = 2 * attention.query_rank + 2 * attention.key_value_rank + attention.rope_dim
    widths = attention.nope_dim + attention.rope_dim + attention.value_dim
    kept = Kept(split=cut.value_bytes * heads * 2 * widths, whole=cut.value_bytes * latents)
    return kept + _scores(heads, cut)


def _ffn(ffn: FeedForward, cut: Cut) -> Kept:
    """What goes into the activation function and into the projection down; with a gate, both its factors."""
    return _inner(ffn.ffn_width, cut, gated=ffn.gated)


def _inner(width: int, cut: Cut, *, gated: bool) -> Kept:
    return Kept(split=cut.value_bytes * (3 if gated else 2) * width / cut.parallelism.tensor)


def _experts(experts: Experts, cut: Cut) -> Kept:
    """The same of the experts that a token passes through, with their own copies of inputs and outputs."""
    ranks_with_token = cut.parallelism.expert_tensor_degree / cut.parallelism.tensor
    copies = 2 * cut.value_bytes * experts.expert_hidden * ranks_with_token
    one = copies + _inner(experts.expert_width, cut, gated=experts.expert_gated).split
    routed = Kept(split=cut.experts_per_token * one)
    return _inner(experts.shared_width, cut, gated=experts.expert_gated) + routed


_FORMULAS: dict[type[Piece], Callable[[Any, Cut], Kept]] = {
    Norms: _norms,
    Attention: _attention,
    LatentAttention: _latent,
    FeedForward: _ffn,
    Experts: _experts,
}


@dataclass(frozen=True, slots=True)
class LayerShape:
    """An architecture's layers as one tensor rank runs them."""

    architecture: Architecture
    parallelism: Parallelism
    value_bytes: int

    @property
    def cut(self) -> Cut:
        """How the rank runs a layer."""
        a = self.architecture
        mask_bytes = MASK_BYTES if a.traits.dropout else 0
        return Cut(self.parallelism, self.value_bytes, mask_bytes, a.num_experts_per_token or 0)

    @property
    def dense(self) -> Kept:
        """A layer with a dense feed-forward block."""
        return self._kept(dense_pieces(self.architecture))

    @property
    def sparse(self) -> Kept:
        """A layer with experts, among which the tokens are taken to spread evenly."""
        return self._kept(sparse_pieces(self.architecture))

    @property
    def hidden_bytes(self) -> int:
        """The hidden state of one token."""
        return self.value_bytes * self.architecture.hidden_size

    def _kept(self, pieces: Iterable[Piece]) -> Kept:
        return sum((kept_by(piece, self.cut) for piece in pieces), Kept())


def layer_activation_bytes(kept: Kept, *, hidden_bytes: int, execution: Execution) -> tuple[float, float]:
    """Bytes that a layer keeps of one microbatch, and those it needs besides while it is computed again.

    b s/c (split + whole/t) + b s^2/c scores with sequence parallelism, whole undivided without; selective: without the
    scores; full: b s/c w h, the layer's input, and once the rest. b sequences of s tokens, c context and t tensor
    ranks, w bytes a value.
    Source: Korthikanti et al. 2022, arXiv 2205.05198, equations 1 to 4 and section 5; what is computed again:
    Rajbhandari et al. 2021, arXiv 2104.07857, section 3.

    >>> h, a, s = 12_288, 96, 2_048  # GPT-3, whose layer keeps 34 s b h + 5 a s^2 b by equation 1
    >>> whole = Execution(s, 1, None, 1, 1, "1f1b", "none")
    >>> layer_activation_bytes(Kept(24 * h, 10 * h, 5 * a), hidden_bytes=2 * h, execution=whole)[0] / (s * h)
    114.0
    """
    tokens, sharing = execution.num_tokens, execution.num_sharing
    without_scores = tokens * (kept.split + kept.whole / sharing)
    match execution.recomputation:
        case "none":
            return without_scores + tokens * execution.sequence_length * kept.scores, 0.0
        case "selective":
            return without_scores, 0.0
        case "full":
            return tokens * hidden_bytes / sharing, without_scores


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers of one kind, and what each of them keeps."""

    layers: Sequence[int]
    kept: Kept


@dataclass(frozen=True, slots=True)
class ModelActivations:
    """What the parts of a model keep on one tensor rank; multi-token-prediction modules are layers of the last kind."""

    kinds: tuple[LayerKind, ...]
    hidden_bytes: int
    mask_bytes: int
    vocab_size: int
    num_modules: int = 0


def activations_of(model: ResolvedModel, training: Training, parallelism: Parallelism) -> ModelActivations | None:
    """What the parts of a model keep. None where nobody here has counted it: `uncounted_activations` says why."""
    try:
        if model.architecture is not None:
            return _of_architecture(LayerShape(model.architecture, parallelism, value_bytes(training)))
        if model.composition is not None:
            width, per_token = value_bytes(training), model.num_experts_per_token or 0
            return _of_composition(model.composition, Cut(parallelism, width, experts_per_token=per_token))
    except NoFormula:
        pass
    return None


def uncounted_activations(model: ResolvedModel) -> str | None:
    """Why the activations of a model are not counted, as a sentence. None where they are."""
    if activations_of(model, Training(), Parallelism()) is not None:
        return None
    if model.composition is not None:
        return f"Activations not counted: no formula for all layers of a {model.composition.model_type}"
    return "Activations not counted: only a number of parameters is given. Give the model's architecture"


def _of_architecture(shape: LayerShape) -> ModelActivations:
    a = shape.architecture
    kinds = [LayerKind(range(a.dense_layers), shape.dense)] if a.dense_layers else []
    if a.num_experts is not None and a.dense_layers < a.num_layers:
        kinds.append(LayerKind(range(a.dense_layers, a.num_layers), shape.sparse))
    mask_bytes = shape.cut.mask_bytes * a.hidden_size
    return ModelActivations(tuple(kinds), shape.hidden_bytes, mask_bytes, a.vocab_size, a.num_mtp_layers or 0)


def _of_composition(composition: Composition, cut: Cut) -> ModelActivations:
    kept = [kept_by(placed.piece, cut) for placed in composition.placed]
    members = [frozenset(placed.layers) for placed in composition.placed]
    kinds: dict[tuple[int, ...], list[int]] = {}
    for layer in range(composition.num_layers):
        kinds.setdefault(tuple(i for i, layers in enumerate(members) if layer in layers), []).append(layer)
    found = (LayerKind(layers, sum((kept[i] for i in numbers), Kept())) for numbers, layers in kinds.items())
    return ModelActivations(tuple(found), cut.value_bytes * composition.hidden_size, 0, composition.vocab_size)


class StageActivations:
    """What the stages of a pipeline keep; layers of one kind are counted once."""

    def __init__(self, model: ModelActivations, *, parallelism: Parallelism, execution: Execution) -> None:
        self._model = model
        self._tensor = parallelism.tensor
        self._execution = execution
        self._kinds = [(kind.layers, self._layer(kind.kept)) for kind in model.kinds]

    def stage_bytes(self, span: StageSpan) -> float:
        """Bytes on a GPU of the first of a span's stages, which holds the max of them.

        Layers x microbatches in flight, the embedding's dropout on the first stage, and on the last 2 w h + 4 V/t a
        token: the inputs of the last norm and of the head, and the logits in fp32.
        Source: Korthikanti et al. 2022, arXiv 2205.05198, section 4.3.

        >>> from sizing.model import catalog
        >>> from sizing.layout.stages import stage_spans
        >>> from sizing.model.inventory import inventory_of
        >>> gpt3, degrees = catalog()["gpt3-175b"].architecture, Parallelism(tensor=8, pipeline=8)
        >>> step = Execution(2048, 1, 64, 8, 1, "1f1b", "selective", num_sharing=8)
        >>> first = stage_spans(inventory_of(gpt3), degrees, num_layers=96)[0]
        >>> whole = _of_architecture(LayerShape(gpt3, degrees, 2))
        >>> found = StageActivations(whole, parallelism=degrees, execution=step).stage_bytes(first)
        >>> found == 8 * (12 * 34 + 1) * 2048 * 12288 / 8
        True
        """
        stage = span.stages.start
        is_last = span.stages.stop == self._execution.num_stages
        in_flight = self._execution.in_flight_microbatches(stage)
        held = self._held(span, num_modules=self._model.num_modules if is_last else 0)
        chunks = [sum(number * kept for number, (kept, _) in chunk) for chunk in held]
        recomputed = max((again for chunk in held for number, (_, again) in chunk if number), default=0.0)
        at_once = in_flight if self._execution.schedule == "gpipe" else 1.0
        return (
            self._execution.held_bytes(stage, chunks)
            + (in_flight * self._embedding() if stage == 0 else 0.0)
            + recomputed
            + (at_once * self._head() if is_last else 0.0)
        )

    def _layer(self, kept: Kept) -> tuple[float, float]:
        return layer_activation_bytes(kept, hidden_bytes=self._model.hidden_bytes, execution=self._execution)

    def _held(self, span: StageSpan, *, num_modules: int) -> list[list[tuple[int, tuple[float, float]]]]:
        """How many layers of each kind each chunk of a stage has, and what each of them keeps."""
        held = [
            [(len(layers_between(layers, chunk.start, chunk.stop)), kept) for layers, kept in self._kinds]
            for chunk in span.chunks
        ]
        number, kept = held[-1][-1]
        held[-1][-1] = number + num_modules, kept
        return held

    def _embedding(self) -> float:
        return self._execution.num_tokens * self._model.mask_bytes / self._execution.num_sharing

    def _head(self) -> float:
        """Of the head, and again of each multi-token-prediction module."""
        inputs = 2 * self._model.hidden_bytes / self._execution.num_sharing
        logits = LOGIT_BYTES * self._model.vocab_size / self._tensor
        return self._execution.num_tokens * (inputs + logits) * (1 + self._model.num_modules)
