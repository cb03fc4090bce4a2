"""The pieces of a layer: each kind lists its tensors. Its fields are numbers, as a config gives them.

Sources: the published code of the models, as `transformers` builds it; each kind is proven by building every model_type
that has it on the meta device. Tensor parallelism cuts them as Megatron-LM does (core/transformer, core/ssm).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from sizing.model.architecture import Architecture
from sizing.model.layer_tensors import Tensor


class Piece(Protocol):
    """A block of a layer, such as attention, that knows its tensors."""

    def tensors(self) -> Iterator[Tensor]:
        """List the tensors of one layer."""


@dataclass(frozen=True, slots=True)
class Norms:
    """Norms of the hidden state. `norm_tensors` is 1 for RMSNorm, 2 for LayerNorm, 0 for a norm without weights."""

    hidden: int
    norms: int
    norm_tensors: int

    def tensors(self) -> Iterator[Tensor]:
        """List a weight of each norm, with or without a bias."""
        yield Tensor("norm", (self.hidden,), pieces=1, count=self.norms * self.norm_tensors)


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention with heads in groups that share keys and values.

    `head_norms`: norms of width head_dim for queries, and as many for keys. `wide_norms`: norms over all heads at once,
    likewise. `gate_rows`: rows of a projection that gates attention's output, divided with the heads. `sinks`: one
    number for each head.
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    query_bias: bool
    key_value_bias: bool
    output_bias: bool
    head_norms: int
    wide_norms: int
    gate_rows: int
    sinks: bool

    def tensors(self) -> Iterator[Tensor]:
        """List the projections with their biases and norms, then gate and sinks where there are any."""
        hidden, heads, kv_heads = self.hidden, self.heads, self.kv_heads
        yield Tensor("attention.query", (heads * self.head_dim, hidden), pieces=heads)
        yield Tensor("attention.key", (kv_heads * self.head_dim, hidden), pieces=kv_heads)
        yield Tensor("attention.value", (kv_heads * self.value_dim, hidden), pieces=kv_heads)
        yield Tensor("attention.output", (hidden, heads * self.value_dim), pieces=heads, cut=1)
        yield from self._biases()
        yield from self._norms()
        if self.gate_rows:
            yield Tensor("attention.gate", (self.gate_rows, self.hidden), pieces=self.heads)
        if self.sinks:
            yield Tensor("attention.sinks", (self.heads,), pieces=self.heads)

    def _biases(self) -> Iterator[Tensor]:
        if self.query_bias:
            yield Tensor("attention.query.bias", (self.heads * self.head_dim,), pieces=self.heads)
        if self.key_value_bias:
            yield Tensor("attention.key.bias", (self.kv_heads * self.head_dim,), pieces=self.kv_heads)
            yield Tensor("attention.value.bias", (self.kv_heads * self.value_dim,), pieces=self.kv_heads)
        if self.output_bias:
            yield Tensor("attention.output.bias", (self.hidden,), pieces=1)

    def _norms(self) -> Iterator[Tensor]:
        if self.head_norms:
            yield Tensor("attention.query_key_norm", (self.head_dim,), pieces=1, count=2 * self.head_norms)
        if self.wide_norms:
            widths = (("query", self.heads), ("key", self.kv_heads))
            for name, heads in widths:
                shape = (heads * self.head_dim,)
                yield Tensor(f"attention.{name}_norm", shape, pieces=heads, count=self.wide_norms)


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention, DeepSeek-AI 2024, arXiv 2405.04434, section 2.1; queries compressed if given a rank.

    `latent_bias`: the projections into the latents and attention's output have biases.
    """

    hidden: int
    heads: int
    query_rank: int
    key_value_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    latent_bias: bool

    def tensors(self) -> Iterator[Tensor]:
        """List the tensors. Down-projections are whole on every tensor rank; up-projections are cut by heads."""
        hidden, heads, latent = self.hidden, self.heads, self.key_value_rank
        yield from self._queries(self.nope_dim + self.rope_dim)
        yield Tensor("attention.key_value_down", (latent + self.rope_dim, hidden), pieces=1)
        yield Tensor("attention.key_value_norm", (latent,), pieces=1)
        yield Tensor("attention.key_value_up", (heads * (self.nope_dim + self.value_dim), latent), pieces=heads)
        yield Tensor("attention.output", (hidden, heads * self.value_dim), pieces=heads, cut=1)
        if self.latent_bias:
            yield Tensor("attention.key_value_down.bias", (latent + self.rope_dim,), pieces=1)
            yield Tensor("attention.output.bias", (hidden,), pieces=1)

    def _queries(self, width: int) -> Iterator[Tensor]:
        if not self.query_rank:
            yield Tensor("attention.query", (self.heads * width, self.hidden), pieces=self.heads)
            return
        yield Tensor("attention.query_down", (self.query_rank, self.hidden), pieces=1)
        yield Tensor("attention.query_norm", (self.query_rank,), pieces=1)
        yield Tensor("attention.query_up", (self.heads * width, self.query_rank), pieces=self.heads)
        if self.latent_bias:
            yield Tensor("attention.query_down.bias", (self.query_rank,), pieces=1)


@dataclass(frozen=True, slots=True)
class Indexer:
    """Selection of the keys that each query attends to: DeepSeek-V3.2-Exp, lightning indexer. Whole on every rank."""

    hidden: int
    query_rank: int
    index_heads: int
    index_dim: int

    def tensors(self) -> Iterator[Tensor]:
        """List the tensors: queries from attention's latent, one key for all heads, and a weight per head."""
        yield Tensor("indexer.query", (self.index_heads * self.index_dim, self.query_rank), pieces=1)
        yield Tensor("indexer.key", (self.index_dim, self.hidden), pieces=1)
        yield Tensor("indexer.key_norm", (self.index_dim,), pieces=1, count=2)
        yield Tensor("indexer.weights", (self.index_heads, self.hidden), pieces=1)


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Feed-forward block: up (twice if gated) and down."""

    hidden: int
    ffn_width: int
    gated: bool
    ffn_bias: bool

    def tensors(self) -> Iterator[Tensor]:
        """List the matrices: up is cut by columns, down by rows."""
        yield from _ffn("ffn", self.hidden, self.ffn_width, gated=self.gated, bias=self.ffn_bias)


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts, their router, and shared experts that every token passes through.

    `expert_hidden`: the width that routed experts read and write, which may differ from that of the hidden state.
    """

    hidden: int
    experts: int
    expert_hidden: int
    expert_width: int
    expert_gated: bool
    expert_bias: bool
    router_bias: bool
    shared_width: int
    shared_bias: bool
    shared_gate: bool

    def tensors(self) -> Iterator[Tensor]:
        """List the router, which is whole on every rank, and the experts."""
        yield Tensor("router", (self.experts, self.hidden), pieces=1)
        if self.router_bias:
            yield Tensor("router.bias", (self.experts,), pieces=1)
        of_expert = {"gated": self.expert_gated, "bias": self.expert_bias}
        yield from _ffn("expert", self.expert_hidden, self.expert_width, experts=self.experts, **of_expert)
        if self.shared_width:
            shared = {"gated": self.expert_gated, "bias": self.shared_bias}
            yield from _ffn("shared_expert", self.hidden, self.shared_width, **shared)
        if self.shared_gate:
            yield Tensor("shared_expert.gate", (1, self.hidden), pieces=1)


def _ffn(name: str, hidden: int, width: int, *, gated: bool, bias: bool, experts: int = 0) -> Iterator[Tensor]:
    ups = 2 if gated else 1
    yield Tensor(f"{name}.up", (width, hidden), pieces=width, count=ups, experts=experts)
    yield Tensor(f"{name}.down", (hidden, width), pieces=width, experts=experts, cut=1)
    if bias:
        yield Tensor(f"{name}.up.bias", (width,), pieces=width, count=ups, experts=experts)
        yield Tensor(f"{name}.down.bias", (hidden,), pieces=1, experts=experts)


def dense_pieces(a: Architecture) -> Iterator[Piece]:
    """List the pieces of an Architecture's layer with a dense feed-forward block."""
    yield from _list_common_pieces(a)
    yield FeedForward(a.hidden_size, a.ffn_width, gated=a.traits.gated_ffn, ffn_bias=a.has_ffn_bias)


def sparse_pieces(a: Architecture) -> Iterator[Piece]:
    """List the pieces of an Architecture's layer with experts."""
    yield from _list_common_pieces(a)
    yield Experts(
        hidden=a.hidden_size,
        experts=a.num_experts or 0,
        expert_hidden=a.hidden_size,
        expert_width=a.expert_width,
        expert_gated=a.traits.gated_ffn,
        expert_bias=a.has_ffn_bias,
        router_bias=False,
        shared_width=a.shared_expert_width,
        shared_bias=a.has_ffn_bias,
        shared_gate=a.traits.shared_expert_gate,
    )


def _list_common_pieces(a: Architecture) -> Iterator[Piece]:
    yield Norms(a.hidden_size, a.layer_norms, a.traits.norm_tensors)
    yield _make_latent_attention(a) if a.traits.latent_attention else _make_grouped_attention(a)


def _make_grouped_attention(a: Architecture) -> Piece:
    return Attention(
        hidden=a.hidden_size,
        heads=a.num_attention_heads,
        kv_heads=a.kv_heads,
        head_dim=a.head_width,
        value_dim=a.head_width,
        query_bias=a.has_qkv_bias,
        key_value_bias=a.has_qkv_bias,
        output_bias=a.has_attention_output_bias,
        head_norms=int(a.traits.query_key_norms),
        wide_norms=0,
        gate_rows=0,
        sinks=False,
    )


def _make_latent_attention(a: Architecture) -> Piece:
    return LatentAttention(
        hidden=a.hidden_size,
        heads=a.num_attention_heads,
        query_rank=a.q_lora_rank or 0,
        key_value_rank=a.kv_lora_rank or 0,
        nope_dim=a.qk_nope_head_dim or 0,
        rope_dim=a.qk_rope_head_dim or 0,
        value_dim=a.v_head_dim or 0,
        latent_bias=False,
    )
