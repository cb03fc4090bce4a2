"""What a save and a restore ask of the storage: which ranks move which bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sizing.cluster import ResolvedNode
from sizing.cluster.node import PCIE_BYTES_PER_SECOND
from sizing.layout import CheckpointSize, LaidOut, Parallelism
from sizing.layout.formats import FORMATS, Readers
from sizing.layout.writers import WEIGHTS
from sizing.state.saved_state import ZERO_STAGE_WITHOUT_WEIGHTS, PartName
from sizing.storage.limits import Demand


class Reading(NamedTuple):
    """Bytes of a part that all ranks together read, and that over the part's bytes in the files."""

    read_bytes: int
    num_readings: float


@dataclass(frozen=True, slots=True)
class Demands:
    """What one layout asks of any storage. A sweep over storage, failures and targets derives it once.

    `restore` has one demand for each group of ranks that reads, one after the other: first the weights, then, where
    others read it, the rest. `readings` is what is read of each part. `gpu_link_bytes_per_second` is the line rate from
    one GPU to its host, if published.
    """

    write: Demand
    restore: tuple[Demand, ...]
    readings: dict[PartName, Reading]
    written_bytes: int
    weights_bytes: int
    num_gpus: int
    num_nodes: int
    num_writing_nodes: int
    largest_over_mean: float
    gpu_link_bytes_per_second: float | None

    @property
    def read_bytes(self) -> int:
        """Of one restore, over all ranks."""
        return sum(reading.read_bytes for reading in self.readings.values())


def demands_of(laid_out: LaidOut, parallelism: Parallelism, *, node: ResolvedNode) -> Demands:
    """What saving and restoring the layout on those nodes asks of the storage."""
    layout = laid_out.layout
    read = _readings_by_part(laid_out, parallelism)
    return Demands(
        write=_write_demand(laid_out),
        restore=_restore_demands(laid_out, read),
        readings=read,
        written_bytes=laid_out.size.written_bytes,
        weights_bytes=_weights_bytes(laid_out.size),
        num_gpus=layout.num_gpus,
        num_nodes=layout.num_nodes,
        num_writing_nodes=layout.num_writing_nodes,
        largest_over_mean=layout.largest_over_mean,
        gpu_link_bytes_per_second=PCIE_BYTES_PER_SECOND.get(node.spec.pcie_generation or 0),
    )


def _weights_bytes(size: CheckpointSize) -> int:
    """What the weights of a checkpoint take alone; the master copy where it holds no others."""
    kept: tuple[PartName, ...] = ("weights", "master")
    part_bytes = next((size.parts[name].total_bytes for name in kept if name in size.parts), 0)
    return part_bytes * size.written_bytes // size.total_bytes


def _write_demand(laid_out: LaidOut) -> Demand:
    """Every writer writes its files at once; where there is a `.metadata`, all ranks plan for it."""
    size, layout = laid_out.size, laid_out.layout
    metadata_bytes = size.small_state_bytes.get(".metadata", 0)
    return Demand(
        size.written_bytes,
        layout.num_writers,
        layout.num_writers / layout.max_writers_per_node,
        size.num_files,
        num_planned_ranks=layout.num_gpus if metadata_bytes else 0,
        metadata_bytes=metadata_bytes,
    )


def _restore_demands(laid_out: LaidOut, read: dict[PartName, Reading]) -> tuple[Demand, ...]:
    size = laid_out.size
    by_readers: dict[Readers, int] = {}
    for name, reading in read.items():
        readers = _who_reads(_readers(laid_out, name))
        by_readers[readers] = by_readers.get(readers, 0) + reading.read_bytes
    return tuple(
        Demand(
            num_bytes,
            *_streams_and_nodes(laid_out, readers),
            round(size.num_files * num_bytes / size.written_bytes),
        )
        for readers, num_bytes in by_readers.items()
    )


def _readings_by_part(laid_out: LaidOut, parallelism: Parallelism) -> dict[PartName, Reading]:
    """What is read of each part, in the proportion of an observed size if there is one."""
    size, read = laid_out.size, {}
    for name, part in size.parts.items():
        dense, expert = _readings(laid_out, parallelism, _readers(laid_out, name))
        computed = dense * laid_out.dense_bytes[name] + expert * laid_out.expert_bytes[name]
        scaled = computed * size.written_bytes // size.total_bytes
        read[name] = Reading(scaled, computed / part.total_bytes if part.total_bytes else 0.0)
    return read


def _readers(laid_out: LaidOut, name: PartName) -> Readers:
    row, zero_stage = FORMATS[laid_out.size.format], laid_out.zero_stage
    if laid_out.size.format == "deepspeed" and zero_stage in (0, ZERO_STAGE_WITHOUT_WEIGHTS):
        return "every-replica" if zero_stage == 0 else "each-shard-once"
    return row.weights_read if name in WEIGHTS else row.optimizer_read


def _readings(laid_out: LaidOut, parallelism: Parallelism, readers: Readers) -> tuple[int, int]:
    """How many ranks read each byte of the dense tensors' and of the routed experts' files."""
    if readers == "every-shard-copy":
        copies = parallelism.num_replicas // parallelism.shard_ranks
        return copies, copies
    if readers != "every-replica":
        return 1, 1
    experts = parallelism.num_expert_replicas
    return experts if FORMATS[laid_out.size.format].expert_rank_files else parallelism.num_replicas, experts


def _who_reads(readers: Readers) -> Readers:
    """Readings in which all ranks take part happen at once."""
    return readers if readers in ("writers", "rank-0") else "every-replica"


def _streams_and_nodes(laid_out: LaidOut, readers: Readers) -> tuple[int, float]:
    layout = laid_out.layout
    if readers == "rank-0":
        return 1, 1.0
    if readers == "writers":
        return layout.num_writers, layout.num_writers / layout.max_writers_per_node
    return layout.num_gpus, layout.num_gpus / min(layout.num_gpus, layout.gpus_per_node)
