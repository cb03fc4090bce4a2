"""Transformers as Megatron's flags describe them, and the family of `model.architecture` that has the same tensors."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sizing.model.families import Family

LEARNED_NONE = 0
"""Rows of the position table of a model without one."""


@dataclass(frozen=True, kw_only=True)
class BlockShape:
    """What the layers of a decoder are built of.

    `bias`: all projections have biases. `qkv_bias`: those of queries, keys and values have one. `position_rows`: rows
    of a learned position table, 0 without one.
    """

    rms_norm: bool
    gated: bool
    bias: bool
    qkv_bias: bool
    query_key_norms: bool
    tied: bool
    position_rows: int = LEARNED_NONE
    embedding_norm: bool = False
    has_experts: bool = False
    has_shared_experts: bool = False
    has_shared_gate: bool = False
    is_latent: bool = False
    has_prediction_modules: bool = False

    def family(self) -> tuple[Family, dict[str, Any]] | None:
        """Return the family with the same tensors and the fields that say where it differs from its habits, or None."""
        built = self._of_layer_norm() if not self.rms_norm else self._of_rms_norm()
        if built is None:
            return None
        family, fields = built
        return family, {"tied_embeddings": self.tied, **fields}

    def _of_layer_norm(self) -> tuple[Family, dict[str, Any]] | None:
        if (
            self.gated
            or self.query_key_norms
            or self.has_experts
            or self.is_latent
            or (self.qkv_bias and not self.bias)
        ):
            return None
        biases = {} if self.bias else {"attention_bias": False, "ffn_bias": False}
        if self.embedding_norm:
            return None if self.position_rows else ("bloom", biases)
        return ("gpt2", biases | {"max_positions": self.position_rows}) if self.position_rows else ("gpt-neox", biases)

    def _of_rms_norm(self) -> tuple[Family, dict[str, Any]] | None:
        if not self.gated or self.position_rows or self.embedding_norm:
            return None
        if self.is_latent:
            fits = self.query_key_norms and not (self.bias or self.qkv_bias or self.has_shared_gate)
            return ("deepseek", {}) if fits else None
        if self.has_prediction_modules or (self.bias and self.has_experts):
            return None
        gate_is_missing = self.has_shared_experts and not self.has_shared_gate
        if self.query_key_norms:
            fits = not (self.qkv_bias or self.has_shared_gate)
            return ("qwen3", {"attention_bias": True, "ffn_bias": True} if self.bias else {}) if fits else None
        if self.has_shared_gate or (self.qkv_bias and not self.bias):
            biases = {} if self.qkv_bias else {"attention_bias": False}
            return None if gate_is_missing else ("qwen2", biases)
        biases = {"attention_bias": True, "ffn_bias": True} if self.bias else {}
        return ("mixtral" if self.has_experts else "llama"), biases


def gated_width(hidden_size: int) -> int:
    """Return the default inner width of Megatron-LM with --swiglu: 8 h / 3, rounded down to a multiple of 64.

    Source: Megatron-LM, megatron/training/arguments.py, validate_args.

    >>> gated_width(4096)
    10880
    """
    return int((4 * hidden_size * 2 / 3) / 64) * 64


def first_expert_layer(pattern: Any, num_layers: int) -> int | None:
    """Return the number of dense layers before the others, which all have experts; None where layers alternate.

    `pattern` is that of --moe-layer-freq: n for experts in every nth layer, or a list with 1 for such a layer.

    >>> first_expert_layer("([0]*3+[1]*58)", 61), first_expert_layer(1, 32), first_expert_layer([0, 1, 0, 1], 4)
    (3, 0, None)
    """
    if isinstance(pattern, int) and not isinstance(pattern, bool):
        return 0 if pattern == 1 else None
    layers = pattern if isinstance(pattern, list) else list(_evaluated(str(pattern)))
    num_dense = layers.index(1) if 1 in layers else len(layers)
    is_dense_first = layers == [0] * num_dense + [1] * (len(layers) - num_dense)
    return num_dense if is_dense_first and len(layers) == num_layers else None


def windowed_layers(pattern: Any, num_layers: int) -> list[int] | None:
    """Return the layers with sliding-window attention, where some see all tokens; None for a pattern that is not known.

    `pattern` is that of --window-attn-skip-freq: n for one layer of n that sees all, the last of them, or a list with 1
    for a layer with a window. Source: Megatron-LM, core/transformer/utils.py, is_layer_window_attention.

    >>> windowed_layers(4, 8), windowed_layers("[1,0]*2", 4), windowed_layers("x", 4)
    ([0, 1, 2, 4, 5, 6], [0, 2], None)
    """
    if isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0:
        return [layer for layer in range(num_layers) if (layer + 1) % pattern]
    layers = pattern if isinstance(pattern, list) else list(_evaluated(str(pattern)))
    if len(layers) != num_layers or not all(layer in (0, 1) for layer in layers):
        return None
    return [layer for layer in range(num_layers) if layers[layer]]


def _evaluated(text: str) -> Iterator[int]:
    """List the numbers of an expression of lists such as [0]*3+[1]*58. Nothing else is computed."""
    text = text.strip().strip("\"'")
    while text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    for term in text.split("+"):
        found = re.fullmatch(r"\s*\(*\s*(\[[\s\d,]*\])\s*\)*\s*(?:\*\s*(\d{1,4}))?\s*\)*\s*", term)
        if found is None:
            yield from (-1,)
            return
        yield from ast.literal_eval(found[1]) * int(found[2] or 1)


def stage_layers(layout: str) -> list[int] | None:
    """Count the layers of each chunk of a pipeline in the notation of --pipeline-model-parallel-layout, or return None.

    E is the embedding, t a layer, m a module for multi-token prediction, L the loss; | separates chunks. None where it
    has other signs, or where embedding, loss or modules stand elsewhere than at the ends.
    Source: Megatron-LM, core/transformer/pipeline_parallel_layer_layout.py.

    >>> stage_layers("Et*3|(tt|)*2,t|mL"), stage_layers("tE|L")
    ([3, 2, 2, 1, 0], None)
    """
    text = re.sub(r"[\s,'\"]", "", layout)
    while (found := re.search(r"\(([^()]*)\)\*(\d{1,4})|([EtmL|])\*(\d{1,4})", text)) is not None and len(
        text
    ) < 100_000:
        repeated = (found[1] if found[1] is not None else found[3]) * int(found[2] or found[4])
        text = text[: found.start()] + repeated + text[found.end() :]
    chunks = text.replace("(", "").replace(")", "").split("|")
    inner = "".join(chunks[1:-1])
    begins = re.fullmatch(r"E?t*", chunks[0]) and re.fullmatch(r"t*m*L?", chunks[-1])
    is_plain = re.fullmatch(r"E?t*m*L?", text) if len(chunks) == 1 else begins and set(inner) <= {"t"}
    return [chunk.count("t") for chunk in chunks] if is_plain else None
