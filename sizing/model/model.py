"""The `model` block of a Scenario, and what it resolves to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from sizing.catalog_file import catalog_name
from sizing.errors import printable, require_one_of
from sizing.model.architecture import Architecture
from sizing.model.catalog import catalog, model_named
from sizing.model.huggingface import architecture_from
from sizing.model.inventory import (
    Inventory,
    inventory_of,
    inventory_of_count,
    num_active_parameters,
    num_parameters,
)
from sizing.provenance import Assumption
from sizing.units import parse_count

_WAYS = ("preset", "architecture", "huggingface_config", "num_parameters")


class Model(BaseModel):
    """What is trained: a catalog name, an architecture, a Hugging Face config.json, or only a count."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: Annotated[str, Field(max_length=100), catalog_name(catalog)] | None = Field(
        None,
        description="Name of a published model; `ckpt-size models` lists them. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )
    architecture: Architecture | None = Field(
        None,
        description="Layers, widths and heads of a model that is not in the catalog. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )
    huggingface_config: dict[str, JsonValue] | None = Field(
        None,
        max_length=500,
        description="Content of a Hugging Face config.json. A model_type that is not known is refused. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )
    num_parameters: Annotated[int, BeforeValidator(parse_count), Field(ge=1, le=10**16)] | None = Field(
        None,
        description="Parameter count, for a model of which nothing else is known. "
        "Every rank is then taken to hold an equal share. "
        "Give exactly one of preset, architecture, huggingface_config, num_parameters.",
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        require_one_of(self, _WAYS)
        return self


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model as the calculation needs it; `architecture` is None where only a count is known."""

    name: str
    architecture: Architecture | None
    inventory: Inventory
    num_parameters: int
    assumptions: tuple[Assumption, ...]

    @property
    def num_active_parameters(self) -> int:
        """Parameters that one token passes through."""
        per_token = self.architecture.num_experts_per_token if self.architecture else None
        return num_active_parameters(self.inventory, num_experts_per_token=per_token or 1)


def resolve(model: Model, *, vocabulary_multiple: int | None = None) -> ResolvedModel:
    """The model that a `model` block asks for, its vocabulary padded to a multiple if one is given.

    Raises InvalidInput where the catalog does not know the preset or the config is not understood.
    """
    if model.num_parameters is not None:
        return _of_count(model.num_parameters)
    name, architecture = _named_architecture(model)
    padded = _padded(architecture, vocabulary_multiple)
    inventory = inventory_of(padded)
    assumptions = (*_filled_in(architecture), *_padding(architecture, padded))
    return ResolvedModel(name, padded, inventory, num_parameters(inventory), assumptions)


def _named_architecture(model: Model) -> tuple[str, Architecture]:
    if model.architecture is not None:
        return "architecture", model.architecture
    if model.huggingface_config is not None:
        config = model.huggingface_config
        name = str(config.get("_name_or_path") or config.get("model_type") or "huggingface_config")
        return printable(name[:100]), architecture_from(config)
    return str(model.preset), model_named(str(model.preset)).architecture


def _padded(architecture: Architecture, multiple: int | None) -> Architecture:
    if multiple is None:
        return architecture
    return architecture.model_copy(update={"vocab_size": -(-architecture.vocab_size // multiple) * multiple})


def _padding(given: Architecture, padded: Architecture) -> list[Assumption]:
    if padded.vocab_size == given.vocab_size:
        reason = "not padded; Megatron pads to a multiple of 128 x tensor"
    else:
        reason = f"padded from {given.vocab_size}"
    return [Assumption(field="model.architecture.vocab_size", value=padded.vocab_size, reason=reason)]


def _of_count(count: int) -> ResolvedModel:
    assumption = Assumption(
        field="model.num_parameters",
        value=count,
        reason="only a count is given: every rank is taken to hold an equal share, nothing replicated",
    )
    return ResolvedModel(f"{count:,} parameters", None, inventory_of_count(count), count, (assumption,))


def _filled_in(architecture: Architecture) -> list[Assumption]:
    """What an architecture left open and the family, or the other fields, decided."""
    derived = {
        "ffn_hidden_size": architecture.ffn_width,
        "num_kv_heads": architecture.kv_heads,
        "head_dim": architecture.head_width,
        "max_positions": architecture.position_rows or None,
    }
    return [
        Assumption(field=f"model.architecture.{field}", value=value, reason="follows from the architecture")
        for field, value in derived.items()
        if value is not None and getattr(architecture, field) is None and not architecture.traits.latent_attention
    ]
