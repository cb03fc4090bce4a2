"""The tensors of one layer: attention, feed-forward, experts, norms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sizing.model.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Tensor:
    """`count` equal tensors of a layer, per expert if `experts` is not 0; `pieces` and `cut` as in TensorGroup."""

    name: str
    shape: tuple[int, ...]
    pieces: int
    count: int = 1
    experts: int = 0
    cut: int = 0


def attention(a: Architecture) -> Iterator[Tensor]:
    """List the projections of attention. Heads are divided over tensor ranks; what all heads share is on each."""
    yield from _latent_attention(a) if a.traits.latent_attention else _grouped_attention(a)


def dense_ffn(a: Architecture) -> Iterator[Tensor]:
    """List the matrices of the feed-forward block: up (and gate) cut by columns, down by rows."""
    yield from _ffn("ffn", a, width=a.ffn_width)


def expert_ffn(a: Architecture) -> Iterator[Tensor]:
    """List the tensors of a mixture of experts: a router that every rank holds, routed experts, shared experts."""
    num_experts = a.num_experts or 0
    yield Tensor("router", (num_experts, a.hidden_size), pieces=1)
    yield from _ffn("expert", a, width=a.expert_width, experts=num_experts)
    if a.shared_expert_width:
        yield from _ffn("shared_expert", a, width=a.shared_expert_width)
        if a.traits.shared_expert_gate:
            yield Tensor("shared_expert.gate", (1, a.hidden_size), pieces=1)


def norms(a: Architecture) -> Iterator[Tensor]:
    """List the norms of the hidden size."""
    yield Tensor("norm", (a.hidden_size,), pieces=1, count=a.traits.norm_tensors * a.layer_norms)


def _grouped_attention(a: Architecture) -> Iterator[Tensor]:
    hidden, heads, kv_heads, width = a.hidden_size, a.num_attention_heads, a.kv_heads, a.head_width
    yield Tensor("attention.query", (heads * width, hidden), pieces=heads)
    yield Tensor("attention.key_value", (kv_heads * width, hidden), pieces=kv_heads, count=2)
    yield Tensor("attention.output", (hidden, heads * width), pieces=heads, cut=1)
    if a.has_qkv_bias:
        yield Tensor("attention.query.bias", (heads * width,), pieces=heads)
        yield Tensor("attention.key_value.bias", (kv_heads * width,), pieces=kv_heads, count=2)
    if a.has_attention_output_bias:
        yield Tensor("attention.output.bias", (hidden,), pieces=1)
    if a.traits.query_key_norms:
        yield Tensor("attention.query_key_norm", (width,), pieces=1, count=2)


def _latent_attention(a: Architecture) -> Iterator[Tensor]:
    """List the tensors of multi-head latent attention: low-rank latents, and one rotary key for all heads.

    Source: DeepSeek-AI 2024, arXiv 2405.04434, section 2.1; the down-projections are whole on every tensor
    rank, as in Megatron-LM, core/transformer/multi_latent_attention.py.
    """
    hidden, heads = a.hidden_size, a.num_attention_heads
    nope, rope = a.qk_nope_head_dim or 0, a.qk_rope_head_dim or 0
    value, latent = a.v_head_dim or 0, a.kv_lora_rank or 0
    if a.q_lora_rank is None:
        yield Tensor("attention.query", (heads * (nope + rope), hidden), pieces=heads)
    else:
        yield Tensor("attention.query_down", (a.q_lora_rank, hidden), pieces=1)
        yield Tensor("attention.query_norm", (a.q_lora_rank,), pieces=1)
        yield Tensor("attention.query_up", (heads * (nope + rope), a.q_lora_rank), pieces=heads)
    yield Tensor("attention.key_value_down", (latent + rope, hidden), pieces=1)
    yield Tensor("attention.key_value_norm", (latent,), pieces=1)
    yield Tensor("attention.key_value_up", (heads * (nope + value), latent), pieces=heads)
    yield Tensor("attention.output", (hidden, heads * value), pieces=heads, cut=1)


def _ffn(name: str, a: Architecture, *, width: int, experts: int = 0) -> Iterator[Tensor]:
    ups = 2 if a.traits.gated_ffn else 1
    yield Tensor(f"{name}.up", (width, a.hidden_size), pieces=width, count=ups, experts=experts)
    yield Tensor(f"{name}.down", (a.hidden_size, width), pieces=width, experts=experts, cut=1)
    if a.has_ffn_bias:
        yield Tensor(f"{name}.up.bias", (width,), pieces=width, count=ups, experts=experts)
        yield Tensor(f"{name}.down.bias", (a.hidden_size,), pieces=1, experts=experts)
