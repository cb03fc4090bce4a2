"""Models of the catalog by the names that hubs have for models of the same shapes."""

from __future__ import annotations

import pytest

from sizing.errors import InvalidInput
from sizing.model.catalog import catalog, model_named, preset_of_name
from sizing.model.model import Model, resolve


@pytest.mark.parametrize(
    ("typed", "preset"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("google/gemma-3-12b-it", "gemma-3-12b"),
        ("Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Qwen/Qwen3-8B-Base", "qwen3-8b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b"),
        ("deepseek-ai/DeepSeek-Coder-V2-Instruct", "deepseek-v2"),
        ("deepseek-ai/DeepSeek-Coder-V2-Lite-Base", "deepseek-v2-lite"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"),
        ("Qwen/Qwen2-72B-Instruct", "qwen2.5-72b"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl-7b"),
        ("Qwen/Qwen3-VL-30B-A3B-Thinking", "qwen3-vl-30b-a3b"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"),
        ("01-ai/Yi-1.5-34B-Chat-16K", "yi-34b"),
        ("Qwen/Qwen1.5-110B-Chat", "qwen1.5-110b"),
        ("Qwen/Qwen2-VL-72B-Instruct", "qwen2-vl-72b"),
        ("zai-org/GLM-4.6", "glm-4.5"),
        ("zai-org/GLM-4-32B-Base-0414", "glm-4-32b-0414"),
        ("zai-org/glm-4-9b-chat-hf", "glm-4-9b"),
        ("codellama/CodeLlama-7b-Python-hf", "llama-2-7b"),
        ("internlm/internlm2_5-7b-chat", "internlm2-7b"),
        ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "mistral-small-3.1-24b"),
        ("mistralai/Devstral-Small-2507", "mistral-small-24b"),
        ("Qwen/Qwen3.5-9B-Base", "qwen3.5-9b"),
        ("Qwen/Qwen3.6-35B-A3B-FP8", "qwen3.5-35b-a3b"),
        ("microsoft/Phi-3-mini-128k-instruct", "phi-3.5-mini"),
    ],
)
def test_a_name_on_a_hub_is_answered_as_the_model_of_its_shapes_and_says_so(typed: str, preset: str) -> None:
    resolved, own = resolve(Model(preset=typed)), resolve(Model(preset=preset))
    assert (resolved.name, resolved.inventory) == (own.name, own.inventory)
    said = f"{typed} is answered as {preset}, whose tensors have the same shapes"
    assert resolved.warnings == (said, *own.warnings)


def test_another_spelling_of_a_name_needs_no_word() -> None:
    assert resolve(Model(preset="meta-llama/Llama_3.1 8B")).warnings == ()


@pytest.mark.parametrize(
    "typed",
    [
        "zai-org/GLM-4.7-Flash",
        "zai-org/glm-4-9b-chat-1m",
        "TinyLlama/TinyLlama-1.1B-Chat-v0.4",
        "meta-llama/Llama-3.2-11B-Vision-Instruct",
        "org/",
        "-it",
        "a" * 100,
    ],
)
def test_a_name_of_other_shapes_is_refused(typed: str) -> None:
    with pytest.raises(InvalidInput, match="must be a name of the catalog"):
        model_named(typed)


def test_no_name_of_the_catalog_leads_to_another_model() -> None:
    assert [name for name in catalog() if preset_of_name(name) != name] == []
