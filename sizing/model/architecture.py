"""The architecture of a transformer, in the field names of the published configurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import BeforeValidator, Field, model_validator

from sizing.errors import broken_rule
from sizing.model.attention_window import MAX_WINDOW_TOKENS, AttentionWindow
from sizing.model.families import TRAITS, Family, Traits
from sizing.strict_model import InputModel

Width = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=1, le=10_000)]

_Layers = Annotated[
    tuple[Annotated[int, Field(ge=0, le=9_999)], ...],
    Field(min_length=1, max_length=10_000),
    BeforeValidator(lambda layers: layers.split(",") if isinstance(layers, str) else layers),
]
"""Input: numbers of layers."""

_EXPERT_FIELDS = (
    "num_experts_per_token",
    "expert_ffn_hidden_size",
    "num_shared_experts",
    "shared_expert_ffn_hidden_size",
    "first_dense_layers",
)
_LATENT_FIELDS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


class Architecture(InputModel):
    """A decoder-only transformer. What is None follows from the other fields or from the family."""

    family: Family = Field(
        description="Family whose conventions fill in what the other fields leave open: biases, norms, position table."
    )
    hidden_size: Width = Field(description="Width of the residual stream, h in the papers.")
    num_layers: Count = Field(description="Transformer layers without multi-token-prediction modules, l in the papers.")
    num_attention_heads: Count = Field(description="Query heads of a layer, a in the papers.")
    vocab_size: Width = Field(description="Rows of the embedding table before padding, V in the papers.")
    ffn_hidden_size: Width | None = Field(
        None, description="Inner width of a dense feed-forward block. Default: 4 x hidden_size (Radford et al. 2019)."
    )
    num_kv_heads: Count | None = Field(
        None,
        description="Heads of keys and values; fewer than query heads means grouped-query attention. "
        "Default: num_attention_heads.",
    )
    head_dim: Width | None = Field(
        None, description="Width of one attention head. Default: hidden_size / num_attention_heads."
    )
    max_positions: Width | None = Field(
        None, description="Rows of the learned position table, only in families that learn one. Default: the family's."
    )
    sliding_window: Annotated[int, Field(ge=1, le=MAX_WINDOW_TOKENS)] | None = Field(
        None,
        description="Tokens that a token attends to at most in layers with sliding-window attention, itself among "
        "them. Default: none, all before it.",
    )
    sliding_window_layers: _Layers | None = Field(
        None,
        description="Numbers of the layers with sliding-window attention, from 0; as text with commas: 0,2,4. "
        "Default: all, where sliding_window is given.",
    )
    tied_embeddings: bool | None = Field(
        None,
        description="Whether the output head uses the weights of the embedding. "
        "Default: the family's. Required with qwen2 and qwen3, whose small models tie them and large ones do not.",
    )
    attention_bias: bool | None = Field(
        None, description="Whether all projections of attention have biases. Default: the family's."
    )
    ffn_bias: bool | None = Field(
        None, description="Whether the projections of the feed-forward block have biases. Default: the family's."
    )
    norms_per_layer: Annotated[int, Field(ge=1, le=4)] | None = Field(
        None, description="Norms of width hidden_size in one layer; Falcon 40B and 180B have 2. Default: the family's."
    )

    num_experts: Count | None = Field(
        None, description="Routed experts of one mixture-of-experts layer. Default: none, every layer is dense."
    )
    num_experts_per_token: Count | None = Field(
        None,
        description="Routed experts that each token passes through, k of top-k routing. Required with num_experts.",
    )
    expert_ffn_hidden_size: Width | None = Field(
        None, description="Inner width of one routed expert. Default: ffn_hidden_size."
    )
    num_shared_experts: Count | None = Field(
        None, description="Experts of a layer that every token passes through, beside the routed ones. Default: none."
    )
    shared_expert_ffn_hidden_size: Width | None = Field(
        None,
        description="Inner width of all shared experts of a layer together. "
        "Default: num_shared_experts x the width of a routed expert.",
    )
    first_dense_layers: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None, description="Layers without experts before the first layer with experts. Default: none."
    )

    q_lora_rank: Width | None = Field(
        None,
        description="Rank of compressed queries in multi-head latent attention (DeepSeek-V2). "
        "Default: queries are not compressed.",
    )
    kv_lora_rank: Width | None = Field(
        None, description="Rank of compressed keys and values. Required with multi-head latent attention."
    )
    qk_nope_head_dim: Width | None = Field(
        None,
        description="Width per head of queries and keys without rotary positions. "
        "Required with multi-head latent attention.",
    )
    qk_rope_head_dim: Width | None = Field(
        None,
        description="Width per head of queries and keys with rotary positions. "
        "Required with multi-head latent attention.",
    )
    v_head_dim: Width | None = Field(
        None, description="Width per head of values. Required with multi-head latent attention."
    )
    num_mtp_layers: Annotated[int, Field(ge=0, le=16)] | None = Field(
        None, description="Multi-token-prediction modules after the last layer (DeepSeek-V3). Default: none."
    )

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        for rule, remedy in self._contradictions():
            raise broken_rule(rule, remedy)
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        heads, kv_heads = self.num_attention_heads, self.kv_heads
        if not self.traits.latent_attention and self.head_dim is None and self.hidden_size % heads:
            yield (
                f"has hidden_size {self.hidden_size}, which num_attention_heads {heads} does not divide",
                "give head_dim, or a hidden_size that is a multiple of the heads",
            )
        if heads % kv_heads:
            yield (
                f"has num_attention_heads {heads}, which num_kv_heads {kv_heads} does not divide",
                "give a num_kv_heads that divides num_attention_heads",
            )
        if self.max_positions is not None and not self.traits.learned_positions:
            yield (
                f"has max_positions, but {self.family} models learn no position table",
                "remove max_positions",
            )
        if self.tied_embeddings is None and self.traits.tied is None:
            yield (
                f"is a {self.family} without tied_embeddings",
                "give true where the output head uses the embedding's weights, else false",
            )
        if self.sliding_window_layers is not None and self.sliding_window is None:
            yield "has sliding_window_layers without sliding_window", "give sliding_window or remove the layers"
        elif max(self.sliding_window_layers or (0,)) >= self.num_layers:
            yield (
                f"has layer {max(self.sliding_window_layers or ())} in sliding_window_layers of num_layers "
                f"{self.num_layers}",
                "give numbers from 0 to num_layers - 1",
            )
        yield from self._expert_contradictions()
        yield from self._latent_contradictions()

    def _expert_contradictions(self) -> Iterator[tuple[str, str]]:
        given = [name for name in _EXPERT_FIELDS if getattr(self, name) is not None]
        if self.num_experts is not None:
            yield from self._contradictions_of_experts(self.num_experts)
            return
        if given:
            yield f"has {given[0]} without num_experts", f"give num_experts or remove {given[0]}"
        if self.family == "mixtral":
            yield "is a mixtral without num_experts", "give num_experts"

    def _contradictions_of_experts(self, num_experts: int) -> Iterator[tuple[str, str]]:
        if not self.traits.has_experts:
            yield f"has num_experts, but {self.family} models have none", "remove num_experts"
        if self.num_experts_per_token is None:
            yield "has num_experts without num_experts_per_token", "give num_experts_per_token"
        elif self.num_experts_per_token > num_experts:
            yield (
                f"has num_experts_per_token {self.num_experts_per_token} of num_experts {num_experts}",
                "give at most num_experts",
            )
        if self.dense_layers > self.num_layers:
            yield (
                f"has first_dense_layers {self.dense_layers} of num_layers {self.num_layers}",
                "give at most num_layers",
            )

    def _latent_contradictions(self) -> Iterator[tuple[str, str]]:
        if self.traits.latent_attention:
            missing = [name for name in _LATENT_FIELDS if getattr(self, name) is None]
            if missing:
                yield f"is a {self.family} without {missing[0]}", f"give {', '.join(_LATENT_FIELDS)}"
            return
        given = [name for name in (*_LATENT_FIELDS, "q_lora_rank", "num_mtp_layers") if getattr(self, name) is not None]
        if given:
            yield f"has {given[0]}, but {self.family} models have none", f"remove {given[0]}"

    @property
    def traits(self) -> Traits:
        """Traits that the family determines."""
        return TRAITS[self.family]

    @property
    def window(self) -> AttentionWindow | None:
        """Window of attention, None if all layers attend to all tokens."""
        if self.sliding_window is None:
            return None
        layers = self.sliding_window_layers
        return AttentionWindow(self.sliding_window, frozenset(range(self.num_layers) if layers is None else layers))

    @property
    def ties_embeddings(self) -> bool:
        """Whether the output head uses the weights of the embedding."""
        return bool(self.traits.tied if self.tied_embeddings is None else self.tied_embeddings)

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_kv_heads or self.num_attention_heads

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def ffn_width(self) -> int:
        """Inner width of the dense feed-forward block. Default: 4 h (Radford et al. 2019)."""
        return self.ffn_hidden_size or 4 * self.hidden_size

    @property
    def expert_width(self) -> int:
        """Inner width of one routed expert."""
        return self.expert_ffn_hidden_size or self.ffn_width

    @property
    def shared_expert_width(self) -> int:
        """Inner width of all shared experts of a layer together, 0 if there are none."""
        return self.shared_expert_ffn_hidden_size or (self.num_shared_experts or 0) * self.expert_width

    @property
    def dense_layers(self) -> int:
        """Number of layers without experts, which come first."""
        return self.num_layers if self.num_experts is None else self.first_dense_layers or 0

    @property
    def position_rows(self) -> int:
        """Rows of the learned position table, 0 if there is none."""
        if not self.traits.learned_positions:
            return 0
        return (self.max_positions or self.traits.max_positions or 0) + self.traits.unused_positions

    @property
    def layer_norms(self) -> int:
        """Number of norms of the hidden size in each layer."""
        return self.norms_per_layer or self.traits.norms_per_layer

    @property
    def has_qkv_bias(self) -> bool:
        """Whether queries, keys and values are projected with a bias."""
        return self.traits.qkv_bias if self.attention_bias is None else self.attention_bias

    @property
    def has_attention_output_bias(self) -> bool:
        """Whether attention's output is projected with a bias."""
        return self.traits.attention_output_bias if self.attention_bias is None else self.attention_bias

    @property
    def has_ffn_bias(self) -> bool:
        """Whether the feed-forward block is projected with biases."""
        return self.traits.ffn_bias if self.ffn_bias is None else self.ffn_bias
