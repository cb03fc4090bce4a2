"""How long a restart reads: which part how many times."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import LaidOut, Parallelism
from sizing.run.demands import readings, restore_demands
from sizing.run.write import Write
from sizing.storage.limits import Limit, Resource, transfer
from sizing.storage.storage import ResolvedStorage
from sizing.units import rate_text


class RestoredPart(BaseModel):
    """One part of the state: how many replicas read it from storage, and the bytes that makes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_readings: float = Field(description="read_bytes over the part's bytes in the files")
    read_bytes: int


class Restore(BaseModel):
    """The `restore` block of the report; what is None needs a read rate of the storage.

    `bytes_per_second_for_write_time` is the rate at which a restore takes as long as the write did.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    read_bytes: int
    parts: dict[str, RestoredPart]
    seconds: float | None
    bytes_per_second: float | None
    bytes_per_second_for_write_time: float | None
    bottleneck: Resource | None
    limits: list[Limit] = Field(default_factory=list)


def restore_of(
    storage: ResolvedStorage | None, *, laid_out: LaidOut, parallelism: Parallelism, write: Write | None
) -> Restore:
    """What all ranks read when the run restarts, and how long that takes.

    Each part is read as its format says: by every replica again, by every rank its share, or by few ranks that deal
    it out. In the classic layout B_read = B_written x replicas.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs"; the formats' own in `layout/formats.py`.
    """
    read = readings(laid_out, parallelism)
    total = sum(reading.read_bytes for reading in read.values())
    demands = restore_demands(laid_out, parallelism)
    result = transfer(storage.profile, demands, direction="read") if storage else None
    seconds = float(result.seconds) if result else None
    return Restore(
        read_bytes=total,
        parts={
            name: RestoredPart(num_readings=reading.num_readings, read_bytes=reading.read_bytes)
            for name, reading in read.items()
        },
        seconds=seconds,
        bytes_per_second=total / seconds if seconds else None,
        bytes_per_second_for_write_time=total / write.seconds if write else None,
        bottleneck=result.bottleneck if result else None,
        limits=list(result.limits) if result else [],
    )


def restore_warnings(restore: Restore, storage: ResolvedStorage | None) -> Iterator[str]:
    """What a reader must know beside the time to restore."""
    if storage is not None and restore.seconds is None:
        wanted = restore.bytes_per_second_for_write_time
        hint = f"; as fast as the write would be {rate_text(wanted)}" if wanted else ""
        yield f"no read rate of the storage is known, so the restore has no time{hint}"
