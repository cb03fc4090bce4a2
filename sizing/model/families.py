"""What distinguishes one family of transformers from another: one row each.

Sources: the models' published code, each row proven by an exact parameter count in
`published/model_parameters.json` or `published/megatron_table1.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["gpt2", "opt", "bloom", "gpt-neox", "llama", "qwen2", "qwen3", "gemma", "falcon"]


@dataclass(frozen=True, slots=True)
class Traits:
    """How the layers of a family are built.

    `norm_tensors` is 2 for LayerNorm (weight and bias), 1 for RMSNorm. `max_positions` is the family's
    habit where learned positions are used and the architecture does not say.
    """

    norm_tensors: Literal[1, 2]
    gated_ffn: bool = False
    qkv_bias: bool = False
    projection_bias: bool = False
    norms_per_layer: int = 2
    query_key_norms: bool = False
    embedding_norm: bool = False
    max_positions: int | None = None
    unused_positions: int = 0

    @property
    def learned_positions(self) -> bool:
        """Whether positions are an embedding table (otherwise rotary or ALiBi: no parameters)."""
        return self.max_positions is not None


TRAITS: dict[Family, Traits] = {
    "gpt2": Traits(2, qkv_bias=True, projection_bias=True, max_positions=1024),
    "opt": Traits(2, qkv_bias=True, projection_bias=True, max_positions=2048, unused_positions=2),
    "bloom": Traits(2, qkv_bias=True, projection_bias=True, embedding_norm=True),
    "gpt-neox": Traits(2, qkv_bias=True, projection_bias=True),
    "llama": Traits(1, gated_ffn=True),
    "qwen2": Traits(1, gated_ffn=True, qkv_bias=True),
    "qwen3": Traits(1, gated_ffn=True, query_key_norms=True),
    "gemma": Traits(1, gated_ffn=True),
    "falcon": Traits(2, norms_per_layer=1),
}
