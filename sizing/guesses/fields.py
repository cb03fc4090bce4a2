"""Fields of a scenario by their dotted paths: what they may hold, and a document with one of them set."""

from __future__ import annotations

import copy
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from sizing.errors import model_in
from sizing.scenario import Scenario


def field_at(path: str) -> FieldInfo:
    """The field of a scenario at a dotted path, in which numbers count the objects of a list.

    Raises KeyError where there is none.

    >>> field_at("checkpoint.tiers.0.keep").default
    1
    """
    model: type[BaseModel] | None = Scenario
    for name in path.split("."):
        if name.isdecimal():
            continue
        if model is None:
            raise KeyError(path)
        field = model.model_fields[name]
        model = model_in(field.annotation)
    return field


def choices_of(annotation: Any) -> list[str]:
    """The texts that a field may hold, where it holds one of a few: of a Literal, or of a registry."""
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    if isinstance(annotation, WithJsonSchema):
        return list((annotation.json_schema or {}).get("enum", ()))
    return next(filter(None, map(choices_of, typing.get_args(annotation))), [])


def with_field(document: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a scenario's document with one field set; blocks on its path that are missing are made.

    >>> with_field({"model": {"preset": "gpt2"}}, "checkpoint.mode", "async")["checkpoint"]
    {'mode': 'async'}
    """
    changed: dict[str, Any] = copy.deepcopy(dict(document))
    *blocks, name = path.split(".")
    block: Any = changed
    for part in blocks:
        block = block[int(part)] if isinstance(block, list | tuple) else block.setdefault(part, {})
    block[name] = value
    return changed
