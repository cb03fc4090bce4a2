"""The pieces of an Architecture's layers: what attention, norms and feed-forward blocks it has, for their formulas."""

from __future__ import annotations

from collections.abc import Iterator

from sizing.model.architecture import Architecture
from sizing.model.composed.pieces import Attention, Experts, FeedForward, LatentAttention, Norms, Piece


def dense_pieces(a: Architecture) -> Iterator[Piece]:
    """A layer with a dense feed-forward block."""
    yield from _common(a)
    yield FeedForward(a.hidden_size, a.ffn_width, gated=a.traits.gated_ffn, ffn_bias=a.has_ffn_bias)


def sparse_pieces(a: Architecture) -> Iterator[Piece]:
    """A layer with experts."""
    yield from _common(a)
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


def _common(a: Architecture) -> Iterator[Piece]:
    yield Norms(a.hidden_size, a.layer_norms, a.traits.norm_tensors)
    yield _latent(a) if a.traits.latent_attention else _grouped(a)


def _grouped(a: Architecture) -> Piece:
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


def _latent(a: Architecture) -> Piece:
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
