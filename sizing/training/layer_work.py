"""Work of a layer for one token: operations of matrix products, and bytes through the GPU's memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sizing.layout.trained_model import trained_inventory
from sizing.model import ResolvedModel
from sizing.model.attention_window import AttentionWindow
from sizing.model.composed import dense_pieces, sparse_pieces
from sizing.model.composed.pieces import Attention, Experts, FeedForward, LatentAttention, Norms, Piece
from sizing.model.inventory import Inventory, TensorGroup, progression
from sizing.state import Training

OF_A_NORM, OF_A_SUM = 2.0, 3.0
"""Values moved for each: a norm reads one and writes one, a residual sum reads two and writes one."""
CAUSAL = 0.5
"""Share of all pairs of tokens that a token may look at."""


@dataclass(frozen=True, slots=True)
class Work:
    """Work of the forward pass for one token. Tensor ranks share it.

    `matrices`, `experts`: operations of matrix products of layers and of routed experts. `pairs`: operations for each
    other token of the sequence; `window_pairs`: those of layers with a window. `values`: values that go through memory
    in norms, activation functions and residual sums. `routed_values`: those that go to experts and come back, each way.
    `key_values`: values that attention needs of each token. `up_projections`, `norm_values`, `expert_values`: of these,
    what recomputation of modules does again: up-projections of latents, norms, and activation functions of routed
    experts.
    """

    matrices: float = 0.0
    experts: float = 0.0
    pairs: float = 0.0
    values: float = 0.0
    routed_values: float = 0.0
    key_values: float = 0.0
    up_projections: float = 0.0
    norm_values: float = 0.0
    expert_values: float = 0.0
    heads: float = 0.0
    window_pairs: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(*map(operator.add, _figures(self), _figures(other)))

    def times(self, number: float) -> Work:
        """Return the work of a number of such layers."""
        return Work(*[number * each for each in _figures(self)])


_figures = operator.attrgetter(*(each.name for each in fields(Work)))  # astuple() would copy each, ten times slower


class NoWork(Exception):
    """Raised for a piece of a layer whose operations have no formula here."""


def _norms(piece: Norms, _: int) -> Work:
    """Count a norm and the residual sum beside it."""
    num_values = piece.hidden * piece.norms
    return Work(values=(OF_A_NORM + OF_A_SUM) * num_values, norm_values=OF_A_NORM * num_values)


def _attention(piece: Attention, _: int) -> Work:
    rows = piece.heads * piece.head_dim + piece.kv_heads * (piece.head_dim + piece.value_dim) + piece.gate_rows
    products = piece.hidden * (rows + piece.heads * piece.value_dim)
    return Work(
        matrices=2.0 * products,
        pairs=2.0 * CAUSAL * piece.heads * (piece.head_dim + piece.value_dim),
        values=2.0 * (piece.heads + piece.kv_heads) * piece.head_dim,
        key_values=float(piece.kv_heads * (piece.head_dim + piece.value_dim)),
        heads=float(piece.heads),
    )


def _latent(piece: LatentAttention, _: int) -> Work:
    query = piece.heads * (piece.nope_dim + piece.rope_dim)
    key_value = piece.heads * (piece.nope_dim + piece.value_dim)
    queries = piece.query_rank * (piece.hidden + query) if piece.query_rank else piece.hidden * query
    latents = piece.hidden * (piece.key_value_rank + piece.rope_dim)
    products = queries + latents + piece.key_value_rank * key_value + piece.heads * piece.value_dim * piece.hidden
    return Work(
        matrices=2.0 * products,
        pairs=2.0 * CAUSAL * (query + piece.heads * piece.value_dim),
        values=4.0 * query,
        key_values=float(key_value + piece.heads * piece.rope_dim),
        heads=float(piece.heads),
        up_projections=2.0 * (piece.query_rank * query + piece.key_value_rank * key_value),
    )


def _ffn(piece: FeedForward, _: int) -> Work:
    return _inner(piece.hidden, piece.ffn_width, gated=piece.gated)


def _inner(hidden: int, width: int, *, gated: bool) -> Work:
    values = (3.0 if gated else 2.0) * width
    return Work(matrices=2.0 * (3 if gated else 2) * hidden * width, values=values)


def _experts(piece: Experts, per_token: int) -> Work:
    """Count the experts of a token; each copies the token in and out."""
    one = _inner(piece.expert_hidden, piece.expert_width, gated=piece.expert_gated)
    shared = _inner(piece.hidden, piece.shared_width, gated=piece.expert_gated)
    routed = Work(
        experts=per_token * one.matrices,
        values=per_token * (one.values + 4.0 * piece.expert_hidden),
        routed_values=float(per_token * piece.expert_hidden),
        expert_values=per_token * one.values,
    )
    return shared + routed + Work(matrices=2.0 * piece.hidden * piece.experts)


_FORMULAS: dict[type[Piece], Callable[[Any, int], Work]] = {
    Norms: _norms,
    Attention: _attention,
    LatentAttention: _latent,
    FeedForward: _ffn,
    Experts: _experts,
}


def work_of(pieces: Iterable[Piece], *, experts_per_token: int) -> Work:
    """Count what pieces of a layer compute for a token: 2 operations for each parameter of a matrix that it meets.

    Source: Narayanan et al. 2021, arXiv 2104.04473, appendix; attention halved, as a token sees those before it alone.
    Raises NoWork for a piece that nobody has counted.

    >>> work_of([FeedForward(4, 16, False, False)], experts_per_token=0).matrices
    256.0
    """
    total = Work()
    for piece in pieces:
        formula = _FORMULAS.get(type(piece))
        if formula is None:
            raise NoWork
        total += formula(piece, experts_per_token)
    return total


@dataclass(frozen=True, slots=True)
class TrainedShares:
    """Shares of the values in matrices of layers, of routed experts and of the head that have gradients of weights."""

    matrices: float = 1.0
    experts: float = 1.0
    head: float = 1.0


def trained_shares(inventory: Inventory) -> TrainedShares:
    """Return which shares of the products for gradients of weights are computed: those of trained matrices.

    Share = values of trained matrices / values of all, adapters among both. The gradients of inputs are computed
    through frozen matrices too, also where nothing before them is trained.
    Source: torch/csrc/autograd/engine.cpp: no gradient of a tensor that requires none.

    >>> from sizing.model.inventory import TensorGroup
    >>> up = TensorGroup("ffn.up", (8, 4), 8, layers=range(3))
    >>> down = TensorGroup("ffn.down", (4, 8), 8, layers=range(3), is_trained=False)
    >>> trained_shares((up, down)).matrices
    0.5
    """
    of_layers = [each for each in inventory if each.placement == "layers" and len(each.shape) == 2]
    return TrainedShares(
        matrices=_trained_share(each for each in of_layers if not each.experts),
        experts=_trained_share(each for each in of_layers if each.experts),
        head=_trained_share(
            each
            for each in inventory
            if each.placement in ("last-stage", "first-and-last-stage") and len(each.shape) == 2
        ),
    )


def _trained_share(groups: Iterable[TensorGroup]) -> float:
    """Return the share of values that are trained; 1 of nothing."""
    counts = [(each.num_parameters, each.is_trained) for each in groups]
    total = sum(number for number, _ in counts)
    return sum(number for number, is_trained in counts if is_trained) / total if total else 1.0


@dataclass(frozen=True, slots=True)
class ModelWork:
    """Work of a model: layers of each kind with the work of one of them, and the head."""

    kinds: tuple[tuple[Sequence[int], Work], ...]
    head: Work
    hidden: int
    vocabulary: int
    num_modules: int
    experts_per_token: int
    trained: TrainedShares = TrainedShares()
    window: AttentionWindow | None = None

    def attention_flops(self, layers: Work, sequence_length: int) -> float:
        """Return the operations of attention of the forward pass for one token, each with the keys that it sees.

        Mean keys: s/2 of a sequence of s tokens, in layers with a window AttentionWindow.mean_keys.
        """
        flops = layers.pairs * sequence_length
        if self.window is not None:
            flops += layers.window_pairs * self.window.mean_keys(sequence_length) / CAUSAL
        return flops

    @property
    def has_experts(self) -> bool:
        """Whether some layers have routed experts."""
        return any(work.experts for _, work in self.kinds)

    def between(self, num_layers: Callable[[Sequence[int]], int]) -> Work:
        """Return the work of the layers that `num_layers` counts of each kind."""
        return sum((work.times(num_layers(layers)) for layers, work in self.kinds), Work())


def model_work(model: ResolvedModel, training: Training) -> ModelWork | None:
    """Return the work of a model of which `training` trains some or all, or None where no formula counts it."""
    per_token = model.num_experts_per_token or 0
    is_whole = training.adapters is None and not training.frozen
    trained = TrainedShares() if is_whole else trained_shares(trained_inventory(model.inventory, training))
    try:
        if model.architecture is not None:
            a = model.architecture
            kinds: list[tuple[Sequence[int], Work]] = []
            if a.dense_layers:
                kinds.append((range(a.dense_layers), work_of(dense_pieces(a), experts_per_token=per_token)))
            if a.num_experts is not None and a.dense_layers < a.num_layers:
                sparse = work_of(sparse_pieces(a), experts_per_token=per_token)
                kinds.append((range(a.dense_layers, a.num_layers), sparse))
            head = Work(matrices=2.0 * a.hidden_size * a.vocab_size)
            modules, cut = a.num_mtp_layers or 0, tuple(_cut_by_window(kinds, a.window))
            return ModelWork(cut, head, a.hidden_size, a.vocab_size, modules, per_token, trained, a.window)
        if model.composition is not None:
            c = model.composition
            each = [work_of([placed.piece], experts_per_token=per_token) for placed in c.placed]
            of_pieces = ((placed.layers, work) for placed, work in zip(c.placed, each, strict=True))
            head, cut = Work(matrices=2.0 * c.hidden_size * c.vocab_size), tuple(_cut_by_window(of_pieces, c.window))
            return ModelWork(cut, head, c.hidden_size, c.vocab_size, 0, per_token, trained, c.window)
    except NoWork:
        pass
    return None


def _cut_by_window(
    kinds: Iterable[tuple[Sequence[int], Work]], window: AttentionWindow | None
) -> Iterator[tuple[Sequence[int], Work]]:
    """Yield layers of each kind in two: those whose attention sees all tokens, and those with a window."""
    for layers, work in kinds:
        if window is None or not work.pairs:
            yield layers, work
            continue
        whole = [layer for layer in layers if layer not in window.layers]
        cut = [layer for layer in layers if layer in window.layers]
        yield from ((progression(whole), work),) if whole else ()
        yield from ((progression(cut), replace(work, pairs=0.0, window_pairs=work.pairs)),) if cut else ()
