"""JSON and YAML documents from people, parsed strictly so that no value is misread."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable
from typing import Any

import yaml


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON text.

    Raises ValueError or RecursionError where it is none, or an object repeats a field.
    """
    try:
        return json.loads(text, object_pairs_hook=_refuse_repeats)
    except json.JSONDecodeError as error:
        word = re.match(r"-?\w+", error.doc[error.pos : error.pos + 40])
        if word is None:
            raise
        raise ValueError(
            f"{error}, found {word[0]}: write names and texts in double quotes, no number as null"
        ) from None


def parse_yaml(text: str) -> Any:
    """Parse a YAML text of plain data.

    Raises ValueError, yaml.YAMLError or RecursionError where it is none, or a mapping repeats a field.
    """
    return yaml.load(text, Loader=_StrictLoader)  # noqa: S506  a SafeLoader


class _StrictLoader(yaml.SafeLoader):
    """A SafeLoader that refuses repeated fields instead of keeping the last, and reads 1e9 as a number.

    YAML 1.1, which PyYAML follows, has it as text; YAML 1.2 and JSON do not.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct the mapping of a node, and refuse a repeated field."""
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        _refuse_repeats([(name, None) for name in names])
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)


def _refuse_repeats(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        repeated, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the field {repeated!r} is given twice in one object")
    return document
