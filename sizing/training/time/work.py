"""What a layer computes and moves for a token: operations of matrix products, and bytes through the GPU's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sizing.model import ResolvedModel
from sizing.model.composed import dense_pieces, sparse_pieces
from sizing.model.composed.pieces import Attention, Experts, FeedForward, LatentAttention, Norms, Piece

CAUSAL = 0.5
"""Of all pairs of tokens, those that a token may look at."""


@dataclass(frozen=True, slots=True)
class Work:
    """Of the forward pass, for one token in the whole model: tensor ranks share it.

    `matrices`, `experts`: operations of matrix products of layers and of routed experts. `pairs`: operations for each
    other token of the sequence. `values`: values that go through memory in norms, activation functions and residual
    sums. `routed_values`: those that go to experts and come back, each way. `key_values`: values that attention
    needs of each token.
    """

    matrices: float = 0.0
    experts: float = 0.0
    pairs: float = 0.0
    values: float = 0.0
    routed_values: float = 0.0
    key_values: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(
            self.matrices + other.matrices,
            self.experts + other.experts,
            self.pairs + other.pairs,
            self.values + other.values,
            self.routed_values + other.routed_values,
            self.key_values + other.key_values,
        )

    def times(self, number: float) -> Work:
        """That of so many layers."""
        return Work(
            number * self.matrices,
            number * self.experts,
            number * self.pairs,
            number * self.values,
            number * self.routed_values,
            number * self.key_values,
        )


class NoWork(Exception):
    """A layer has a piece whose operations nobody here has counted."""


def _norms(piece: Norms, _: int) -> Work:
    """A norm reads and writes; a sum reads two and writes one."""
    return Work(values=5.0 * piece.hidden * piece.norms)


def _attention(piece: Attention, _: int) -> Work:
    rows = piece.heads * piece.head_dim + piece.kv_heads * (piece.head_dim + piece.value_dim) + piece.gate_rows
    products = piece.hidden * (rows + piece.heads * piece.value_dim)
    return Work(
        matrices=2.0 * products,
        pairs=2.0 * CAUSAL * piece.heads * (piece.head_dim + piece.value_dim),
        values=2.0 * (piece.heads + piece.kv_heads) * piece.head_dim,
        key_values=float(piece.kv_heads * (piece.head_dim + piece.value_dim)),
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
    )


def _ffn(piece: FeedForward, _: int) -> Work:
    return _inner(piece.hidden, piece.ffn_width, gated=piece.gated)


def _inner(hidden: int, width: int, *, gated: bool) -> Work:
    return Work(matrices=2.0 * (3 if gated else 2) * hidden * width, values=(3.0 if gated else 2.0) * width)


def _experts(piece: Experts, per_token: int) -> Work:
    """A token is copied out and in again for each expert that it passes through."""
    one = _inner(piece.expert_hidden, piece.expert_width, gated=piece.expert_gated)
    shared = _inner(piece.hidden, piece.shared_width, gated=piece.expert_gated)
    routed = Work(
        experts=per_token * one.matrices,
        values=per_token * (one.values + 4.0 * piece.expert_hidden),
        routed_values=float(per_token * piece.expert_hidden),
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
    """What pieces of a layer compute for a token: 2 operations for each parameter of a matrix that it meets.

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
class ModelWork:
    """Layers of each kind with what one of them computes, and the head."""

    kinds: tuple[tuple[Sequence[int], Work], ...]
    head: Work
    hidden: int
    vocabulary: int
    num_modules: int

    def between(self, num_layers: Callable[[Sequence[int]], int]) -> Work:
        """That of the layers that are counted of each kind."""
        return sum((work.times(num_layers(layers)) for layers, work in self.kinds), Work())


def model_work(model: ResolvedModel) -> ModelWork | None:
    """What a model computes, or None where nobody here has counted it."""
    per_token = model.num_experts_per_token or 0
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
            return ModelWork(tuple(kinds), head, a.hidden_size, a.vocab_size, a.num_mtp_layers or 0)
        if model.composition is not None:
            c = model.composition
            each = [work_of([placed.piece], experts_per_token=per_token) for placed in c.placed]
            found = tuple((placed.layers, work) for placed, work in zip(c.placed, each, strict=True))
            head = Work(matrices=2.0 * c.hidden_size * c.vocab_size)
            return ModelWork(found, head, c.hidden_size, c.vocab_size, 0)
    except NoWork:
        pass
    return None
