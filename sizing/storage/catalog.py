"""Storage systems as published: data with a source per entry, read from `profiles.toml` beside this file."""

from __future__ import annotations

import functools
from typing import Annotated, Literal

from pydantic import Field

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.storage.profile import StorageProfile


class CatalogProfile(CatalogEntry):
    """A published storage system, and where its figures were read.

    `basis` says what the figures are: `guidance` that a vendor asks storage to meet, rates `measured` by a benchmark
    of the drives, or rates `achieved` by checkpoints of so many nodes, which the system may exceed.
    """

    tier: Literal["shared-file-system", "local-nvme"]
    basis: Literal["guidance", "measured", "achieved"]
    num_nodes: Annotated[int, Field(ge=1)] | None = Field(None, description="for which or by which it was published")
    profile: StorageProfile


@functools.cache
def storage_profiles() -> dict[str, CatalogProfile]:
    """Every storage system of the catalog by name."""
    return entries(CatalogProfile, package=__package__, file="profiles.toml")


def profile_named(name: str) -> CatalogProfile:
    """The catalog's storage system of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    return entry_named(name, storage_profiles(), field="storage.preset")
