"""Find which entries of a list are layers of the model, and where the other entries belong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sizing.model.listed.name_patterns import NamePattern
from sizing.model.listed.roles import Place

_OF_EXPERTS = re.compile(r"(?:^|[._/])experts?[._/]$|experts?\..*weight$")
_BEFORE = re.compile(r"emb|wte|wpe|vision|visual|image|img|audio|speech|tower|patch|perceiver|projector|project_in")
_AFTER = re.compile(r"lm_head|output|unembed|embed_out|\.embedding_norm")
_PREDICTS_FURTHER = re.compile(r"(?:^|\.)(?:mtp|nextn)[^.]*(?:\.|$)", re.IGNORECASE)
_FURTHER_MODULE = re.compile(r"(?:^|\.)(?:eh_proj|enorm|hnorm|shared_head)(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers of a model, as the names of its tensors number them.

    `prefixes` stand before the number of a layer. `numbers` are those of all layers. The layers `of_modules` belong to
    multi-token prediction.
    """

    prefixes: frozenset[str]
    numbers: Sequence[int]
    of_modules: frozenset[int]

    @property
    def first(self) -> int:
        """Number of the first layer."""
        return min(self.numbers, default=0)

    @property
    def num_layers(self) -> int:
        """Number of layers up to the last, without the modules after it."""
        numbers = set(self.numbers) - self.of_modules
        return max(numbers) + 1 - self.first if numbers else 0

    def holds(self, pattern: NamePattern) -> bool:
        """Return whether a tensor belongs to these layers."""
        return bool(pattern.numbers) and pattern.texts[0] in self.prefixes


def expert_place(pattern: NamePattern) -> int | None:
    """Return which of a name's numbers counts experts; None if none does.

    Source: names of transformers (`experts.7.up_proj`), of Megatron-LM's grouped ones (`experts.linear_fc1.weight7`).

    >>> from sizing.model.listed.name_patterns import name_pattern
    >>> expert_place(name_pattern("h.{0..3}.mlp.experts.{0..7}.w1.weight"))
    1
    """
    for place in reversed(range(len(pattern.numbers))):
        if _OF_EXPERTS.search(pattern.texts[place]):
            return place
    return None


def predicts_further(path: str) -> bool:
    """Return whether a tensor belongs to multi-token prediction, by the name of its module."""
    return _PREDICTS_FURTHER.search(path) is not None


def main_stack(tensors: Iterable[tuple[NamePattern, str, int]]) -> Stack:
    """Find the layers with the most parameters. `tensors` has the pattern, path and parameters of each.

    Prefixes under one parent with the same first and last layer name the same layers: `transformer.attentions.0`,
    `transformer.ffns.0`.
    """
    layers: dict[str, _Layers] = defaultdict(_Layers)
    for pattern, path, count in tensors:
        if pattern.numbers and expert_place(pattern) != 0 and not predicts_further(path):
            layers[pattern.texts[0]].add(pattern.numbers[0], path, count)
    if not layers:
        return Stack(frozenset(), (), frozenset())
    main = max(layers, key=lambda prefix: layers[prefix].num_parameters)
    alike = [
        prefix for prefix in layers if _parent(prefix) == _parent(main) and layers[prefix].ends == layers[main].ends
    ]
    numbers = sorted({number for prefix in alike for run in layers[prefix].runs for number in run})
    modules = frozenset(number for prefix in alike for run in layers[prefix].of_modules for number in run)
    return Stack(frozenset(alike), numbers, modules)


class _Layers:
    """Layers of the tensors with one prefix."""

    def __init__(self) -> None:
        self.num_parameters = 0
        self.runs: set[Sequence[int]] = set()
        self.of_modules: set[Sequence[int]] = set()

    def add(self, run: Sequence[int], path: str, num_parameters: int) -> None:
        self.num_parameters += num_parameters
        self.runs.add(run)
        if _FURTHER_MODULE.search(path):
            self.of_modules.add(run)

    @property
    def ends(self) -> tuple[int, int]:
        """Numbers of the first layer and of the last."""
        return min(run[0] for run in self.runs), max(run[-1] for run in self.runs)


def _parent(prefix: str) -> str:
    return prefix.rstrip("._/").rpartition(".")[0]


def place_outside(path: str, *, is_layer: bool) -> Place:
    """Decide whether a tensor outside the model's layers stands before or after them.

    By its name, an embedding or the encoder of a decoder stands before the layers; any other after them.
    """
    if _AFTER.search(path):
        return "head"
    return "embedding" if _BEFORE.search(path) or (is_layer and "encoder" in path) else "head"
