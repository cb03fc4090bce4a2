"""The `storage` block of a Scenario, and the profile that it resolves to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import require_one_of
from sizing.storage.catalog import CatalogProfile, profile_named
from sizing.storage.profile import StorageProfile

_WAYS = ("preset", "profile")


class Storage(BaseModel):
    """Where checkpoints go: a published system by its name, or a profile."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str | None = Field(None, max_length=100, description="a name of the storage catalog")
    profile: StorageProfile | None = None
    io: Literal["buffered", "direct"] | None = Field(
        None, description="direct: writers and readers bypass the page cache, so `_buffered_` rates do not limit"
    )

    @model_validator(mode="after")
    def _one_kind_of_storage(self) -> Self:
        require_one_of(self, _WAYS)
        return self


@dataclass(frozen=True, slots=True)
class ResolvedStorage:
    """The profile that the calculation uses, and the catalog's entry where it is a published one."""

    profile: StorageProfile
    published: CatalogProfile | None = None


def resolve_storage(storage: Storage | None) -> ResolvedStorage | None:
    """The profile that a `storage` block asks for; None where there is no block.

    Raises InvalidInput where the catalog does not know its name.
    """
    if storage is None:
        return None
    published = profile_named(storage.preset) if storage.preset is not None else None
    profile = published.profile if published else storage.profile
    assert profile is not None  # noqa: S101 - the block holds exactly one
    return ResolvedStorage(profile.direct() if storage.io == "direct" else profile, published)
