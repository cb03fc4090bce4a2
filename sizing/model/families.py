"""The traits in which families of transformers differ: one row for each family.

Sources: the models' published code, as `transformers` builds it; each row is proven by exact parameter counts
in `published/` and by building the same configurations on the meta device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

Family = Literal[
    "gpt2",
    "opt",
    "bloom",
    "gpt-j",
    "gpt-neox",
    "llama",
    "mixtral",
    "qwen2",
    "qwen3",
    "deepseek",
    "gemma",
    "gemma2",
    "phi3",
    "falcon",
]
FusedPart = Literal["attention", "ffn", "experts"]
"""Part of a layer that a library may keep as one matrix: queries, keys and values; or gate and up projection."""


@dataclass(frozen=True, slots=True)
class Traits:
    """How the layers of a family are built.

    `norm_tensors` is 2 for LayerNorm (weight and bias), 1 for RMSNorm. `max_positions` is the family's habit
    where learned positions are used and the architecture does not say. `has_experts`: the family may have a
    mixture of experts; `latent_attention`: multi-head latent attention (DeepSeek-AI 2024, arXiv 2405.04434).
    `dropout`: published runs were trained with it. `tied`: whether its models use the embedding as output head, None
    where some do and others do not. `fused`: the parts that the modules of transformers keep as one matrix.
    """

    norm_tensors: Literal[1, 2]
    gated_ffn: bool = False
    qkv_bias: bool = False
    attention_output_bias: bool = False
    ffn_bias: bool = False
    head_bias: bool = False
    norms_per_layer: int = 2
    query_key_norms: bool = False
    embedding_norm: bool = False
    max_positions: int | None = None
    unused_positions: int = 0
    has_experts: bool = False
    shared_expert_gate: bool = False
    latent_attention: bool = False
    dropout: bool = False
    tied: bool | None = False
    fused: tuple[FusedPart, ...] = ()

    @property
    def learned_positions(self) -> bool:
        """Whether positions are an embedding table; rotary positions and ALiBi have no parameters."""
        return self.max_positions is not None


class _Biases(TypedDict):
    qkv_bias: bool
    attention_output_bias: bool
    ffn_bias: bool


_BIASES: _Biases = {"qkv_bias": True, "attention_output_bias": True, "ffn_bias": True}

TRAITS: dict[Family, Traits] = {
    "gpt2": Traits(2, **_BIASES, max_positions=1024, dropout=True, tied=True, fused=("attention",)),
    "opt": Traits(2, **_BIASES, max_positions=2048, unused_positions=2, dropout=True, tied=True),
    "bloom": Traits(2, **_BIASES, embedding_norm=True, tied=True, fused=("attention",)),
    "gpt-j": Traits(2, ffn_bias=True, head_bias=True, norms_per_layer=1),
    "gpt-neox": Traits(2, **_BIASES, fused=("attention",)),
    "llama": Traits(1, gated_ffn=True),
    "mixtral": Traits(1, gated_ffn=True, has_experts=True),
    "qwen2": Traits(1, gated_ffn=True, qkv_bias=True, has_experts=True, shared_expert_gate=True, tied=None),
    "qwen3": Traits(1, gated_ffn=True, query_key_norms=True, has_experts=True, tied=None),
    "deepseek": Traits(1, gated_ffn=True, has_experts=True, latent_attention=True),
    "gemma": Traits(1, gated_ffn=True, tied=True),
    "gemma2": Traits(1, gated_ffn=True, norms_per_layer=4, tied=True),
    "phi3": Traits(1, gated_ffn=True, fused=("attention", "ffn")),
    "falcon": Traits(2, norms_per_layer=1, tied=True, fused=("attention",)),
}
