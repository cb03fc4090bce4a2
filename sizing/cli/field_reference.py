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
    r"(?:^|_)((?:bytes|seconds)_per_[a-z]+|[a-z]+s_per_second|failures_per_[a-z_]+|bytes|seconds|fraction)(?:_for_[a-z_]+)?$"
)
_TYPES = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}
_FORMATS = {"date": "date", "date-time": "moment"}


def field_reference() -> str:
    """Write the page: a table for each block of a Scenario, then for each block of a SizingReport."""
    scenario = _write_tables(Scenario.model_json_schema(), has_defaults=True)
    report = _write_tables(SizingReport.model_json_schema(mode="serialization"), has_defaults=False)
    return "\n".join([_INTRODUCTION, "\n## Scenario", *scenario, "\n## Report", *report])


def _write_tables(schema: _Schema, *, has_defaults: bool) -> Iterator[str]:
    yield from _write_table(schema, has_defaults=has_defaults)
    for name, paths in _find_blocks(schema).items():
        yield f"\n### {name}\n\n{', '.join(f'`{path}`' for path in paths)}"
        yield from _write_table(schema["$defs"][name], has_defaults=has_defaults)


def _find_blocks(schema: _Schema) -> dict[str, list[str]]:
    """Find the dotted paths of each block of a document; blocks within a block stand below its first path.

    A path has `tiers[]` for a list of blocks, and `parts.*` for blocks by name.
    """
    paths_by_name: dict[str, list[str]] = {}
    blocks = [("", schema)]
    for prefix, block in blocks:  # which grows meanwhile
        for field, field_schema in block["properties"].items():
            options = [field_schema, *field_schema.get("anyOf", ())]
            if any("items" in option for option in options):
                path = f"{prefix}{field}[]"
            elif any(option.get("additionalProperties") for option in options):
                path = f"{prefix}{field}.*"
            else:
                path = f"{prefix}{field}"
            for name in _names_in(field_schema):
                if name not in paths_by_name:
                    blocks.append((f"{path}.", schema["$defs"][name]))
                paths_by_name.setdefault(name, []).append(path)
    return paths_by_name


def _names_in(schema: Any) -> Iterator[str]:
    """Yield the names of the blocks that a field holds."""
    if isinstance(schema, dict):
        if "$ref" in schema and _name(schema) != _ANY_VALUE:
            yield _name(schema)
        for inner in schema.values():
            yield from _names_in(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _names_in(inner)


def _write_table(block: _Schema, *, has_defaults: bool) -> Iterator[str]:
    columns = ["field", "holds", *(["default"] if has_defaults else []), "what it is"]
    yield f"\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}"
    for field, schema in block["properties"].items():
        default = [_default_text(field, schema, block)] if has_defaults else []
        yield f"| {' | '.join([f'`{field}`', _type_of_field(field, schema), *default, schema['description']])} |"


def _type_of_field(field: str, schema: _Schema) -> str:
    """Write the unit that a field's name has, or else the type of its values.

    >>> _type_of_field("seconds", {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]})
    'list: seconds'
    >>> _type_of_field("frozen", {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]})
    'text or list: text'
    """
    unit = _UNIT.search(field)
    return _type_text(schema, unit=unit[1].replace("_", " ") if unit else "")


def _type_text(schema: _Schema, *, unit: str) -> str:
    """Write a type: a block, names, one of several types, a list, values by name, or a single value with its unit."""
    if "$ref" in schema and _name(schema) != _ANY_VALUE:
        return f"[{_name(schema)}](#{_name(schema).lower()})"
    if choices := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return ", ".join(f"`{choice}`" for choice in choices)
    if options := schema.get("anyOf"):
        types = [_type_text(option, unit=unit) for option in options if option.get("type") != "null"]
        return " or ".join(sorted(dict.fromkeys(types), key=lambda each: each.startswith("list")))
    if items := schema.get("items") or schema.get("prefixItems"):
        return f"list: {_type_text(items[0] if isinstance(items, list) else items, unit=unit)}"
    if values := schema.get("additionalProperties"):
        return f"{_type_text(values, unit=unit) if isinstance(values, dict) else 'any value'}, by name"
    return unit or _FORMATS.get(schema.get("format", "")) or _TYPES.get(schema.get("type", ""), "any value")


def _default_text(field: str, schema: _Schema, block: _Schema) -> str:
    """Write the default as a scenario would give it; nothing where the description says what null means."""
    if field in block.get("required", ()):
        return "required"
    default = schema.get("default")
    if isinstance(default, list):
        return ", ".join(default) or "none"
    return "" if default is None else json.dumps(default).strip('"').removesuffix(".0")


def _name(schema: _Schema) -> str:
    return str(schema["$ref"].rpartition("/")[2])
