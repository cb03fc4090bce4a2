"""Activations of a layer: bytes that its pieces keep for the backward pass, and bytes held while it is recomputed.

Every input that a backward pass needs is kept once: 2 bytes a value (4 in fp32), 1 byte a value of a dropout mask. For
the layer of GPT this is the count of Korthikanti et al. 2022, arXiv 2205.05198, section 4.1; other layers are counted
by the same rule. Kernels say which inputs those are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sizing.layout import Parallelism
from sizing.model import Architecture
from sizing.model.composed import dense_pieces, sparse_pieces
from sizing.model.composed.pieces import Attention, Experts, FeedForward, LatentAttention, Norms, Piece
from sizing.state.training import RecomputeModule
from sizing.training.execution import Execution
from sizing.training.kernels import TRANSFORMER_ENGINE, Kernels


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """Bytes that a layer keeps on one tensor rank.

    `split`, per token: of tensors that the ranks share. `whole`, per token: of tensors that each keeps, unless
    sequence parallelism shares them too. `scores`, per pair of tokens: of attention. `working`, per token: max of what
    the backward pass of one of the operations holds beside all that is kept.
    """

    split: float = 0.0
    whole: float = 0.0
    scores: float = 0.0
    working: float = 0.0

    def __add__(self, other: KeptBytes) -> KeptBytes:
        return KeptBytes(
            self.split + other.split,
            self.whole + other.whole,
            self.scores + other.scores,
            max(self.working, other.working),
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """Division of a layer over one tensor rank; `mask_bytes`: bytes per value of a dropout mask.

    `cached_bytes`: bytes per value of the inputs of matrix products, less than `value_bytes` where these are quantized.
    """

    parallelism: Parallelism
    value_bytes: int
    mask_bytes: int = 0
    experts_per_token: int = 0
    kernels: Kernels = TRANSFORMER_ENGINE
    cached_bytes: float | None = None

    @property
    def product_bytes(self) -> float:
        """Bytes per value that a matrix product keeps of its input."""
        return self.value_bytes if self.cached_bytes is None else self.cached_bytes

    @property
    def result_bytes(self) -> float:
        """Bytes per value of what another kernel makes and keeps, and a product keeps as its input: once or twice."""
        return self.value_bytes if self.cached_bytes is None else self.value_bytes + self.cached_bytes

    @property
    def has_gathered_inputs(self) -> bool:
        """Whether a tensor rank gathers the divided inputs before it multiplies."""
        return self.parallelism.tensor > 1


class NoFormula(Exception):
    """Raised for a piece of a layer whose activations have no formula here."""


def kept_by(piece: Piece, cut: Cut) -> KeptBytes:
    """Return the bytes that a piece of a layer keeps.

    Raises NoFormula for a piece that is not of attention, a feed-forward block, experts or norms.
    """
    formula = _FORMULAS.get(type(piece))
    if formula is None:
        raise NoFormula
    return formula(piece, cut)


def kept_of_list(piece: Piece, cut: Cut) -> KeptBytes:
    """Return the bytes that a piece keeps with torchtitan's selective recomputation.

    Results of attention, of reduce-scatters and of every other matrix product of a layer, in the order query, key,
    value, output, gate, up, down; of the layer its input. Compiled, the result of the projection down is not kept, as
    no backward pass needs it. Of what is on no list all is kept.
    Source: torchtitan 9dec370, parallelisms/parallelize_llama.py, _save_list and _apply_ac_to_transformer_block.
    """
    formula = _LISTED.get(type(piece))
    return replace(kept_by(piece, cut), scores=0.0) if formula is None else formula(piece, cut)


def kept_without_modules(modules: Collection[RecomputeModule]) -> Callable[[Piece, Cut], KeptBytes]:
    """Return the function of the bytes that a piece keeps where some modules are computed again.

    Of norms their inputs; of latent attention the latents before their norms, and the result of attention; of routed
    experts the inputs of the activation function, in 8 bits where products are; of attention no scores. Of what is no
    such module all is kept.
    Source: DeepSeek-AI 2024, arXiv 2412.19437, sections 3.2.3 and 3.3.3; Megatron-LM, --recompute-modules layernorm
    mla_up_proj moe_act core_attn.
    """

    def kept(piece: Piece, cut: Cut) -> KeptBytes:
        module = _MODULES.get(type(piece))
        formula = _WITHOUT_MODULE[module] if module in modules else None
        all_kept = formula(piece, cut) if formula is not None else kept_by(piece, cut)
        return replace(all_kept, scores=0.0) if "core-attn" in modules else all_kept

    return kept


def _kept_without_norms(norms: Norms, cut: Cut) -> KeptBytes:
    inputs = norms.hidden * norms.norms * cut.kernels.norm_bytes(cut.value_bytes)
    return KeptBytes(whole=inputs + 2 * cut.mask_bytes * norms.hidden)


def _kept_without_up_projections(attention: LatentAttention, cut: Cut) -> KeptBytes:
    heads, w = attention.heads / cut.parallelism.tensor, cut.value_bytes
    queries = 0 if attention.query_rank else w * (attention.nope_dim + attention.rope_dim)
    latents = attention.query_rank + attention.key_value_rank + attention.rope_dim
    split = heads * (queries + cut.result_bytes * attention.value_dim)
    working = w * heads * 2 * (attention.nope_dim + attention.rope_dim)
    return KeptBytes(split=split, whole=w * latents, working=working) + _scores(heads, cut)


def _kept_without_expert_activations(experts: Experts, cut: Cut) -> KeptBytes:
    ranks_with_token = cut.parallelism.expert_tensor_degree / cut.parallelism.tensor
    inputs = cut.product_bytes * (2 if experts.expert_gated else 1) * experts.expert_width / cut.parallelism.tensor
    routed = cut.experts_per_token * (cut.product_bytes * experts.expert_hidden * ranks_with_token + inputs)
    return _inner(experts.shared_width, experts.hidden, cut, gated=experts.expert_gated) + KeptBytes(split=routed)


def _listed_norms(norms: Norms, cut: Cut) -> KeptBytes:
    is_eager = cut.kernels.keeps_products
    results = 2 if cut.parallelism.tensor > 1 else int(is_eager)
    return KeptBytes(whole=cut.value_bytes * norms.hidden * (1 + results))


def _listed_attention(attention: Attention, cut: Cut) -> KeptBytes:
    heads, kv_heads = _heads(attention.heads, attention.kv_heads, cut)
    return KeptBytes(split=cut.value_bytes * (heads * attention.head_dim + (heads + kv_heads) * attention.value_dim))


def _listed_ffn(ffn: FeedForward, cut: Cut) -> KeptBytes:
    return KeptBytes(split=cut.value_bytes * ffn.ffn_width / cut.parallelism.tensor)


def _norms(norms: Norms, cut: Cut) -> KeptBytes:
    """Count the inputs of the norms and of the projections after them. With one norm both blocks share its result."""
    kernels, w = cut.kernels, cut.value_bytes
    inputs = norms.hidden * norms.norms * kernels.norm_bytes(w)
    masks = 2 * cut.mask_bytes * norms.hidden
    num_products = min(2, norms.norms)
    if kernels.keeps_gathered and cut.has_gathered_inputs:
        return KeptBytes(split=w * norms.hidden * num_products, whole=inputs + masks)
    products = num_products * cut.product_bytes if kernels.keeps_products else 0.0
    return KeptBytes(whole=inputs + norms.hidden * products + masks)


def _heads(heads: int, kv_heads: int, cut: Cut) -> tuple[float, float]:
    """Return the heads of a tensor rank, and its heads of keys and values: at least one."""
    tensor = cut.parallelism.tensor
    return heads / tensor, max(kv_heads / tensor, 1.0)


def _scores(heads: float, cut: Cut) -> KeptBytes:
    """Count the attention scores, and with dropout also the mask and the result."""
    dropped = cut.mask_bytes + cut.value_bytes if cut.mask_bytes else 0
    return KeptBytes(scores=(cut.value_bytes + dropped) * heads)


def _attention(attention: Attention, cut: Cut) -> KeptBytes:
    """Count queries, keys, values and the attention output; normed heads and gated values count a second time."""
    heads, kv_heads = _heads(attention.heads, attention.kv_heads, cut)
    values = heads * attention.head_dim + kv_heads * (attention.head_dim + attention.value_dim)
    values += 2 * attention.gate_rows / cut.parallelism.tensor
    split = cut.value_bytes * values + cut.result_bytes * heads * attention.value_dim
    kept = KeptBytes(split=split) + _scores(heads, cut)
    if attention.head_norms or attention.wide_norms:
        kept += KeptBytes(split=cut.kernels.norm_bytes(cut.value_bytes) * (heads + kv_heads) * attention.head_dim)
    return kept


def _latent(attention: LatentAttention, cut: Cut) -> KeptBytes:
    """Count queries, keys, values and the attention output, and the latents before and after their norms."""
    heads = attention.heads / cut.parallelism.tensor
    ranks, widths = attention.query_rank + attention.key_value_rank, attention.nope_dim + attention.rope_dim
    kept = KeptBytes(
        split=heads * (cut.value_bytes * (2 * widths + attention.value_dim) + cut.result_bytes * attention.value_dim),
        whole=(cut.value_bytes + cut.product_bytes) * ranks + cut.value_bytes * attention.rope_dim,
    )
    return kept + _scores(heads, cut)


def _ffn(ffn: FeedForward, cut: Cut) -> KeptBytes:
    """Count the inputs of the activation function and of the down projection."""
    return _inner(ffn.ffn_width, ffn.hidden, cut, gated=ffn.gated)


def _inner(width: int, hidden: int, cut: Cut, *, gated: bool) -> KeptBytes:
    """Count the inner tensors of a feed-forward block, and the larger of two peaks of its backward pass.

    In the projection down: the gathered gradient of its result, and that of its input. In the activation function:
    gradients of its result and of its inputs, after what goes into the projection down is freed. The gradient of the
    hidden state is held in both.
    """
    w, inner = cut.value_bytes, width / cut.parallelism.tensor
    tensors = cut.kernels.gated_tensors if gated else cut.kernels.plain_tensors
    gathered = hidden if cut.has_gathered_inputs else 0
    activation = (2 if gated else 1) * inner
    split = (w * (tensors - 1) + cut.product_bytes) * inner
    return KeptBytes(split=split, working=w * (hidden + max(gathered + inner, activation)))


def _experts(experts: Experts, cut: Cut) -> KeptBytes:
    """Count the inner tensors of a token's experts, with each expert's copies of inputs and outputs."""
    ranks_with_token = cut.parallelism.expert_tensor_degree / cut.parallelism.tensor
    further = cut.value_bytes * (cut.kernels.expert_copies - 1)
    copies = (cut.product_bytes + further) * experts.expert_hidden * ranks_with_token
    inner = _inner(experts.expert_width, experts.expert_hidden, cut, gated=experts.expert_gated)
    per_token = cut.experts_per_token
    routed = KeptBytes(split=per_token * (copies + inner.split), working=per_token * inner.working)
    return _inner(experts.shared_width, experts.hidden, cut, gated=experts.expert_gated) + routed


_FORMULAS: dict[type[Piece], Callable[[Any, Cut], KeptBytes]] = {
    Norms: _norms,
    Attention: _attention,
    LatentAttention: _latent,
    FeedForward: _ffn,
    Experts: _experts,
}

_MODULES: dict[type[Piece], RecomputeModule] = {
    Norms: "layernorm",
    LatentAttention: "mla-up-proj",
    Experts: "moe-act",
}
_WITHOUT_MODULE: dict[RecomputeModule | None, Callable[[Any, Cut], KeptBytes]] = {
    "layernorm": _kept_without_norms,
    "mla-up-proj": _kept_without_up_projections,
    "moe-act": _kept_without_expert_activations,
}

_LISTED: dict[type[Piece], Callable[[Any, Cut], KeptBytes]] = {
    Norms: _listed_norms,
    Attention: _listed_attention,
    FeedForward: _listed_ffn,
}


MASK_BYTES = 1
"""Bytes of a dropout mask, per value: Korthikanti et al. 2022, section 4.1."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Shape of an architecture's layers on one tensor rank."""

    architecture: Architecture
    parallelism: Parallelism
    value_bytes: int
    kernels: Kernels = TRANSFORMER_ENGINE
    cached_bytes: float | None = None

    @property
    def cut(self) -> Cut:
        """How tensor and context ranks cut a layer's activations."""
        a = self.architecture
        mask_bytes = MASK_BYTES if a.traits.dropout else 0
        per_token = a.num_experts_per_token or 0
        return Cut(self.parallelism, self.value_bytes, mask_bytes, per_token, self.kernels, self.cached_bytes)

    @property
    def dense(self) -> KeptBytes:
        """What a layer with a dense feed-forward block keeps."""
        return self._kept(dense_pieces(self.architecture))

    @property
    def sparse(self) -> KeptBytes:
        """What a layer with experts keeps, among which the tokens are taken to spread evenly."""
        return self._kept(sparse_pieces(self.architecture))

    @property
    def hidden_bytes(self) -> int:
        """Bytes of the hidden state of one token."""
        return self.value_bytes * self.architecture.hidden_size

    def _kept(self, pieces: Iterable[Piece]) -> KeptBytes:
        return sum((kept_by(piece, self.cut) for piece in pieces), KeptBytes())

    def selected(self, kept_of: Callable[[Piece, Cut], KeptBytes], *, is_sparse: bool) -> KeptBytes:
        """Return the bytes that a dense or sparse layer keeps with a kind of selective recomputation."""
        pieces = sparse_pieces(self.architecture) if is_sparse else dense_pieces(self.architecture)
        return sum((kept_of(piece, self.cut) for piece in pieces), KeptBytes())


def layer_activation_bytes(
    kept: KeptBytes, *, hidden_bytes: int, execution: Execution, selected: KeptBytes | None = None
) -> tuple[float, float]:
    """Return the bytes that a layer keeps of one microbatch, and those it adds while it is recomputed.

    b s/c (split + whole/t) + b s^2/c scores with sequence parallelism, whole undivided without; selective: without the
    scores, or `selected`, what its kind of selective recomputation keeps; full: b s/c w h, the layer's input; once what
    is computed again. b sequences of s tokens, c context and t tensor ranks, w bytes a value. Attention that is not
    eager keeps no scores.
    Source: Korthikanti et al. 2022, arXiv 2205.05198, equations 1 to 4 and section 5; what is computed again:
    Rajbhandari et al. 2021, arXiv 2104.07857, section 3; without scores: Dao et al. 2022, arXiv 2205.14135, section
    3.1.

    >>> h, a, s = 12_288, 96, 2_048  # GPT-3, whose layer keeps 34 s b h + 5 a s^2 b by equation 1
    >>> whole = Execution(s, 1, None, 1, 1, "1f1b", "none", attention="eager")
    >>> layer_activation_bytes(KeptBytes(24 * h, 10 * h, 5 * a), hidden_bytes=2 * h, execution=whole)[0] / (s * h)
    114.0
    """
    tokens, sharing = execution.num_tokens, execution.num_sharing
    without_scores = tokens * (kept.split + kept.whole / sharing)
    scores = tokens * execution.sequence_length * kept.scores if execution.attention == "eager" else 0.0
    match execution.recomputation:
        case "none":
            return without_scores + scores, 0.0
        case "selective" if selected is not None:
            stored = tokens * (selected.split + selected.whole / sharing)
            if execution.attention == "eager":
                stored += tokens * execution.sequence_length * selected.scores
            return stored, max(0.0, without_scores + scores - stored)
        case "selective":
            return without_scores, scores
        case "full":
            return tokens * hidden_bytes / sharing, without_scores + scores
