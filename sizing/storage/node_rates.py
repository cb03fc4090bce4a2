"""The most that is published of the checkpoint streams of one node, read from `node_rates.toml` beside this file."""

from __future__ import annotations

import functools
import tomllib
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field

from sizing.storage.catalog import TierOfStorage, profile_named
from sizing.storage.rates import Direction, RateField
from sizing.storage.storage import Io, ResolvedStorage


class NodeRate(BaseModel):
    """A published rate of all streams of one node: a field of an entry of the storage catalog."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    direction: Direction = Field(description="Whether the node's streams write or read.")
    tier: TierOfStorage = Field(description="Kind of storage behind them.")
    io: Io | None = Field(None, description="Way through the page cache or past it. Null for both.")
    storage: str = Field(description="Entry of the storage catalog that has the figure and its source in full.")
    field: RateField = Field(description="Rate in the profile of that entry.")
    source: str = Field(description="Publication in short, and of what the figure is, for a sentence.")

    @property
    def bytes_per_second(self) -> float:
        """The figure itself."""
        rate = profile_named(self.storage).profile.figures()[self.field]
        return float(rate)


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


def max_node_rate_of(storage: ResolvedStorage, direction: Direction, *, is_in_nodes: bool) -> NodeRate | None:
    """The figure to hold a storage's rate against; None where that was measured, which is worth more."""
    if storage.calibration is not None or storage.profile.measured is not None:
        return None
    return max_node_rate(direction, "local-nvme" if is_in_nodes else "shared-file-system", storage.io)
