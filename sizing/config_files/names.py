"""Models of the catalog by the names that config files have for them."""

from __future__ import annotations

import re
from functools import cache

from sizing.model.catalog import catalog

_VARIANTS = re.compile(
    r"[-_.](hf|instruct|chat|base|it|pt|bf16|fp16|fp8|8k|text|sft|dpo|v2|thinking|\d{4})(?=[-_.]|$)", re.IGNORECASE
)
"""Parts of a name that say how the weights were trained or stored, and not what shape they have."""

_FAMILIES = {"meta-llama-": "llama-", "llama2": "llama-2", "llama3": "llama-3", "qwen-2": "qwen2", "qwen-3": "qwen3"}


_SAME_SHAPES = (
    (r"mixtral-8x7b(-instruct)?-v0\.1", "mixtral-8x7b"),
    (r"llama-4-scout-17b-16e(-instruct)?", "llama-4-scout"),
    (r"llama-4-maverick-17b-128e(-instruct)?", "llama-4-maverick"),
    (r"mistral-7b(-instruct)?-v0\.2|zephyr-7b-(alpha|beta)", "mistral-7b-v0.1"),
    (r"mistral-nemo-(instruct|base)-2407", "mistral-nemo-12b"),
    (r"qwen2\.5-(?:coder|math)-(0\.5|1\.5|3|7|14|32|72)b(?:-instruct)?", r"qwen2.5-\1b"),
    (r"qwq-32b(-preview)?|deepseek-r1-distill-qwen-32b", "qwen2.5-32b"),
    (r"deepseek-r1-distill-qwen-(7|14)b", r"qwen2.5-\1b"),
    (r"deepseek-r1-distill-llama-8b", "llama-3.1-8b"),
    (r"deepseek-r1-distill-llama-70b", "llama-3.3-70b"),
    (r"deepseek-r1-0528-qwen3-8b", "qwen3-8b"),
    (r"deepseek-v3\.1(-base|-terminus)?", "deepseek-v3"),
    (r"vicuna-(7|13)b-v1\.5(?:-16k)?", r"llama-2-\1b"),
    (r"vicuna-(7|13)b-v1\.3", r"llama-\1b"),
    (r"gemma-1\.1-(2|7)b-it", r"gemma-\1b"),
    (r"(pythia-[\d.]+b)-deduped", r"\1"),
    (r"nvidia-(nemotron-.+?)(?:-bf16)?", r"\1"),
)
"""Models trained from one of the catalog without a change of shapes, by name on the hub. Source: their config.json."""


def preset_of_name(name: str) -> str | None:
    """Return the catalog's name of a model on the Hugging Face hub or in a folder, or None.

    >>> preset_of_name("meta-llama/Meta-Llama-3.1-8B-Instruct"), preset_of_name("/data/Qwen2.5-7B/")
    ('llama-3.1-8b', 'qwen2.5-7b')
    >>> preset_of_name("Qwen/Qwen2.5-Coder-7B-Instruct"), preset_of_name("my-org/my-model-7b")
    ('qwen2.5-7b', None)
    """
    last = name.rstrip("/").rpartition("/")[2]
    for pattern, same in _SAME_SHAPES:
        if (found := re.fullmatch(pattern, last, re.IGNORECASE)) is not None:
            last = found.expand(same)
    return _presets().get(_plain(last)) or _presets().get(_plain(_VARIANTS.sub("", last)))


_TOKENIZERS = (
    (r"gpt2(-vocab\.json)?|gpt2-(medium|large|xl)", 50_257),
    (r"mistral-7b(-instruct)?-v0\.3|mixtral-8x22b-v0\.3", 32_768),
    (r"(meta-)?llama-?2-.*|llama-(7|13|30|65)b.*|mixtral-.*|mistral-7b(-instruct)?-v0\.[12]", 32_000),
    (r"(meta-)?llama-?3(\.[123])?-.*", 128_256),
    (r"mistral-nemo-.*", 131_072),
    (r"qwen2-[\d.]+b.*", 151_646),
    (r"qwen2\.5-[\d.]+b.*", 151_665),
    (r"qwen3-[\d.]+b.*", 151_669),
    (r"deepseek-v3.*|deepseek-r1", 128_815),
)
"""Length of tokenizers with added entries, by name on the Hugging Face hub. Some models' config.json say more."""


def vocabulary_of_tokenizer(name: object, kind: str) -> int | None:
    """Return the entries of a tokenizer by its name, path or file; None where they are not known.

    >>> vocabulary_of_tokenizer("meta-llama/Meta-Llama-3-8B", "HuggingFaceTokenizer"), vocabulary_of_tokenizer("my", "")
    (128256, None)
    """
    if not isinstance(name, str) or kind in ("NullTokenizer", "SentencePieceTokenizer"):
        return None
    last = name.rstrip("/").rpartition("/")[2].lower()
    return next((size for pattern, size in _TOKENIZERS if re.fullmatch(pattern, last)), None)


@cache
def _presets() -> dict[str, str]:
    """Map plain names to those of the catalog; a name that two models share is none."""
    names: dict[str, str | None] = {}
    for preset in catalog():
        for plain in {_plain(preset), _plain(_VARIANTS.sub("", preset))}:
            names[plain] = preset if plain not in names or plain == _plain(preset) else None
    return {plain: preset for plain, preset in names.items() if preset is not None}


def _plain(name: str) -> str:
    """Write a name in small letters, without signs, and families as the catalog has them."""
    small = name.lower().replace("_", "-")
    for spelled, family in _FAMILIES.items():
        small = small.replace(spelled, family)
    return re.sub(r"[^a-z0-9.]", "", small)
