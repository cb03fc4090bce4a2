"""The model catalog: data with a source per entry, read from `catalog.toml` beside this file."""

from __future__ import annotations

import functools
from typing import Self

from pydantic import Field, JsonValue, model_validator

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.errors import require_one_of
from sizing.model.architecture import Architecture
from sizing.model.composed import Composition
from sizing.model.huggingface import beside_language_model, model_from
from sizing.model.inventory import Inventory, inventory_of, num_parameters

OTHERWISE = (
    "of another model give the config.json (`model.huggingface_config`) or num_parameters; `ckpt-size models` lists "
    "the names"
)
"""Remedy for a model that the catalog does not have."""


class CatalogModel(CatalogEntry):
    """A published model: its architecture, and where its fields were read."""

    num_parameters: int | None = Field(
        None,
        description="Parameters of all tensors: over REST counted from the architecture, in the catalog's file as "
        "published. Null when no count is published.",
    )
    num_parameters_source: str | None = Field(
        None, description="Publication that states the same count. Null when there is none."
    )
    architecture: Architecture | None = Field(
        None, description="Layers, widths and heads as published. Null where huggingface_config says them."
    )
    huggingface_config: dict[str, JsonValue] | None = Field(
        None,
        description="Fields of the published config.json that tell the tensors. Null where architecture says them.",
    )

    leaves_out: str | None = Field(
        None,
        description="What the published model has beside what is counted, in words. Null where nothing is left out.",
    )

    @model_validator(mode="after")
    def _one_description(self) -> Self:
        require_one_of(self, ("architecture", "huggingface_config"))
        return self

    @property
    def described(self) -> Architecture | Composition:
        """The model as an architecture or a composition."""
        return self.architecture or model_from(self.huggingface_config or {})

    @property
    def inventory(self) -> Inventory:
        """All tensors of the model, with those of its vision tower."""
        described = self.described
        own = inventory_of(described) if isinstance(described, Architecture) else described.inventory
        return (*own, *(beside_language_model(self.huggingface_config or {}, described) or ()))

    @property
    def family(self) -> str:
        """Family of the Architecture, or model_type of the Composition."""
        described = self.described
        return described.family if isinstance(described, Architecture) else described.model_type


@functools.cache
def catalog() -> dict[str, CatalogModel]:
    """Return every model of the catalog by name."""
    return entries(CatalogModel, package=__package__, file="catalog.toml")


def count_parameters(model: CatalogModel) -> CatalogModel:
    """Count the parameters of a model's tensors."""
    return model.model_copy(update={"num_parameters": num_parameters(model.inventory)})


def model_named(name: str) -> CatalogModel:
    """Return the model of the catalog with this name.

    Raises InvalidInput, with the nearest names, if there is none.
    """
    return entry_named(name, catalog(), field="model.preset", otherwise=OTHERWISE)
