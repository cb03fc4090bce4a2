"""Storage systems as published: data with a source per entry, read from `profiles.toml` beside this file."""

from __future__ import annotations

import functools
from typing import Annotated, Literal

from pydantic import Field

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.storage.profile import StorageProfile

TierOfStorage = Literal["shared-file-system", "local-nvme"]


class CatalogProfile(CatalogEntry):
    """A published storage system, and where its figures were read."""

    tier: TierOfStorage = Field(
        description="Kind of storage: a file system that all nodes share, or drives in each node."
    )
    basis: Literal["guidance", "measured", "achieved"] = Field(
        description="What the figures are: guidance of a vendor, measured by a benchmark, or achieved by checkpoints, "
        "which the system may exceed."
    )
    num_nodes: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Nodes for which or by which the figures were published. Null when the source does not say."
    )
    profile: StorageProfile = Field(description="Rates as published.")


@functools.cache
def storage_profiles() -> dict[str, CatalogProfile]:
    """Every storage system of the catalog by name."""
    return entries(CatalogProfile, package=__package__, file="profiles.toml")


def profile_named(name: str) -> CatalogProfile:
    """The catalog's storage system of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    return entry_named(name, storage_profiles(), field="storage.preset")
