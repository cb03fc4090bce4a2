"""The model catalog: data with a source per entry, read from `catalog.toml` beside this file."""

from __future__ import annotations

import functools

from pydantic import Field

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.model.architecture import Architecture
from sizing.model.inventory import inventory_of, num_parameters


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
    architecture: Architecture = Field(description="Layers, widths and heads as published.")


@functools.cache
def catalog() -> dict[str, CatalogModel]:
    """Every model of the catalog by name."""
    return entries(CatalogModel, package=__package__, file="catalog.toml")


def counted(model: CatalogModel) -> CatalogModel:
    """The same with the parameters of its tensors, counted."""
    return model.model_copy(update={"num_parameters": num_parameters(inventory_of(model.architecture))})


def model_named(name: str) -> CatalogModel:
    """The catalog's model of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    return entry_named(name, catalog(), field="model.preset")
