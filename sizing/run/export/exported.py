"""The `export` block of the report: bytes and time of what is written beside the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from sizing.run.demands.demands import Demands
from sizing.run.demands.universal import NUM_EXTRACTING, NUM_MERGING, Universal
from sizing.run.export.settings import Export
from sizing.run.figures import Figures
from sizing.storage.limits import Demand, Direction, transfer
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers


class Exported(Figures):
    """The `export` block of the report: what `checkpoint.export` writes."""

    num_bytes: int = Field(
        description="Bytes of one export: all weights once, in checkpoint.export.dtype; of a universal checkpoint fp32 "
        "weights and moments once, and copies of files with weights."
    )
    num_files: int = Field(
        description="How many files one export writes: consolidated ones, or one for each state of a parameter."
    )
    working_bytes: int = Field(
        0, description="Bytes of files that are removed when the export is done; 0 of safetensors."
    )
    num_writers: int = Field(description="Ranks or processes that write at once.")
    is_writer_rate_known: bool = Field(
        description="Whether the storage's profile has a write rate of one writer. Without it so few writers are taken "
        "to be as fast as the whole storage, or as their nodes."
    )
    gather_seconds: float = Field(
        description="Seconds in which the writer's node receives the weights of the others over the compute network; "
        "0 where nothing is gathered."
    )
    read_seconds: float | None = Field(
        description="Seconds of reading back what is consolidated; 0 where nothing is read. Null without a read rate "
        "where something is."
    )
    write_seconds: float | None = Field(description="Seconds of writing. Null without a write rate.")
    seconds: float | None = Field(description="Seconds from start to end. Null where a rate is missing.")
    stall_seconds: float | None = Field(
        description="Seconds for which training waits in a save that is exported; 0 with afterwards. "
        "Null where a rate is missing."
    )
    mean_stall_seconds: float | None = Field(
        description="The same in seconds as the mean over all saves. Null where a rate is missing."
    )
    overhead_fraction: float | None = Field(
        description="Fraction of the time for which exports stall training. Null where a rate is missing."
    )


@dataclass(frozen=True, slots=True)
class ExportTimes:
    """Seconds of the steps of one export; None where a rate is missing."""

    gather_seconds: Numbers
    read_seconds: Numbers | None
    write_seconds: Numbers | None
    waits: bool

    @property
    def seconds(self) -> Numbers | None:
        """All of it, one step after the other."""
        if self.read_seconds is None or self.write_seconds is None:
            return None
        return self.gather_seconds + self.read_seconds + self.write_seconds

    @property
    def stall_seconds(self) -> Numbers | None:
        """What training waits for."""
        return self.seconds if self.waits else 0.0


def export_times(export: Export | None, profile: StorageProfile | None, demands: Demands) -> ExportTimes | None:
    """The steps of an export, None where there is none.

    rank-0: the node of rank 0 receives the weights of all others, B (1 - 1/nodes) at its network rate, then one stream
    writes B. every-rank: all ranks write B in shards, then as many as there are files read B and write it again.
    afterwards: one process for each file reads the weights and writes them, all on one node.
    Source: transformers, save_pretrained of a full state dict; PyTorch, torch.distributed.checkpoint.hf_storage and
    `consolidate_safetensors_files_on_every_rank`; NVIDIA-NeMo/Automodel pull request 2289. Nothing overlaps.
    """
    if export is None:
        return None
    steps = export_steps(export, demands)
    return ExportTimes(
        _gather_seconds(demands) if export.written_by == "rank-0" else 0.0,
        _seconds(profile, steps["read"], "read"),
        _seconds(profile, steps["write"], "write"),
        waits=export.written_by != "afterwards",
    )


def export_steps(export: Export, demands: Demands) -> dict[Direction, Sequence[Demand]]:
    """What one export asks of the storage, one step after the other; `export_times` says who moves what."""
    if demands.universal is not None:
        return _conversion_steps(demands.universal, demands)
    match export.written_by:
        case "rank-0":
            return {"write": [_step(export, demands, num_streams=1)], "read": []}
        case "every-rank":
            merging = _step(export, demands, num_streams=_num_mergers(export, demands))
            shards = _step(export, demands, num_streams=demands.num_gpus)
            return {"write": [shards, merging], "read": [merging]}
        case "afterwards":
            moving = _step(export, demands, num_streams=num_files(export, demands), on_one_node=True)
            return {"write": [moving], "read": [moving]}


def num_files(export: Export, demands: Demands) -> Numbers:
    """Files of one export: B / shard, rounded up.

    Source: transformers, save_pretrained, max_shard_size.

    >>> from types import SimpleNamespace
    >>> float(num_files(Export(every=1), SimpleNamespace(exported_bytes=160_060_522_496, universal=None)))
    4.0
    """
    if demands.universal is not None:
        return demands.universal.num_files
    whole: Numbers = np.ceil(np.divide(demands.exported_bytes, export.shard_bytes))
    return np.maximum(1.0, whole)


def exported(
    export: Export | None,
    times: ExportTimes | None,
    profile: StorageProfile | None,
    *,
    demands: Demands,
    interval_seconds: Numbers,
) -> Exported | None:
    """The block, None where nothing is exported."""
    if export is None or times is None:
        return None
    mean = mean_stall_seconds(export, times)
    return Exported.of(
        num_bytes=demands.exported_bytes,
        num_files=num_files(export, demands),
        working_bytes=0 if demands.universal is None else demands.universal.state_bytes,
        num_writers=_num_writers(export, demands),
        is_writer_rate_known=profile is not None and profile.rates("write").stream_bytes_per_second is not None,
        gather_seconds=times.gather_seconds,
        read_seconds=times.read_seconds,
        write_seconds=times.write_seconds,
        seconds=times.seconds,
        stall_seconds=times.stall_seconds,
        mean_stall_seconds=mean,
        overhead_fraction=None if mean is None else np.divide(mean, interval_seconds),
    )


def mean_stall_seconds(export: Export | None, times: ExportTimes | None) -> Numbers | None:
    """What an export stalls as the mean over all saves; 0 without exports, None where a rate is missing.

    Source: definition.

    >>> mean_stall_seconds(Export(every=4), ExportTimes(2.0, 0.0, 6.0, waits=True))
    2.0
    """
    if export is None or times is None:
        return 0.0
    stall = times.stall_seconds
    return None if stall is None else stall / export.every


def export_warnings(block: Exported | None) -> Iterator[str]:
    """That the time of exports is not known."""
    if block is not None and block.stall_seconds is None:
        yield "No rate for checkpoint.export: its time is not part of the goodput. Give write and read rates"


def _num_writers(export: Export, demands: Demands) -> Numbers:
    if demands.universal is not None:
        return NUM_MERGING
    match export.written_by:
        case "rank-0":
            return 1
        case "every-rank":
            return _num_mergers(export, demands)
        case "afterwards":
            return num_files(export, demands)


def _conversion_steps(made: Universal, demands: Demands) -> dict[Direction, Sequence[Demand]]:
    """The state is read and written in pieces of each parameter, then these are read and joined; on one node."""
    network = demands.write.node_network_bytes_per_second

    def step(num_bytes: Numbers, num_streams: int, num_files: Numbers) -> Demand:
        return Demand(num_bytes, num_streams, 1.0, num_files, node_network_bytes_per_second=network)

    pieces = step(made.state_bytes, NUM_EXTRACTING, made.num_working_files)
    joined = step(made.num_bytes, NUM_MERGING, made.num_files)
    reads = [
        step(made.state_bytes + made.copied_bytes, NUM_EXTRACTING, demands.write.num_files),
        step(made.state_bytes, NUM_MERGING, made.num_working_files),
    ]
    return {"write": [pieces, joined], "read": reads}


def _num_mergers(export: Export, demands: Demands) -> Numbers:
    return np.minimum(demands.num_gpus, num_files(export, demands))


def _step(export: Export, demands: Demands, *, num_streams: Numbers, on_one_node: bool = False) -> Demand:
    return Demand(
        demands.exported_bytes,
        num_streams,
        1.0 if on_one_node else np.minimum(num_streams, demands.num_nodes),
        np.maximum(num_streams, num_files(export, demands)),
        node_network_bytes_per_second=demands.write.node_network_bytes_per_second,
    )


def _gather_seconds(demands: Demands) -> Numbers:
    rate = demands.network_bytes_per_second
    if rate is None:
        return 0.0
    from_others: Numbers = np.subtract(1.0, np.divide(1.0, demands.num_nodes))
    return np.divide(demands.exported_bytes * from_others, rate)


def _seconds(profile: StorageProfile | None, steps: Sequence[Demand], direction: Direction) -> Numbers | None:
    if not steps:
        return 0.0
    moved = transfer(profile, steps, direction=direction) if profile else None
    return None if moved is None else moved.seconds
