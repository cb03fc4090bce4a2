"""The architecture of a transformer, in the field names of the published configurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.model.families import TRAITS, Family, Traits

Width = Annotated[int, Field(ge=1, le=10_000_000)]
Count = Annotated[int, Field(ge=1, le=10_000)]

_EXPERT_FIELDS = (
    "num_experts_per_token",
    "expert_ffn_hidden_size",
    "num_shared_experts",
    "shared_expert_ffn_hidden_size",
    "first_dense_layers",
)
_LATENT_FIELDS = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


class Architecture(BaseModel):
    """A decoder-only transformer. What is None follows from the other fields or from the family."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: Family
    hidden_size: Width
    num_layers: Count
    num_attention_heads: Count
    vocab_size: Width
    ffn_hidden_size: Width | None = Field(None, description="4 x hidden_size where not given")
    num_kv_heads: Count | None = Field(None, description="num_attention_heads where not given")
    head_dim: Width | None = Field(None, description="hidden_size / num_attention_heads where not given")
    max_positions: Width | None = Field(None, description="rows of the learned position table")
    tied_embeddings: bool = Field(True, description="the output head is the embedding")
    attention_bias: bool | None = Field(None, description="on every projection; the family's where not given")
    ffn_bias: bool | None = Field(None, description="the family's where not given")
    norms_per_layer: Annotated[int, Field(ge=1, le=4)] | None = Field(
        None, description="the family's where not given; Falcon 40B and 180B have 2"
    )

    num_experts: Count | None = Field(None, description="routed experts of a layer; none where not given")
    num_experts_per_token: Count | None = None
    expert_ffn_hidden_size: Width | None = Field(None, description="ffn_hidden_size where not given")
    num_shared_experts: Count | None = Field(None, description="experts that see every token")
    shared_expert_ffn_hidden_size: Width | None = Field(
        None, description="of all shared experts together; num_shared_experts x expert width where not given"
    )
    first_dense_layers: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None, description="layers without experts, at the start"
    )

    q_lora_rank: Width | None = Field(None, description="latent queries; full queries where not given")
    kv_lora_rank: Width | None = None
    qk_nope_head_dim: Width | None = None
    qk_rope_head_dim: Width | None = None
    v_head_dim: Width | None = None
    num_mtp_layers: Annotated[int, Field(ge=0, le=16)] | None = Field(
        None, description="multi-token-prediction modules; none where not given"
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
        yield from self._expert_contradictions()
        yield from self._latent_contradictions()

    def _expert_contradictions(self) -> Iterator[tuple[str, str]]:
        given = [name for name in _EXPERT_FIELDS if getattr(self, name) is not None]
        if self.num_experts is None:
            if given:
                yield f"has {given[0]} without num_experts", f"give num_experts or remove {given[0]}"
            if self.family == "mixtral":
                yield "is a mixtral without num_experts", "give num_experts"
            return
        if not self.traits.has_experts:
            yield f"has num_experts, but {self.family} models have none", "remove num_experts"
        if self.num_experts_per_token is None:
            yield "has num_experts without num_experts_per_token", "give num_experts_per_token"
        elif self.num_experts_per_token > self.num_experts:
            yield (
                f"has num_experts_per_token {self.num_experts_per_token} of num_experts {self.num_experts}",
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
        """What the family determines."""
        return TRAITS[self.family]

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
        """Inner width of the dense feed-forward block; 4 h (Radford et al. 2019) where not given."""
        return self.ffn_hidden_size or 4 * self.hidden_size

    @property
    def expert_width(self) -> int:
        """Inner width of one routed expert."""
        return self.expert_ffn_hidden_size or self.ffn_width

    @property
    def shared_expert_width(self) -> int:
        """Inner width of the shared experts together, 0 where there are none."""
        return self.shared_expert_ffn_hidden_size or (self.num_shared_experts or 0) * self.expert_width

    @property
    def dense_layers(self) -> int:
        """Layers without experts; they come first."""
        return self.num_layers if self.num_experts is None else self.first_dense_layers or 0

    @property
    def position_rows(self) -> int:
        """Rows of the learned position table, 0 where there is none."""
        if not self.traits.learned_positions:
            return 0
        return (self.max_positions or self.traits.max_positions or 0) + self.traits.unused_positions

    @property
    def layer_norms(self) -> int:
        """Norms of the hidden size in each layer."""
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
