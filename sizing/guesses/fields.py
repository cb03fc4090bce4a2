"""Fields of a scenario by their dotted paths: what each may hold."""

from __future__ import annotations

import typing
from typing import Any

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from sizing.errors import model_in
from sizing.scenario import Scenario


def field_at(path: str) -> FieldInfo:
    """Return the field of a scenario at a dotted path, in which numbers count the entries of a list.

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
    """List the names that a field accepts, from a Literal or a registry; empty where it accepts other values."""
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    if isinstance(annotation, WithJsonSchema):
        return list((annotation.json_schema or {}).get("enum", ()))
    return next(filter(None, map(choices_of, typing.get_args(annotation))), [])
