"""The model catalog: data with a source per entry, read from `catalog.toml` beside this file."""

from __future__ import annotations

import functools
import re
from typing import Self

from pydantic import Field, JsonValue, model_validator

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.errors import require_one_of
from sizing.model.architecture import Architecture
from sizing.model.composed import Composition
from sizing.model.huggingface import beside_language_model, model_from
from sizing.model.inventory import Inventory, inventory_of, num_parameters
from sizing.spelling import MAX_NAME_CHARACTERS, known_spelling

OTHERWISE = (
    "of another model give the config.json (`model.huggingface_config`) or num_parameters; `ckpt-size models` lists "
    "the names"
)
"""Remedy for a model that the catalog does not have."""


class CatalogModel(CatalogEntry):
    """A published model: its architecture, and where its fields were read."""

    num_parameters: int | None = Field(
        None,
        description="Parameters of all tensors: over REST counted from the architecture, in the catalog's file as "
        "published. Null when no count is published.",
    )
    num_parameters_source: str | None = Field(
        None, description="Publication that states the same count. Null when there is none."
    )
    architecture: Architecture | None = Field(
        None, description="Layers, widths and heads as published. Null where huggingface_config says them."
    )
    huggingface_config: dict[str, JsonValue] | None = Field(
        None,
        description="Fields of the published config.json that tell the tensors. Null where architecture says them.",
    )

    leaves_out: str | None = Field(
        None,
        description="What the published model has beside what is counted, in words. Null where nothing is left out.",
    )

    @model_validator(mode="after")
    def _one_description(self) -> Self:
        require_one_of(self, ("architecture", "huggingface_config"))
        return self

    @property
    def described(self) -> Architecture | Composition:
        """The model as an architecture or a composition."""
        return self.architecture or model_from(self.huggingface_config or {})

    @property
    def inventory(self) -> Inventory:
        """All tensors of the model, with those of its vision tower."""
        described = self.described
        own = inventory_of(described) if isinstance(described, Architecture) else described.inventory
        return (*own, *(beside_language_model(self.huggingface_config or {}, described) or ()))

    @property
    def family(self) -> str:
        """Family of the Architecture, or model_type of the Composition."""
        described = self.described
        return described.family if isinstance(described, Architecture) else described.model_type


@functools.cache
def catalog() -> dict[str, CatalogModel]:
    """Return every model of the catalog by name."""
    return entries(CatalogModel, package=__package__, file="catalog.toml")


def count_parameters(model: CatalogModel) -> CatalogModel:
    """Count the parameters of a model's tensors."""
    return model.model_copy(update={"num_parameters": num_parameters(model.inventory)})


_VARIANTS = re.compile(
    r"[-_.](hf|instruct|chat|base|it|pt|bf16|fp16|fp8|8k|text|sft|dpo|v2|thinking|\d{4}|unsloth|bnb-4bit|awq"
    r"|gptq(-int[48])?)(?=[-_.]|$)",
    re.IGNORECASE,
)
"""Parts of a name that say how the weights were trained or stored, and not what shape they have."""

_FAMILIES = {"meta-llama-": "llama-", "llama2": "llama-2", "llama3": "llama-3", "qwen-2": "qwen2", "qwen-3": "qwen3"}


_SAME_SHAPES = (
    (r"mixtral-8x7b(-instruct)?-v0\.1", "mixtral-8x7b"),
    (r"llama-4-scout-17b-16e(-instruct)?", "llama-4-scout"),
    (r"llama-4-maverick-17b-128e(-instruct)?", "llama-4-maverick"),
    (r"zephyr-7b-(alpha|beta)", "mistral-7b-v0.1"),
    (r"mistral-7b-instruct-v0\.2", "mistral-7b-v0.2"),
    (r"mistral-nemo-(instruct|base)-2407", "mistral-nemo-12b"),
    (r"qwen2\.5-(?:coder|math)-(0\.5|1\.5|3|7|14|32|72)b(?:-instruct)?", r"qwen2.5-\1b"),
    (r"qwq-32b(-preview)?|deepseek-r1-distill-qwen-32b", "qwen2.5-32b"),
    (r"deepseek-r1-distill-qwen-(7|14)b", r"qwen2.5-\1b"),
    (r"deepseek-r1-distill-llama-8b", "llama-3.1-8b"),
    (r"deepseek-r1-distill-llama-70b", "llama-3.3-70b"),
    (r"deepseek-r1-0528-qwen3-8b", "qwen3-8b"),
    (r"deepseek-coder-v2(-base|-instruct)?", "deepseek-v2"),
    (r"deepseek-coder-v2-lite(-base|-instruct)?", "deepseek-v2-lite"),
    (r"deepseek-v3\.1(-base|-terminus)?", "deepseek-v3"),
    (r"qwen3-coder-30b-a3b-instruct", "qwen3-30b-a3b"),
    (r"qwen3\.[68]-27b(-fp8)?", "qwen3.5-27b"),
    (r"qwen3\.6-35b-a3b(-fp8)?", "qwen3.5-35b-a3b"),
    (r"qwen2(?:-math)?-72b(?:-instruct)?", "qwen2.5-72b"),
    (r"qwen2-math-(1\.5|7)b(?:-instruct)?", r"qwen2-\1b"),
    (r"kimi-dev-72b", "qwen2.5-72b"),
    (r"deepseek-math-7b-(base|instruct|rl)", "deepseek-llm-7b"),
    (r"glm-4\.[67](-fp8)?", "glm-4.5"),
    (r"glm-z1-(9|32)b-0414", r"glm-4-\1b-0414"),
    (r"tinyllama(_v1\.1|-1\.1b-(chat-v1\.0|intermediate-step-.+))?", "tinyllama-1.1b"),
    (r"yi-(?:1\.5-)?(6|9|34)b(?:-chat)?(?:-(?:16|32|200)k)?", r"yi-\1b"),
    (r"yi-coder-9b(-chat)?", "yi-9b"),
    (r"internlm2(?:_5|\.5)?-(?:chat-|base-)?7b(?:-chat)?(?:-1m)?(?:-sft)?", "internlm2-7b"),
    (r"internlm2(?:_5|\.5)?-(?:chat-)?1[._]8b(?:-chat)?(?:-sft)?", "internlm2-1.8b"),
    (r"solar-10\.7b(-instruct)?-v1\.0", "solar-10.7b"),
    (r"smollm-(135m|360m|1\.7b)(?:-instruct)?", r"smollm2-\1"),
    (r"devstral-small-250[57]|magistral-small-250[67]", "mistral-small-24b"),
    (r"mistral-small-3\.2-24b-instruct-2506", "mistral-small-3.1-24b"),
    (r"phi-1(_5)?", "phi-1.5"),
    (r"phi-3-mini-128k-instruct", "phi-3.5-mini"),
    (r"phi-3-medium-128k-instruct", "phi-3-medium-4k"),
    (r"phi-4-reasoning(-plus)?", "phi-4"),
    (r"phi-4-mini-reasoning", "phi-4-mini"),
    (r"aya-23-8b", "aya-expanse-8b"),
    (r"bloomz-(560m|1b1|1b7|3b|7b1)(?:-mt)?", r"bloom-\1"),
    (r"codellama-(7|13)b-python(?:-hf)?", r"llama-2-\1b"),
    (r"codellama-(34|70)b-python(?:-hf)?", r"codellama-\1b"),
    (r"codegemma-(?:1\.1-)?(2|7)b(?:-it)?", r"gemma-\1b"),
    (r"medgemma-(?:1\.5-)?4b-(?:it|pt)", "gemma-3-4b"),
    (r"llama-30b(-hf)?", "llama-33b"),
    (r"hermes-3-llama-3\.1-(8|70)b", r"llama-3.1-\1b"),
    (r"llama-3\.1-nemotron-70b-instruct(-hf)?", "llama-3.1-70b"),
    (r"minimax-m2\.1", "minimax-m2"),
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
    if len(last) > MAX_NAME_CHARACTERS:
        return None
    for pattern, same in _SAME_SHAPES:
        if (found := re.fullmatch(pattern, last, re.IGNORECASE)) is not None:
            last = found.expand(same)
    return _presets().get(_plain(last)) or _presets().get(_plain(_VARIANTS.sub("", last)))


def model_named(name: str) -> CatalogModel:
    """Return the model of the catalog with this name, or one of the same shapes by its name on a hub.

    Raises InvalidInput, with the nearest names, if there is none.

    >>> model_named("google/gemma-3-12b-it").name
    'gemma-3-12b'
    """
    spelled = known_spelling(name, catalog()) or preset_of_name(name)
    return entry_named(spelled or name, catalog(), field="model.preset", otherwise=OTHERWISE)


@functools.cache
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
