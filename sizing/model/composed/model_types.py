"""The model_types that are composed of pieces: one row of `model_types.toml` each, and the defaults of its class."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal

from pydantic import Field, JsonValue

from sizing.model.families import FusedPart
from sizing.strict_model import StrictModel

Expression = str | bool | int
"""Expression over the names of the config and of `values`, if it is text; `i` is the layer, from 0."""


class DeclaredTensor(StrictModel):
    """A tensor that no kind of piece has."""

    name: str = Field(description="How reports and manifests call the tensor.")
    shape: tuple[Expression, ...] = Field(description="Dimensions of the whole tensor, outputs first.")
    pieces: Expression = Field(1, description="Equal parts that tensor ranks may hold; 1: each holds the whole.")
    count: Expression = Field(1, description="Equal tensors of that name in a layer.")
    placement: Literal["first-stage", "last-stage"] = Field("last-stage", description="Where it is outside the layers.")
    is_table: bool = Field(False, description="Whether a tower looks rows up in it, so that optimizers treat it apart.")


class PieceRow(StrictModel):
    """A piece: the kind, the layers that have it, and fields of the kind that differ from the values of that name."""

    prefix: str = Field("", description="What stands before the names of its tensors.")
    kind: str | None = Field(None, description="Name in `KINDS`. Null where only tensors are declared.")
    where: Expression = Field(True, description="Whether layer i has it.")
    fields: dict[str, Expression] = Field(
        default_factory=dict, description="What the kind needs and another value than that of the same name gives."
    )
    tensors: tuple[DeclaredTensor, ...] = Field((), description="What a layer has beside the kinds of pieces.")


class ModelType(StrictModel):
    """How the config of a model_type reads."""

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
    prediction_modules: str = Field(
        "",
        description="Name in the config of how many modules for multi-token prediction the published files have, each "
        "with a layer like the last. Empty where no published count proves them.",
    )
    fused: tuple[FusedPart, ...] = Field(
        (), description="Parts of a layer that the modules of transformers keep as one matrix."
    )
    adapted: tuple[str, ...] = Field(
        (),
        description="Matrices that PEFT adapts by default, beside queries and values, which it adapts in most types.",
    )
    left_out: str = Field(
        "",
        description="What published models have beside what transformers builds, if no field of the config says so.",
    )


class Projector(StrictModel):
    """Tensors that bring a tower's output into a language model, by the model_type of the whole."""

    tower: str = Field(description="The model_type of a vision_config that does not say its own.")
    outer: dict[str, JsonValue] = Field(
        default_factory=dict, description="Names of the whole config that are read, each with its class's default."
    )
    values: dict[str, Expression] = Field(default_factory=dict, description="Names that its tensors read.")
    outside: tuple[DeclaredTensor, ...] = Field((), description="What it adds to the tensors of the tower.")


class Towers(StrictModel):
    """The vision towers and projectors that are counted."""

    tower: dict[str, ModelType] = Field(description="By the model_type of the vision_config.")
    whole: dict[str, Projector] = Field(description="By the model_type of the whole config.")


class Defaults(StrictModel):
    """Defaults of a configuration class, by the model_type.

    Rows of `huggingface.toml` state which names their configs must have.
    """

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
        """Return the class's sizes that a config does not give under any of their names."""
        given = {self.other_names.get(name, name) for name in config}
        sizes = self.required | {name: size for name, size in self.values.items() if type(size) is int}
        return {name: size for name, size in sizes.items() if name not in given}


@functools.cache
def model_types() -> dict[str, ModelType]:
    """Return every model_type, merged with the row that it is `like`."""
    rows = tomllib.loads(_text("model_types.toml"))
    return {
        name: ModelType.model_validate(_inherit(name, rows, root="decoder"))
        for name in rows
        if "model_class" in rows[name]
    }


@functools.cache
def towers() -> Towers:
    """Return every vision tower and projector that is counted."""
    rows = tomllib.loads(_text("towers.toml"))
    rows["tower"] = {name: _inherit(name, rows["tower"], root="base") for name in rows["tower"] if name != "base"}
    return Towers.model_validate(rows)


@functools.cache
def defaults() -> dict[str, Defaults]:
    """Return the defaults of every model_type of transformers that is counted here."""
    return {name: Defaults.model_validate(row) for name, row in json.loads(_text("defaults.json"))["types"].items()}


@functools.cache
def uncounted_types() -> dict[str, str]:
    """Return the model_types of transformers that are not counted, each with the tensors that no piece has."""
    groups = tomllib.loads(_text("uncounted.toml"))["group"]
    return {name: group["reason"] for group in groups for name in group["model_types"]}


def _text(file: str) -> str:
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def _inherit(name: str, rows: Mapping[str, Any], *, root: str) -> dict[str, Any]:
    """Merge a row over the row that it is `like`, up to `root`."""
    row = dict(rows[name])
    like = row.pop("like", None if name == root else root)
    return row if like is None else _merge(_inherit(like, rows, root=root), row)


def _merge(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merge(base[key], own[key]) for key in base.keys() & own.keys() if isinstance(base[key], dict)}
    return base | own | both
