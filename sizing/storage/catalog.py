"""Storage systems as published, and the most that is published of one node: data with a source for each entry.

Read from `profiles.toml` and `node_rates.toml` beside this file.
"""

from __future__ import annotations

import functools
import tomllib
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field

from sizing.catalog_file import CatalogEntry, entries, entry_named
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Direction
from sizing.strict_model import StrictModel

TierOfStorage = Literal["shared-file-system", "local-nvme"]

Io = Literal["buffered", "direct"]
"""Whether files pass through the page cache."""


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


class NodeRate(StrictModel):
    """A published rate of all streams of one node: a field of an entry of the storage catalog."""

    direction: Direction = Field(description="Whether the node's streams write or read.")
    tier: TierOfStorage = Field(description="Kind of storage behind them.")
    io: Io | None = Field(None, description="Way through the page cache or past it. Null for both.")
    storage: str = Field(description="Entry of the storage catalog that has the figure and its source in full.")
    rate: str = Field(description="Which of the rates of that entry and direction, by its name in `Rates`.")
    source: str = Field(description="Publication in short, and of what the figure is, for a sentence.")

    @property
    def bytes_per_second(self) -> float:
        """The rate that the entry of the catalog states."""
        rates = profile_named(self.storage).profile.rates(self.direction)
        return float(getattr(rates, self.rate))


@functools.cache
def node_rates() -> tuple[NodeRate, ...]:
    """Every figure, in the order of the file."""
    text = resources.files(__package__).joinpath("node_rates.toml").read_text(encoding="utf-8")
    return tuple(map(NodeRate.model_validate, tomllib.loads(text)["rate"]))


@functools.cache
def max_node_rate(direction: Direction, tier: TierOfStorage, io: Io) -> NodeRate:
    """The highest figure for one node: of those for that way of I/O alone, else of those for both.

    >>> max_node_rate("write", "shared-file-system", "buffered").bytes_per_second
    8000000000.0
    """
    known = [rate for rate in node_rates() if (rate.direction, rate.tier) == (direction, tier)]
    own = [rate for rate in known if rate.io == io] or [rate for rate in known if rate.io is None]
    return max(own, key=lambda rate: rate.bytes_per_second)
