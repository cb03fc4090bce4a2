"""The `checkpoint` block of a Scenario: which files, how often, read back how."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from sizing.layout import CheckpointFiles, Parallelism
from sizing.run.demands.readings import RestoreStrategy
from sizing.run.tier import ARCHIVE, Tier, check_tiers
from sizing.spelling import AnySpelling
from sizing.units import BytesPerSecond, PositiveSeconds


class Checkpoint(CheckpointFiles):
    """What is written and when.

    `interval_seconds` runs from the start of one checkpoint to the start of the next.
    """

    interval_seconds: PositiveSeconds = Field(14_400.0, json_schema_extra={"source": "4 h, quoted by VAST Data 2024"})
    observed_write_bytes_per_second: BytesPerSecond | None = Field(
        None, description="a measured rate, to compare the computed one with"
    )
    restore: AnySpelling[RestoreStrategy] = Field("every-replica", description="how what replicas share is read back")
    restore_parallelism: Parallelism | None = Field(None, description="of the layout that restores, if another one")
    tiers: tuple[Tier, ...] = Field((), max_length=8, description="in front of the main storage, or behind it")

    @model_validator(mode="after")
    def _tiers_in_order(self) -> Self:
        check_tiers(self.tiers, interval_seconds=self.interval_seconds)
        return self

    @property
    def front_tiers(self) -> tuple[Tier, ...]:
        """Tiers that are saved to more often than the main storage, the most frequent first."""
        return tuple(tier for tier in self.tiers if tier.kind != ARCHIVE)

    @property
    def archives(self) -> tuple[Tier, ...]:
        """Tiers that keep copies behind the main storage."""
        return tuple(tier for tier in self.tiers if tier.kind == ARCHIVE)
