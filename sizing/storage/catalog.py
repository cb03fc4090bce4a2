"""Storage systems as published: data with a source per entry, read from `profiles.toml` beside this file."""

from __future__ import annotations

import functools
import tomllib
from datetime import date
from importlib import resources
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from sizing.errors import unknown_name
from sizing.storage.profile import StorageProfile


class CatalogProfile(BaseModel):
    """A published storage system, and where its figures were read.

    `basis` says what the figures are: `guidance` that a vendor asks storage to meet, rates `measured` by a benchmark
    of the drives, or rates `achieved` by checkpoints of so many nodes, which the system may exceed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    tier: Literal["shared-file-system", "local-nvme"]
    basis: Literal["guidance", "measured", "achieved"]
    num_nodes: Annotated[int, Field(ge=1)] | None = Field(None, description="for which or by which it was published")
    source: str
    read_on: date
    profile: StorageProfile


@functools.cache
def storage_profiles() -> dict[str, CatalogProfile]:
    """Every storage system of the catalog by name."""
    text = resources.files(__package__).joinpath("profiles.toml").read_text(encoding="utf-8")
    profiles = [CatalogProfile.model_validate(entry) for entry in tomllib.loads(text)["profile"]]
    return {profile.name: profile for profile in profiles}


def profile_named(name: str) -> CatalogProfile:
    """The catalog's storage system of that name.

    Raises InvalidInput, with the nearest names, where there is none.
    """
    profile = storage_profiles().get(name)
    if profile is None:
        raise unknown_name("storage.preset", name, known=storage_profiles())
    return profile
