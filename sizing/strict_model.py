"""Base classes of every document and of every part of one."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

_NUMBERS: dict[str, Any] = {"int": "int_type", "float": "float_type"}
"""Pydantic's schemas that take true for 1, and the kinds of error where something is no number."""
_INSIDE = ("schema", "items_schema", "values_schema", "choices", "fields", "definitions")
"""Names under which a schema of pydantic has those inside it."""


def without_truth(number: Any) -> CoreSchema:
    """Let the schema of a number, or of a choice of numbers, refuse true and false."""

    def refuse_truth(value: Any) -> Any:
        if isinstance(value, bool):
            raise PydanticKnownError(_NUMBERS.get(number["type"], "int_type"))
        return value

    return core_schema.no_info_before_validator_function(refuse_truth, number)


def with_strict_truth(schema: Any, *, takes_texts: bool, is_inside: bool = False) -> Any:
    """Let a model's schema take true and false for nothing else, and nothing else for them.

    `takes_texts`: whether a text of digits, as flags are typed, is a number. `is_inside`: whether the schema
    stands inside that of the model; a model there has its own.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(with_strict_truth(e, takes_texts=takes_texts, is_inside=is_inside) for e in schema)
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "model" and is_inside:
        return schema
    if kind == "bool" or (kind in _NUMBERS and not takes_texts):
        return {**schema, "strict": True}
    if kind in _NUMBERS or (kind == "literal" and any(type(choice) is int for choice in schema["expected"])):
        return without_truth(schema)
    is_inside = is_inside or kind == "model"
    changed = dict(schema)
    for name in _INSIDE:
        inner = schema.get(name)
        if kind == "model-fields" and isinstance(inner, dict):
            fields = inner.items()
            changed[name] = {n: with_strict_truth(f, takes_texts=takes_texts, is_inside=True) for n, f in fields}
        elif inner is not None:
            changed[name] = with_strict_truth(inner, takes_texts=takes_texts, is_inside=is_inside)
    return changed


class StrictTruth:
    """Annotation of a field that is validated outside its model, as an InputModel validates it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the field, whose truth values and numbers are not taken for each other."""
        schema: CoreSchema = with_strict_truth(handler(source), takes_texts=True, is_inside=True)
        return schema


class StrictModel(BaseModel):
    """A document or a part of one: frozen, and refused where it has a field that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class InputModel(StrictModel):
    """A document that people write, or a part of one: no number stands for true or false, and these for no number."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the model, whose truth values and numbers are not taken for each other."""
        schema: CoreSchema = with_strict_truth(handler(source), takes_texts=True)
        return schema


class MeasuredModel(StrictModel):
    """A document that a program writes, or a part of one: its numbers are no texts, as its JSON Schema says."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of the model, whose numbers and truth values stand for themselves alone."""
        schema: CoreSchema = with_strict_truth(handler(source), takes_texts=False)
        return schema
