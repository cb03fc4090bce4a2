"""The rules of `name_rules.toml`: what a tensor's name says of how it is cut."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.model.listed.name_patterns import NamePattern

OfHeads = Literal["query", "key-value", "fused"]
MAX_CHARACTERS_READ = 200
"""Of a name's end: three times the longest of transformers, and short enough that no name takes long to match."""
_PARAMETER = re.compile(r"\.(?:weight|bias)$")
_OF_A_MODULE = re.compile(r"_(?:weight|bias)$")


class NameRule(BaseModel):
    """What the names that fit say of a tensor."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: Literal["column", "row", "replicated", "router", "like"] = Field(
        description="How tensor ranks cut it; like: as the tensor of its module that has the same length."
    )
    heads: OfHeads | None = Field(None, description="Heads that its parts are. Default: parts are rows or columns.")
    halves: bool = Field(False, description="Two matrices in one, so that a part is a row of each.")
    names: tuple[str, ...] = Field(description="Regular expressions over the end of its dotted name.")

    @functools.cached_property
    def expression(self) -> re.Pattern[str]:
        """All names in one."""
        return re.compile(rf"(?:^|\.)(?:{'|'.join(self.names)})$", re.IGNORECASE)


@functools.cache
def name_rules() -> tuple[NameRule, ...]:
    """Every rule, the first that fits counts."""
    text = resources.files(__package__).joinpath("name_rules.toml").read_text(encoding="utf-8")
    return tuple(NameRule.model_validate(row) for row in tomllib.loads(text)["rule"])


@functools.lru_cache(maxsize=4096)
def name_rule(path: str) -> NameRule | None:
    """The rule for a dotted name without numbers, None where there is none.

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
    """A name without its numbers, its components joined by dots.

    >>> from sizing.model.listed.name_patterns import name_pattern
    >>> path_of(name_pattern("h.{0..3}.mlp.experts.{0..7}.w1.weight"))
    'h.mlp.experts.w1.weight'
    """
    return ".".join(part for text in pattern.texts for part in re.split(r"[./]", text) if part)
