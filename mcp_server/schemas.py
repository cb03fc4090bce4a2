"""The schema of a tool's input: short enough to be read with every conversation, with what it leaves out by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from sizing.errors import InvalidInput
from sizing.scenario import Scenario
from sizing.spelling import has_all_of, nearest

Schema = dict[str, Any]

MAX_FIELDS_FOUND = 40
"""Fields in one answer: more are not read."""

_END_OF_SENTENCE = re.compile(r"\.\s")


class Field(NamedTuple):
    """A field of a scenario: its dotted path, and its schema with its description."""

    path: str
    schema: Schema

    @property
    def line(self) -> str:
        """The field as a line of text."""
        return f"{self.path}: {self.schema.get('description', '')}"


def input_schema(request: type[BaseModel], *, depth: int = 2) -> Schema:
    """Make the schema of a tool that takes a request, with blocks within blocks to a depth.

    Fields stand in it with the first sentence of each description. Of blocks that lie deeper the names of their fields
    stand alone, as the whole schema of a scenario has 110 kB: the tool `fields` describes them. A scenario within a
    request is said to be what the tool `answer` takes.
    """
    schema = request.model_json_schema()
    names = schema.get("$defs", {})
    fields = {name: _shallow(field, names, depth=depth) for name, field in schema.get("properties", {}).items()}
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": fields, **required, "additionalProperties": False}


def _shallow(schema: Schema, names: dict[str, Schema], *, depth: int) -> Schema:
    """Reduce the schema of a field to its type, its first sentence and, where depth is left, the fields it holds."""
    said = {"description": _first_sentence(schema["description"])} if "description" in schema else {}
    if "$ref" in schema:
        return _shallow_block(schema["$ref"], names, depth) | said
    if "anyOf" in schema:
        options = [_shallow(option, names, depth=depth) for option in schema["anyOf"] if option.get("type") != "null"]
        return (options[0] if len(options) == 1 else {"anyOf": options}) | said
    kept: Schema = {key: schema[key] for key in ("type", "enum", "const", "default") if key in schema}
    if isinstance(schema.get("items"), dict):
        kept["items"] = _shallow(schema["items"], names, depth=depth)
    return kept | said


def _shallow_block(reference: str, names: dict[str, Schema], depth: int) -> Schema:
    name = reference.rpartition("/")[2]
    if name == Scenario.__name__:
        return {"type": "object", "description": "A scenario, as the tool `answer` takes it."}
    block = names[name]
    if depth == 0 or "properties" not in block:
        kept: Schema = {key: block[key] for key in ("type", "enum") if key in block}
        return kept if "properties" not in block else {"type": "object"}
    fields = {each: _shallow(field, names, depth=depth - 1) for each, field in block["properties"].items()}
    if depth == 1:
        return {"type": "object", "description": f"Holds {', '.join(fields)}."}
    required = {"required": block["required"]} if "required" in block else {}
    return {"type": "object", "properties": fields, **required}


def _first_sentence(text: str) -> str:
    return _END_OF_SENTENCE.split(text, maxsplit=1)[0].rstrip(".") + "."


def scenario_fields() -> Iterator[Field]:
    """List every field of a scenario, block by block, with `[]` after a list and `*` for a name."""
    schema = Scenario.model_json_schema()
    yield from _fields_in(schema, schema.get("$defs", {}), prefix="", within=())


def _fields_in(block: Schema, names: dict[str, Schema], *, prefix: str, within: tuple[str, ...]) -> Iterator[Field]:
    for name, schema in block.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield Field(path, schema)
        for mark, reference in _references(schema):
            held = reference.rpartition("/")[2]
            if held not in within:
                inner = f"{path}{mark}."
                yield from _fields_in(names[held], names, prefix=inner, within=(*within, held))


def _references(schema: Schema, mark: str = "") -> Iterator[tuple[str, str]]:
    """Yield the blocks that a field holds, each with the mark of the list or mapping that they stand in."""
    if "$ref" in schema:
        yield mark, schema["$ref"]
    for option in schema.get("anyOf", ()):
        yield from _references(option, mark)
    if isinstance(schema.get("items"), dict):
        yield from _references(schema["items"], f"{mark}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _references(schema["additionalProperties"], f"{mark}.*")


def find_fields(words: str) -> list[Field]:
    """Find the fields whose path or description has all of these words: by path first, of these the least deep first.

    Raises InvalidInput where no field has them.
    """
    fields = list(scenario_fields())
    by_path = [field for field in fields if has_all_of(words, field.path)]
    by_path.sort(key=lambda field: field.path.count("."))
    found = by_path + [field for field in fields if field not in by_path and has_all_of(words, field.line)]
    if not found:
        names = [field.path.rpartition(".")[2] for field in fields]
        close = nearest(words, names, max_names=3)
        remedy = f"the nearest are {', '.join(close)}" if close else "give fewer words"
        raise InvalidInput.of(
            "words", f"must fit one of {len(fields)} fields of a scenario", value=words, remedy=remedy
        )
    return found[:MAX_FIELDS_FOUND]
