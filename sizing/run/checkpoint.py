"""The `checkpoint` block of a Scenario: which files, how often, read back how."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from sizing.layout import CheckpointFiles, Parallelism
from sizing.run.demands.readings import RestoreStrategy
from sizing.run.export.settings import Export
from sizing.run.failures import DrainDomain
from sizing.run.reduction.settings import Reduction
from sizing.run.tier import ARCHIVE, Tier, check_tiers
from sizing.spelling import AnySpelling
from sizing.units import ByteCount, BytesPerSecond, PositiveSeconds

_INTERVAL_SOURCE = "4 h, quoted by VAST Data 2024"


class Checkpoint(CheckpointFiles):
    """What is written, when and where to, and how it is read back."""

    interval_seconds: PositiveSeconds = Field(
        14_400.0,
        json_schema_extra={"source": _INTERVAL_SOURCE},
        description=f"Seconds from the start of one checkpoint to the start of the next. Default: {_INTERVAL_SOURCE}.",
    )
    staging_bytes: ByteCount | None = Field(
        None,
        description="Max bytes of its share that one writing rank keeps in host memory while an asynchronous save "
        "drains. The rest of the share waits for room, and training with it. Default: the whole share fits.",
    )
    drain_survives: tuple[DrainDomain, ...] | None = Field(
        None,
        max_length=4,
        description="Loss domains of failures that the drain of an asynchronous save outlives, such as process where "
        "another process writes; smaller ones are included. "
        "Default: none, so a failure during the drain loses that checkpoint.",
    )
    observed_write_bytes_per_second: BytesPerSecond | None = Field(
        None,
        description="Measured write rate to compare the computed one with, in bytes per second. "
        "Default: no comparison.",
    )
    restore: AnySpelling[RestoreStrategy] = Field(
        "every-replica",
        description="How state that replicas share is read back. "
        "By every replica, or once and passed on over the compute network.",
    )
    restore_parallelism: Parallelism | None = Field(
        None,
        description="Degrees of the layout that restores, when it is another one (resharding). "
        "Default: the layout that saved.",
    )
    reduction: Reduction | None = Field(
        None,
        description="What saves to the main storage hold less than everything: compression, deltas, some experts. "
        "Default: all of the state, as it is.",
    )
    export: Export | None = Field(
        None,
        description="Weights in Hugging Face format that are written beside the checkpoint. Default: none are.",
    )
    tiers: tuple[Tier, ...] = Field(
        (),
        max_length=8,
        description="Tiers beside the main storage: burst buffers in front, in the order of their intervals, then "
        "object stores behind. Default: none.",
    )

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
