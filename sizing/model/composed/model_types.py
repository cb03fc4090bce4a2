"""The model_types that are composed of pieces: one row of `model_types.toml` each, and their classes' defaults."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Expression = str | bool | int
"""Text is an expression over the names of the config and of `values`; `i` is the layer, from 0."""


class DeclaredTensor(BaseModel):
    """A tensor that no kind of piece has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="How reports and manifests call the tensor.")
    shape: tuple[Expression, ...] = Field(description="Dimensions of the whole tensor, outputs first.")
    pieces: Expression = Field(1, description="Equal parts that tensor ranks may hold; 1: each holds the whole.")
    count: Expression = Field(1, description="Equal tensors of that name in a layer.")
    placement: Literal["first-stage", "last-stage"] = Field("last-stage", description="Where it is outside the layers.")


class PieceRow(BaseModel):
    """A piece: the kind, the layers that have it, and fields of the kind that differ from the values of that name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prefix: str = Field("", description="What stands before the names of its tensors.")
    kind: str | None = Field(None, description="Name in `KINDS`. Null where only tensors are declared.")
    where: Expression = Field(True, description="Whether layer i has it.")
    fields: dict[str, Expression] = Field(
        default_factory=dict, description="What the kind needs and another value than that of the same name gives."
    )
    tensors: tuple[DeclaredTensor, ...] = Field((), description="What a layer has beside the kinds of pieces.")


class ModelType(BaseModel):
    """How the config of a model_type reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model_class: str | None = Field(
        None, description="Only entry that `architectures` of the config may have. Null where it is a template."
    )
    undeclared: tuple[str, ...] = Field(
        (), description="Names that the configuration class reads although it does not declare them."
    )
    values: dict[str, Expression] = Field(description="Names that pieces and other values read.")
    pieces: dict[str, PieceRow] = Field(
        description="What a layer is made of, each under a name by which other rows change it."
    )
    outside: tuple[DeclaredTensor, ...] = Field((), description="Tensors before and after the layers.")
    refused: dict[str, str] = Field(
        default_factory=dict, description="Expressions that must be false, as they change the count, with the reason."
    )
    left_out: str = Field(
        "",
        description="What published models have beside what transformers builds, if no field of the config says so.",
    )


class Defaults(BaseModel):
    """What the configuration class of a model_type takes where the config does not have a name.

    Rows of `huggingface.toml` say themselves which names a config of theirs must have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: dict[str, JsonValue] = Field(
        description="Default of each field of the config that is read and that may be left out."
    )
    required: dict[str, int] = Field(
        description="Names that a config must have, each with what the class takes in a text_config that leaves it out."
    )
    other_names: dict[str, str] = Field(
        description="Spellings that a config may have instead, each with the field that it is."
    )

    def sizes_beside(self, config: Mapping[str, JsonValue]) -> dict[str, int]:
        """The class's sizes that a config does not give, by any of their names."""
        given = {self.other_names.get(name, name) for name in config}
        sizes = self.required | {name: size for name, size in self.values.items() if type(size) is int}
        return {name: size for name, size in sizes.items() if name not in given}


@functools.cache
def model_types() -> dict[str, ModelType]:
    """Every model_type, with what it inherits from the row that it is `like`."""
    rows = tomllib.loads(_text("model_types.toml"))
    return {name: ModelType.model_validate(_inherited(name, rows)) for name in rows if "model_class" in rows[name]}


@functools.cache
def defaults() -> dict[str, Defaults]:
    """The defaults of every model_type that transformers has and that is counted here."""
    return {name: Defaults.model_validate(row) for name, row in json.loads(_text("defaults.json"))["types"].items()}


@functools.cache
def uncounted_types() -> dict[str, str]:
    """The model_types of transformers that are not counted, with what they have that no piece has."""
    groups = tomllib.loads(_text("uncounted.toml"))["group"]
    return {name: group["reason"] for group in groups for name in group["model_types"]}


def _text(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def _inherited(name: str, rows: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(rows[name])
    like = row.pop("like", None if name == "decoder" else "decoder")
    return row if like is None else _merged(_inherited(like, rows), row)


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(base[key], own[key]) for key in base.keys() & own.keys() if isinstance(base[key], dict)}
    return base | own | both
