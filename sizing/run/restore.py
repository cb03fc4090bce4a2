"""How long a restart reads: which part how many times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from sizing.run.demands import Demands
from sizing.run.failures import Reliability, seconds_before_reading
from sizing.run.figures import Figures
from sizing.run.write import Write
from sizing.storage.limits import Limit, Resource, transfer
from sizing.storage.profile import StorageProfile
from sizing.units import rate_text


class RestoredPart(BaseModel):
    """One part of the state: how many replicas read it from storage, and the bytes that makes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_readings: float = Field(description="read_bytes over the part's bytes in the files")
    read_bytes: int


class Restore(Figures):
    """The `restore` block of the report; what is None needs a read rate of the storage.

    `bytes_per_second_for_write_time` is the rate at which a restore takes as long as the write did.
    """

    read_bytes: int
    parts: dict[str, RestoredPart]
    seconds: float | None
    time_to_first_step_seconds: float | None = Field(description="detection and relaunch, then the restore")
    bytes_per_second: float | None
    bytes_per_second_for_write_time: float | None
    bottleneck: Resource | None
    limits: list[Limit] = Field(default_factory=list)


def restore_of(
    profile: StorageProfile | None, *, demands: Demands, write: Write | None, reliability: Reliability | None
) -> Restore:
    """What all ranks read when the run restarts, and how long that takes.

    Each part is read as its format says: by every replica again, by every rank its share, or by few ranks that deal
    it out. In the classic layout B_read = B_written x replicas.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs"; the formats' own in `layout/formats.py`.
    """
    total = demands.read_bytes
    moved = transfer(profile, demands.restore, direction="read") if profile else None
    return Restore.of(
        read_bytes=total,
        parts={
            name: RestoredPart(num_readings=reading.num_readings, read_bytes=reading.read_bytes)
            for name, reading in demands.readings.items()
        },
        seconds=moved.seconds if moved else None,
        time_to_first_step_seconds=moved.seconds + seconds_before_reading(reliability) if moved else None,
        bytes_per_second=total / moved.seconds if moved else None,
        bytes_per_second_for_write_time=total / write.seconds if write else None,
        bottleneck=moved.bottleneck if moved else None,
        limits=list(moved.limits) if moved and np.ndim(moved.seconds) == 0 else [],
    )


def restore_warnings(restore: Restore, profile: StorageProfile | None) -> Iterator[str]:
    """What a reader must know beside the time to restore."""
    if profile is not None and restore.seconds is None:
        wanted = restore.bytes_per_second_for_write_time
        hint = f"; as fast as the write would be {rate_text(wanted)}" if wanted else ""
        yield f"no read rate of the storage is known, so the restore has no time{hint}"
