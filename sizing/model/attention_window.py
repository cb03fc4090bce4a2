"""Attention that looks at a part of the sequence: the window in tokens, and the layers that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from sizing.errors import InvalidInput

MAX_WINDOW_TOKENS = 1_000_000_000
"""Max tokens of a window, far above any sequence: some configs state one longer than their sequences."""


@dataclass(frozen=True, slots=True)
class AttentionWindow:
    """Window of attention: `num_tokens` that a token of `layers` sees at most, itself among them.

    With `is_chunked` a token sees those before it in its chunk of `num_tokens`, as in Llama 4.
    """

    num_tokens: int
    layers: frozenset[int]
    is_chunked: bool = False

    def mean_keys(self, sequence_length: int) -> float:
        """Return how many tokens a token of a sequence sees on average, in a layer with the window: w - w^2 / 2s.

        w tokens of the window, at most s of the sequence; w = s gives s/2, as causal attention without a window.
        In chunks of w, with r = s mod w tokens left: (floor(s/w) w^2 + r^2) / 2s.
        Source: AI-Hypercomputer/maxtext, src/maxtext/utils/maxtext_utils.py @00902f36: s w - 0.5 w^2 pairs of a
        sliding window, calculate_llama4_attention_tflops of chunks. A token itself counts half, as it does there.

        >>> AttentionWindow(4096, frozenset({0})).mean_keys(32_768)
        3840.0
        >>> AttentionWindow(8192, frozenset({0}), is_chunked=True).mean_keys(20_480)
        3686.4
        """
        s, w = sequence_length, min(self.num_tokens, sequence_length)
        pairs = (s // w * w**2 + (s % w) ** 2) / 2 if self.is_chunked else s * w - w**2 / 2
        return pairs / s


@dataclass(frozen=True, slots=True)
class WindowRule:
    """Rule of a config class for a config without `layer_types`.

    `num_tokens`: window where the config leaves it out; None for no window. Each `full_every`-th layer sees all, the
    first of each group with `is_full_first`, else the last; 0 for none that sees all. `every_name`: its name in a
    config. `is_off`: a window counts only where the config has use_sliding_window.
    """

    num_tokens: int | None = None
    full_every: int = 0
    every_name: str = ""
    is_full_first: bool = False
    is_off: bool = False


_PATTERN = "sliding_window_pattern"
_RULES: Mapping[str, WindowRule] = {
    "afmoe": WindowRule(1024, 4, "global_attn_every_n_layers"),
    "cohere2": WindowRule(4096, 4, _PATTERN),
    "cwm": WindowRule(8192, 4, is_full_first=True),
    "exaone4": WindowRule(4096, 4, _PATTERN),
    "exaone_moe": WindowRule(4096, 4, _PATTERN),
    "gemma2": WindowRule(4096, 2),
    "gemma3_text": WindowRule(4096, 6, _PATTERN),
    "gpt_oss": WindowRule(128, 2),
    "granite_swa": WindowRule(128, 4, is_full_first=True),
    "granitemoe_swa": WindowRule(128, 4, is_full_first=True),
    "ministral": WindowRule(4096),
    "mistral": WindowRule(),
    "mixtral": WindowRule(),
    "olmo3": WindowRule(4096, 4),
    "phi3": WindowRule(),
    "phimoe": WindowRule(),
    "qwen2": WindowRule(4096, is_off=True),
    "qwen2_moe": WindowRule(4096, 2, is_off=True),
    "qwen3": WindowRule(4096, is_off=True),
    "qwen3_moe": WindowRule(4096, is_off=True),
    "starcoder2": WindowRule(),
    "vaultgemma": WindowRule(4096, 2),
}
"""Rules by model_type. Source: transformers 5.23, configuration_*.py. Of a mistral that leaves its window out no window
is counted, though its class takes 4,096: all since Mistral 7B v0.2 are without."""
_MAX_WINDOW_LAYERS = 28
"""Default of max_window_layers. Source: transformers 5.23, Qwen2Config, Qwen3Config, Qwen2MoeConfig."""
_NAMES_OF_LAYERS = ("sliding_attention", "chunked_attention")
_CHUNKED = "llama4_text"
_CHUNK_TOKENS, _NO_ROPE_INTERVAL = 8192, 4
"""Defaults of attention_chunk_size and no_rope_layer_interval. Source: transformers 5.23, Llama4TextConfig."""


def window_of(config: Mapping[str, JsonValue], *, num_layers: int, field: str) -> AttentionWindow | None:
    """Return the window that a language model's config.json describes; None where all layers see all tokens.

    `layer_types` says which layers have it; without, the rule of its class. `field` names the config in errors.
    Raises InvalidInput for a window, interval or list of layers that is none.

    >>> window_of({"model_type": "gpt_oss"}, num_layers=4, field="").layers == {0, 2}
    True
    >>> window_of({"model_type": "qwen2", "sliding_window": 4096}, num_layers=4, field="")
    """
    model_type = str(config.get("model_type"))
    is_chunked = model_type == _CHUNKED
    name, rule = "attention_chunk_size" if is_chunked else "sliding_window", _RULES.get(model_type, WindowRule())
    num_tokens = _whole(config, name, _CHUNK_TOKENS if is_chunked else rule.num_tokens, field=field)
    if not num_tokens or not config.get("use_sliding_window", not rule.is_off):
        return None
    layers = _windowed_layers(config, rule, num_layers, field)
    return AttentionWindow(num_tokens, layers, is_chunked) if layers else None


def _windowed_layers(config: Mapping[str, Any], rule: WindowRule, num_layers: int, field: str) -> frozenset[int]:
    model_type, types, no_rope = config.get("model_type"), config.get("layer_types"), config.get("no_rope_layers")
    if types is not None:
        _check_length(types, num_layers, f"{field}.layer_types")
        return frozenset(layer for layer in range(num_layers) if types[layer] in _NAMES_OF_LAYERS)
    if model_type == _CHUNKED:
        if no_rope:  # 1 where a layer has rotary positions, which are those in chunks
            _check_length(no_rope, num_layers, f"{field}.no_rope_layers")
            return frozenset(layer for layer in range(num_layers) if no_rope[layer])
        every = _whole(config, "no_rope_layer_interval", _NO_ROPE_INTERVAL, field=field)
        return sliding_layers(num_layers, full_every=every or 0)
    if model_type not in _RULES:
        return frozenset()
    pattern = config.get(rule.every_name)
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:  # EXAONE 4.0: local and global
        return frozenset(layer for layer in range(num_layers) if pattern[layer % len(pattern)] == "L")
    every = _whole(config, rule.every_name, rule.full_every, field=field) if rule.every_name else rule.full_every
    layers = sliding_layers(num_layers, full_every=every or 0, is_full_first=rule.is_full_first)
    if model_type in ("qwen2", "qwen3", "qwen2_moe"):
        first = _whole(config, "max_window_layers", _MAX_WINDOW_LAYERS, field=field) or 0
        layers &= frozenset(range(first) if model_type == "qwen2_moe" else range(first, num_layers))
    return layers


def sliding_layers(num_layers: int, *, full_every: int, is_full_first: bool = False) -> frozenset[int]:
    """Return the layers with a window, where one of each `full_every` layers sees all: the last, or the first.

    0 for none that sees all.

    >>> sorted(sliding_layers(5, full_every=2)), sorted(sliding_layers(3, full_every=0))
    ([0, 2, 4], [0, 1, 2])
    """
    if not full_every:
        return frozenset(range(num_layers))
    full = 0 if is_full_first else full_every - 1
    return frozenset(layer for layer in range(num_layers) if layer % full_every != full)


def _whole(config: Mapping[str, Any], name: str, default: int | None, *, field: str) -> int | None:
    """Read a whole number that is not negative; null stands for none."""
    value = config.get(name, default)
    if value is None or (type(value) is int and 0 <= value <= MAX_WINDOW_TOKENS):
        return value
    rule = f"must be a whole number from 0 to {MAX_WINDOW_TOKENS:,}, or null"
    raise InvalidInput.of(f"{field}.{name}", rule, value=value, remedy="correct it or remove it")


def _check_length(layers: object, num_layers: int, field: str) -> None:
    if isinstance(layers, Sequence) and not isinstance(layers, str) and len(layers) >= num_layers:
        return
    rule = f"must be a list with an entry for each of {num_layers} layers"
    raise InvalidInput.of(field, rule, value=layers, remedy="correct it or remove it")
