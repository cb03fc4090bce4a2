"""The architecture of a transformer, in the field names of the published configurations."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.model.families import TRAITS, Family, Traits

_Width = Annotated[int, Field(ge=1, le=10_000_000)]
_Count = Annotated[int, Field(ge=1, le=10_000)]


class Architecture(BaseModel):
    """A decoder-only transformer. What is None follows from the other fields or from the family."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    family: Family
    hidden_size: _Width
    num_layers: _Count
    num_attention_heads: _Count
    vocab_size: _Width
    ffn_hidden_size: _Width | None = Field(None, description="4 x hidden_size where not given")
    num_kv_heads: _Count | None = Field(None, description="num_attention_heads where not given")
    head_dim: _Width | None = Field(None, description="hidden_size / num_attention_heads where not given")
    max_positions: _Width | None = Field(None, description="rows of the learned position table")
    tied_embeddings: bool = Field(True, description="the output head is the embedding")

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        heads = self.num_attention_heads
        if self.head_dim is None and self.hidden_size % heads:
            raise broken_rule(
                f"has hidden_size {self.hidden_size}, which num_attention_heads {heads} does not divide",
                "give head_dim, or a hidden_size that is a multiple of the heads",
            )
        if heads % self.kv_heads:
            raise broken_rule(
                f"has num_attention_heads {heads}, which num_kv_heads {self.kv_heads} does not divide",
                "give a num_kv_heads that divides num_attention_heads",
            )
        if self.max_positions is not None and not self.traits.learned_positions:
            raise broken_rule(
                f"has max_positions, but {self.family} models learn no position table",
                "remove max_positions",
            )
        return self

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
        """Inner width of the feed-forward block; 4 h (Radford et al. 2019) where not given."""
        return self.ffn_hidden_size or 4 * self.hidden_size

    @property
    def position_rows(self) -> int:
        """Rows of the learned position table, 0 where there is none."""
        if not self.traits.learned_positions:
            return 0
        return (self.max_positions or self.traits.max_positions or 0) + self.traits.unused_positions
