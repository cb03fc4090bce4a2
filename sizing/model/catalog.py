"""The model catalog: data with a source per entry, read from `catalog.toml` beside this file."""

from __future__ import annotations

import functools

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.model.architecture import Architecture


class CatalogModel(CatalogEntry):
    """A published model: its architecture, and where its fields were read.

    `num_parameters` is an integer that somebody else published, where there is one.
    """

    num_parameters: int | None = None
    num_parameters_source: str | None = None
    architecture: Architecture


@functools.cache
def catalog() -> dict[str, CatalogModel]:
    """Every model of the catalog by name."""
    return entries(CatalogModel, package=__package__, file="catalog.toml")


def model_named(name: str) -> CatalogModel:
    """The catalog's model of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    return entry_named(name, catalog(), field="model.preset")
