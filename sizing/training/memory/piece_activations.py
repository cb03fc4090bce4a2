"""What the pieces of a layer keep for the backward pass, tensor by tensor.

Every input that a backward pass needs is kept once: 2 bytes a value (4 in fp32), 1 byte a value of a dropout mask. For
the layer of GPT this is the count of Korthikanti et al. 2022, arXiv 2205.05198, section 4.1; other layers are counted
by the same rule. Kernels say which inputs those are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sizing.layout import Parallelism
from sizing.model.composed.pieces import Attention, Experts, FeedForward, LatentAttention, Norms, Piece
from sizing.training.kernels import TRANSFORMER_ENGINE, Kernels


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that a layer keeps on one tensor rank.

    `split`, per token: of tensors that the ranks share. `whole`, per token: of tensors that each keeps, unless
    sequence parallelism shares them too. `scores`, per pair of tokens: of attention. `working`, per token: max of what
    the backward pass of one of the operations holds beside all that is kept.
    """

    split: float = 0.0
    whole: float = 0.0
    scores: float = 0.0
    working: float = 0.0

    def __add__(self, other: Kept) -> Kept:
        return Kept(
            self.split + other.split,
            self.whole + other.whole,
            self.scores + other.scores,
            max(self.working, other.working),
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """How one tensor rank runs a layer; `mask_bytes` are those of a dropout mask, per value."""

    parallelism: Parallelism
    value_bytes: int
    mask_bytes: int = 0
    experts_per_token: int = 0
    kernels: Kernels = TRANSFORMER_ENGINE

    @property
    def has_gathered_inputs(self) -> bool:
        """Whether a tensor rank gathers what it shares before it multiplies."""
        return self.parallelism.tensor > 1


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


def kept_of_list(piece: Piece, cut: Cut) -> Kept:
    """What a piece keeps with torchtitan's selective recomputation.

    Results of attention, of reduce-scatters and of every other matrix product of a layer, in the order query, key,
    value, output, gate, up, down; of the layer its input. Compiled, the result of the projection down is not kept, as
    no backward pass needs it. Of what is on no list all is kept.
    Source: torchtitan 9dec370, parallelisms/parallelize_llama.py, _save_list and _apply_ac_to_transformer_block.
    """
    formula = _LISTED.get(type(piece))
    return kept_by(piece, cut) if formula is None else formula(piece, cut)


def _listed_norms(norms: Norms, cut: Cut) -> Kept:
    is_eager = cut.kernels.keeps_products
    results = 2 if cut.parallelism.tensor > 1 else int(is_eager)
    return Kept(whole=cut.value_bytes * norms.hidden * (1 + results))


def _listed_attention(attention: Attention, cut: Cut) -> Kept:
    heads, kv_heads = _heads(attention.heads, attention.kv_heads, cut)
    return Kept(split=cut.value_bytes * (heads * attention.head_dim + (heads + kv_heads) * attention.value_dim))


def _listed_ffn(ffn: FeedForward, cut: Cut) -> Kept:
    return Kept(split=cut.value_bytes * ffn.ffn_width / cut.parallelism.tensor)


def _norms(norms: Norms, cut: Cut) -> Kept:
    """Inputs of the norms, and of the projections that follow; with one norm both blocks share theirs."""
    kernels, w = cut.kernels, cut.value_bytes
    inputs = norms.hidden * norms.norms * kernels.norm_bytes(w)
    masks = 2 * cut.mask_bytes * norms.hidden
    num_products = min(2, norms.norms)
    if kernels.keeps_gathered and cut.has_gathered_inputs:
        return Kept(split=w * norms.hidden * num_products, whole=inputs + masks)
    return Kept(whole=inputs + norms.hidden * num_products * kernels.product_bytes(w) + masks)


def _heads(heads: int, kv_heads: int, cut: Cut) -> tuple[float, float]:
    """Heads of a tensor rank: of keys and values at least one."""
    tensor = cut.parallelism.tensor
    return heads / tensor, max(kv_heads / tensor, 1.0)


def _scores(heads: float, cut: Cut) -> Kept:
    """Attention's scores, and with dropout a mask and what is left."""
    dropped = cut.mask_bytes + cut.value_bytes if cut.mask_bytes else 0
    return Kept(scores=(cut.value_bytes + dropped) * heads)


def _attention(attention: Attention, cut: Cut) -> Kept:
    """Queries, keys, values and attention's output; again what is normed, and what is gated with its gate."""
    heads, kv_heads = _heads(attention.heads, attention.kv_heads, cut)
    values = (heads + kv_heads) * (attention.head_dim + attention.value_dim)
    values += 2 * attention.gate_rows / cut.parallelism.tensor
    kept = Kept(split=cut.value_bytes * values) + _scores(heads, cut)
    if attention.head_norms or attention.wide_norms:
        kept += Kept(split=cut.kernels.norm_bytes(cut.value_bytes) * (heads + kv_heads) * attention.head_dim)
    return kept


def _latent(attention: LatentAttention, cut: Cut) -> Kept:
    """The same, and the latents before and after their norms."""
    heads = attention.heads / cut.parallelism.tensor
    latents = 2 * attention.query_rank + 2 * attention.key_value_rank + attention.rope_dim
    widths = attention.nope_dim + attention.rope_dim + attention.value_dim
    kept = Kept(split=cut.value_bytes * heads * 2 * widths, whole=cut.value_bytes * latents)
    return kept + _scores(heads, cut)


def _ffn(ffn: FeedForward, cut: Cut) -> Kept:
    """What goes into the activation function and into the projection down; with a gate, both its factors."""
    return _inner(ffn.ffn_width, ffn.hidden, cut, gated=ffn.gated)


def _inner(width: int, hidden: int, cut: Cut, *, gated: bool) -> Kept:
    """Beside them the max of two moments of the backward pass.

    In the projection down: the gathered gradient of its result, and that of its input. In the activation function:
    gradients of its result and of its inputs, after what goes into the projection down is freed. The gradient of the
    hidden state is held in both.
    """
    w, inner = cut.value_bytes, width / cut.parallelism.tensor
    tensors = cut.kernels.gated_tensors if gated else cut.kernels.plain_tensors
    gathered = hidden if cut.has_gathered_inputs else 0
    activation = (2 if gated else 1) * inner
    return Kept(split=w * tensors * inner, working=w * (hidden + max(gathered + inner, activation)))


def _experts(experts: Experts, cut: Cut) -> Kept:
    """The same of the experts that a token passes through, with their own copies of inputs and outputs."""
    ranks_with_token = cut.parallelism.expert_tensor_degree / cut.parallelism.tensor
    copies = cut.kernels.expert_copies * cut.value_bytes * experts.expert_hidden * ranks_with_token
    inner = _inner(experts.expert_width, experts.expert_hidden, cut, gated=experts.expert_gated)
    per_token = cut.experts_per_token
    routed = Kept(split=per_token * (copies + inner.split), working=per_token * inner.working)
    return _inner(experts.shared_width, experts.hidden, cut, gated=experts.expert_gated) + routed


_FORMULAS: dict[type[Piece], Callable[[Any, Cut], Kept]] = {
    Norms: _norms,
    Attention: _attention,
    LatentAttention: _latent,
    FeedForward: _ffn,
    Experts: _experts,
}

_LISTED: dict[type[Piece], Callable[[Any, Cut], Kept]] = {
    Norms: _listed_norms,
    Attention: _listed_attention,
    FeedForward: _listed_ffn,
}
