"""Every field of a scenario and of its report as Markdown, out of their JSON Schemas: `docs/fields.md`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from sizing.report import SizingReport
from sizing.scenario import Scenario

_Schema = dict[str, Any]

_INTRODUCTION = """# Fields

Every field of a scenario and of its report, as `ckpt-size fields` prints them. Both documents have sizes in bytes,
rates in bytes per second, times in seconds, and shares as fractions of 1. A scenario may also give them as text with a
unit: `13.8 TB`, `273 GB/s`, `4h`."""

_ANY_VALUE = "JsonValue"
"""What pydantic calls a value of any form, as if it were a block."""

_UNIT = re.compile(
    r"(?:^|_)((?:bytes|seconds)_per_[a-z]+|files_per_second|failures_per_[a-z_]+|bytes|seconds|fraction)(?:_for_[a-z_]+)?$"
)
_TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_FORMATS = {"date": "date", "date-time": "moment"}


def field_reference() -> str:
    """The page: a table for each block of a Scenario, then for each block of a SizingReport."""
    scenario = _tables(Scenario.model_json_schema(), has_defaults=True)
    report = _tables(SizingReport.model_json_schema(mode="serialization"), has_defaults=False)
    return "\n".join([_INTRODUCTION, "\n## Scenario", *scenario, "\n## Report", *report])


def _tables(schema: _Schema, *, has_defaults: bool) -> Iterator[str]:
    yield from _table(schema, has_defaults=has_defaults)
    for name, paths in _blocks(schema).items():
        yield f"\n### {name}\n\n{', '.join(f'`{path}`' for path in paths)}"
        yield from _table(schema["$defs"][name], has_defaults=has_defaults)


def _blocks(schema: _Schema) -> dict[str, list[str]]:
    """The blocks of a document, each with the dotted paths at which it stands; those below it by its first path."""
    places: dict[str, list[str]] = {}
    found = [("", schema)]
    for prefix, block in found:
        for field, said in block["properties"].items():
            for name in _blocks_in(said):
                path = f"{prefix}{_step(field, said)}"
                if name not in places:
                    found.append((f"{path}.", schema["$defs"][name]))
                places.setdefault(name, []).append(path)
    return places


def _step(field: str, said: _Schema) -> str:
    """A field on a path: `tiers[]` where it is a list of blocks, `parts.*` where it has them by name."""
    options = [said, *said.get("anyOf", ())]
    if any("items" in option for option in options):
        return f"{field}[]"
    return f"{field}.*" if any(option.get("additionalProperties") for option in options) else field


def _blocks_in(said: Any) -> Iterator[str]:
    """The names of the blocks that a field holds."""
    if isinstance(said, dict):
        if "$ref" in said and _name(said) != _ANY_VALUE:
            yield _name(said)
        for inner in said.values():
            yield from _blocks_in(inner)
    elif isinstance(said, list):
        for inner in said:
            yield from _blocks_in(inner)


def _table(block: _Schema, *, has_defaults: bool) -> Iterator[str]:
    columns = ["field", "holds", *(["default"] if has_defaults else []), "what it is"]
    yield f"\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}"
    for field, said in block["properties"].items():
        default = [_default(field, said, block)] if has_defaults else []
        yield f"| {' | '.join([f'`{field}`', _holds(field, said), *default, said['description']])} |"


def _holds(field: str, said: _Schema) -> str:
    """The unit that a field's name has, or else what it takes, in words.

    >>> _holds("seconds", {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]})
    'list: seconds'
    """
    unit = _UNIT.search(field)
    return _type(said, unit=unit[1].replace("_", " ") if unit else "")


def _type(said: _Schema, *, unit: str) -> str:
    if "$ref" in said and _name(said) != _ANY_VALUE:
        return f"[{_name(said)}](#{_name(said).lower()})"
    if choices := said.get("enum", [said["const"]] if "const" in said else []):
        return ", ".join(f"`{choice}`" for choice in choices)
    single = unit or _FORMATS.get(said.get("format", "")) or _TYPES.get(said.get("type", ""), "any value")
    return _composed(said, unit=unit) or single


def _composed(said: _Schema, *, unit: str) -> str:
    """A type that is made of others: one of several, a list, values by name. Empty for a single value."""
    if options := said.get("anyOf"):
        types = [_type(option, unit=unit) for option in options if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(types))
    if items := said.get("items") or said.get("prefixItems"):
        return f"list: {_type(items[0] if isinstance(items, list) else items, unit=unit)}"
    if values := said.get("additionalProperties"):
        return f"{_type(values, unit=unit) if isinstance(values, dict) else 'any value'}, by name"
    return ""


def _default(field: str, said: _Schema, block: _Schema) -> str:
    """The default as a scenario would give it; nothing where the description says what null means."""
    if field in block.get("required", ()):
        return "required"
    default = said.get("default")
    if isinstance(default, list):
        return ", ".join(default) or "none"
    return "" if default is None else json.dumps(default).strip('"').removesuffix(".0")


def _name(said: _Schema) -> str:
    return str(said["$ref"].rpartition("/")[2])
