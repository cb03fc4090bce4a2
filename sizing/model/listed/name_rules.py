"""The rules of `name_rules.toml`, which tell from a tensor's name how it is cut."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from typing import Literal

from pydantic import Field

from sizing.model.listed.name_patterns import NamePattern
from sizing.strict_model import StrictModel

OfHeads = Literal["query", "key-value", "fused"]
MAX_CHARACTERS_READ = 200
"""Characters read at the end of a name: three times the longest of transformers, and few enough to match fast."""
_PARAMETER = re.compile(r"\.(?:weight|bias)$")
_OF_A_MODULE = re.compile(r"_(?:weight|bias)$")


class NameRule(StrictModel):
    """Rule that tells from a tensor's name how it is cut."""

    role: Literal["column", "row", "replicated", "router", "like"] = Field(
        description="How tensor ranks cut it; like: as the tensor of its module that has the same length."
    )
    heads: OfHeads | None = Field(None, description="Heads that its parts are. Default: parts are rows or columns.")
    halves: bool = Field(False, description="Two matrices in one, so that a part is a row of each.")
    names: tuple[str, ...] = Field(description="Regular expressions over the end of its dotted name.")

    @functools.cached_property
    def expression(self) -> re.Pattern[str]:
        """One expression that matches any of the rule's names."""
        return re.compile(rf"(?:^|\.)(?:{'|'.join(self.names)})$", re.IGNORECASE)


@functools.cache
def name_rules() -> tuple[NameRule, ...]:
    """Return all rules in their order: the first that fits a name counts."""
    text = resources.files(__package__).joinpath("name_rules.toml").read_text(encoding="utf-8")
    return tuple(NameRule.model_validate(row) for row in tomllib.loads(text)["rule"])


@functools.lru_cache(maxsize=4096)
def name_rule(path: str) -> NameRule | None:
    """Return the rule for a dotted name without numbers, None if no rule matches.

    >>> name_rule("model.layers.self_attn.o_proj.weight").role
    'row'
    """
    path = _PARAMETER.sub("", path[-MAX_CHARACTERS_READ:])
    for name in dict.fromkeys((path, _OF_A_MODULE.sub("", path))):
        for rule in name_rules():
            if rule.expression.search(name):
                return rule
    return None


def path_of(pattern: NamePattern) -> str:
    """Return a name without its numbers, its components joined by dots.

    >>> from sizing.model.listed.name_patterns import name_pattern
    >>> path_of(name_pattern("h.{0..3}.mlp.experts.{0..7}.w1.weight"))
    'h.mlp.experts.w1.weight'
    """
    return ".".join(part for text in pattern.texts for part in re.split(r"[./]", text) if part)
