"""How a measured workload departs from the plain one, in which each rank writes one checkpoint, then reads one back."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from sizing.storage.run_events import MeasuredList
from sizing.strict_model import MeasuredModel

Deletion = Literal["in-save", "beside-save"]
"""When a checkpoint that is no longer retained is deleted. `in-save`: the save ends once it is gone. `beside-save`: it
goes while the next one is written, and no save waits for it."""

_Name = Annotated[str, Field(max_length=64)]
_Seconds = Annotated[float, Field(ge=0)]
_Rate = Annotated[float, Field(ge=0)]


class BackgroundLosses(MeasuredModel):
    """What ran beside the saves: alone, then with each save; and each save without it.

    Lists have one entry per repetition. In each the save alone comes first, then what ran beside it alone, then both.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    name: _Name = Field(description="What ran beside the saves: batches or compute.")
    unit: _Name = Field(description="What its rates count, per second: bytes or steps.")
    alone_rates: MeasuredList[_Rate] = Field(
        min_length=1, description="Rate of each repetition over all ranks while nothing was saved, in units per second."
    )
    rates: MeasuredList[_Rate] = Field(
        min_length=1,
        description="Rate of each repetition over all ranks while training went on beside a save, in units per second.",
    )
    loss_fraction: float = Field(
        le=1, description="Fraction of its rate that it lost to the saves: the median over the repetitions."
    )
    save_alone_seconds: MeasuredList[_Seconds] = Field(
        min_length=1, description="Seconds of each repetition's save with nothing beside it, slowest rank."
    )
    save_loss_fraction: float = Field(
        le=1, description="Fraction of its rate that the save lost to what ran beside it: the median."
    )


class Resharding(MeasuredModel):
    """A checkpoint that another number of ranks restored than had saved it, beside a restore by those that had."""

    model_config = ConfigDict(allow_inf_nan=False)

    num_saving_ranks: int = Field(ge=1, description="Ranks that saved the checkpoint.")
    num_restoring_ranks: int = Field(ge=1, description="Ranks that restored it, each its part of every tensor.")
    read_ratio: float = Field(
        gt=0,
        description="Bytes that all ranks read in a restore over the bytes of the checkpoint: above 1 where a rank had "
        "to read more than it holds.",
    )
    as_saved_seconds: MeasuredList[_Seconds] = Field(
        min_length=1,
        description="Seconds of each repetition's restore of the same files by the ranks that saved, slowest rank.",
    )
    loss_fraction: float = Field(
        le=1, description="Fraction of the rate of that restore which resharding lost: the median over the repetitions."
    )


class SpreadTarget(MeasuredModel):
    """What went to one of several targets, or came from it: mount points, each with the ranks spread to it."""

    model_config = ConfigDict(allow_inf_nan=False)

    path: Annotated[str, Field(max_length=4096)] = Field(
        description="Absolute path or URL of one of the targets over which the ranks were spread."
    )
    num_ranks: int = Field(ge=1, description="Ranks that wrote to this target, or restored from it.")
    total_bytes: int = Field(ge=0, description="Bytes of these ranks in one repetition.")
    seconds: MeasuredList[_Seconds] = Field(
        min_length=1, description="Seconds of each repetition until the slowest of these ranks was done."
    )
    bytes_per_second: float = Field(
        ge=0, description="Rate of this target in bytes per second: total_bytes over the median of seconds."
    )


class WorkloadShape(MeasuredModel):
    """What differs from the plain workload; null where nothing does."""

    model_config = ConfigDict(allow_inf_nan=False)

    restore: _Name | None = Field(
        None,
        description="Way to read what replicas share, by the names of checkpoint.restore. "
        "Null when each rank reads one shard for itself.",
    )
    num_replicas: int | None = Field(
        None, ge=2, description="Replicas that restored what one of them wrote. Null when there was one."
    )
    num_reading_ranks: int | None = Field(
        None, ge=1, description="Ranks that read from storage in a restore. Null when all did."
    )
    exchanged_bytes: int | None = Field(
        None, ge=0, description="Bytes that all ranks received from others in one restore. Null when none did."
    )
    exchange_seconds: _Seconds | None = Field(
        None, description="Median seconds of passing on what was read, slowest rank. Null when nothing was."
    )
    resharding: Resharding | None = Field(
        None, description="Who saved and who restored, and what that cost. Null when the same ranks did both."
    )
    targets: MeasuredList[SpreadTarget] | None = Field(
        None, description="What each of several targets gave. Null when all ranks used one."
    )
    targets_bytes_per_second: _Rate | None = Field(
        None,
        description="Sum of the rates of all targets in bytes per second: what they give while all are busy. "
        "Null when all ranks used one.",
    )
    slow_targets: MeasuredList[Annotated[str, Field(max_length=4096)]] | None = Field(
        None,
        description="Targets whose ranks took over 1.25 times as long as those of the fastest. "
        "Null when all ranks used one.",
    )
    retained_checkpoints: int | None = Field(
        None, ge=1, description="Checkpoints that stayed while the next was written. Null when none did."
    )
    deletion: Deletion | None = Field(
        None,
        description="When the oldest one was removed: within the save, or beside the next. Null when none stayed.",
    )
    deletion_seconds: _Seconds | None = Field(
        None, description="Median seconds of removing one checkpoint, slowest rank. Null when none was."
    )
    beside: BackgroundLosses | None = Field(
        None, description="What ran beside the saves, and what each lost. Null for none."
    )

    @property
    def title(self) -> str:
        """What makes two measurements of the same shape, in words.

        >>> WorkloadShape(restore="every-replica", num_replicas=4).title
        'restore every-replica by 4 replicas'
        """
        parts = []
        if self.restore is not None:
            parts.append(f"restore {self.restore} by {self.num_replicas} replicas")
        if self.resharding is not None:
            saving, restoring = self.resharding.num_saving_ranks, self.resharding.num_restoring_ranks
            parts.append(f"saved by {saving} ranks, restored by {restoring}")
        if self.targets is not None:
            parts.append(f"over {len(self.targets)} targets")
        if self.retained_checkpoints is not None:
            parts.append(f"{self.retained_checkpoints} retained, deletion {self.deletion}")
        if self.beside is not None:
            parts.append(f"beside {self.beside.name}")
        return ", ".join(parts)
