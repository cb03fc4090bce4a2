"""How long a restart reads: which part how many times."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import Checkpoint, CheckpointSize, Layout
from sizing.run.write import Write
from sizing.storage.limits import Demand, Limit, Resource, transfer
from sizing.storage.profile import Storage
from sizing.units import rate_text


class RestoredPart(BaseModel):
    """One part of the state: how many replicas read it from storage, and the bytes that makes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_readings: int
    read_bytes: int


class Restore(BaseModel):
    """The `restore` block of the report; what is None needs a read rate of the storage.

    `bytes_per_second_for_write_time` is the rate at which a restore takes as long as the write did.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    restore: str
    read_bytes: int
    parts: dict[str, RestoredPart]
    seconds: float | None
    bytes_per_second: float | None
    bytes_per_second_for_write_time: float | None
    bottleneck: Resource | None
    limits: list[Limit] = Field(default_factory=list)


def restore_of(
    storage: Storage | None,
    *,
    size: CheckpointSize,
    layout: Layout,
    checkpoint: Checkpoint,
    write: Write | None,
) -> Restore:
    """What all ranks read when the run restarts, and how long that takes.

    In the classic layout every replica reads every file again: B_read = B_written x replicas.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs"; Megatron-LM, load_checkpoint.
    """
    read_bytes = size.written_bytes * layout.num_replicas
    demand = Demand(read_bytes, layout.num_gpus, layout.num_nodes, size.num_files * layout.num_replicas)
    result = transfer(storage.profile, demand, direction="read") if storage else None
    return Restore(
        restore=checkpoint.restore,
        read_bytes=read_bytes,
        parts=_parts(size, layout.num_replicas),
        seconds=result.seconds if result else None,
        bytes_per_second=read_bytes / result.seconds if result else None,
        bytes_per_second_for_write_time=read_bytes / write.seconds if write else None,
        bottleneck=result.bottleneck if result else None,
        limits=list(result.limits) if result else [],
    )


def restore_warnings(restore: Restore, storage: Storage | None) -> Iterator[str]:
    """What a reader must know beside the time to restore."""
    if storage is not None and restore.seconds is None:
        wanted = restore.bytes_per_second_for_write_time
        hint = f"; as fast as the write would be {rate_text(wanted)}" if wanted else ""
        yield f"no read rate of the storage is known, so the restore has no time{hint}"


def _parts(size: CheckpointSize, num_readings: int) -> dict[str, RestoredPart]:
    scale = size.written_bytes / size.total_bytes
    return {
        name: RestoredPart(
            num_readings=num_readings,
            read_bytes=round((part.logical_bytes + part.replicated_bytes) * num_readings * scale),
        )
        for name, part in size.parts.items()
    }
