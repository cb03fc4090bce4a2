"""How long a restart reads: which part how many times."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict, Field

from sizing.layout import Checkpoint, LaidOut, Parallelism
from sizing.layout.formats import FORMATS, Readers
from sizing.layout.writers import WEIGHTS
from sizing.run.write import Write
from sizing.storage.limits import Demand, Limit, Resource, transfer
from sizing.storage.profile import Storage
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
    laid_out: LaidOut,
    parallelism: Parallelism,
    checkpoint: Checkpoint,
    write: Write | None,
) -> Restore:
    """What all ranks read when the run restarts, and how long that takes.

    Each part is read as its format says: by every replica again, or once. In the classic layout
    B_read = B_written x replicas.
    Source: VAST Data 2024, "A Checkpoint on Checkpoints in LLMs"; the formats' own in `layout/formats.py`.
    """
    size, layout = laid_out.size, laid_out.layout
    parts = _parts(laid_out, parallelism)
    read_bytes = sum(part.read_bytes for part in parts.values())
    num_openings = round(size.num_files * read_bytes / size.written_bytes)
    demand = Demand(read_bytes, layout.num_gpus, layout.num_nodes, num_openings)
    result = transfer(storage.profile, demand, direction="read") if storage else None
    return Restore(
        restore=checkpoint.restore,
        read_bytes=read_bytes,
        parts=parts,
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


def _parts(laid_out: LaidOut, parallelism: Parallelism) -> dict[str, RestoredPart]:
    size, row = laid_out.size, FORMATS[laid_out.size.format]
    restored: dict[str, RestoredPart] = {}
    for name, part in size.parts.items():
        readers = row.weights_read if name in WEIGHTS else row.optimizer_read
        dense, expert = _readings(readers, laid_out, parallelism)
        read = dense * laid_out.dense_bytes[name] + expert * laid_out.expert_bytes[name]
        scaled = read * size.written_bytes // size.total_bytes
        restored[name] = RestoredPart(num_readings=read / max(1, part.total_bytes), read_bytes=scaled)
    return restored


def _readings(readers: Readers, laid_out: LaidOut, parallelism: Parallelism) -> tuple[int, int]:
    """How many ranks read each byte of the dense tensors' and of the routed experts' files."""
    name, stage = laid_out.size.format, laid_out.zero_stage
    if name == "deepspeed" and stage in (0, 3):
        readers = "every-replica" if stage == 0 else "once"
    if readers == "once":
        return 1, 1
    if readers == "every-shard-copy":
        copies = parallelism.num_replicas // parallelism.shard_ranks
        return copies, copies
    if FORMATS[name].expert_rank_files:
        return parallelism.num_expert_replicas, parallelism.num_expert_replicas
    return parallelism.num_replicas, parallelism.num_expert_replicas
