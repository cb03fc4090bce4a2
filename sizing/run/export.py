"""Files beside the checkpoint that other programs load: the `checkpoint.export` block, and what its files take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sizing.errors import broken_rule
from sizing.run.figures import Figures
from sizing.run.universal_checkpoint import NUM_EXTRACTING, NUM_MERGING, Universal
from sizing.run.workload import CheckpointWorkload
from sizing.spelling import AnySpelling, known_spelling
from sizing.state.optimizers import Dtype
from sizing.state.scaled_dtypes import ScaledDtype
from sizing.storage.limits import Demand, Direction, steps_seconds
from sizing.storage.profile import StorageProfile
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel
from sizing.units import ByteCount

ExportWriter = Literal["rank-0", "every-rank", "afterwards"]
ExportFormat = Literal["safetensors", "deepspeed-universal"]
ExportContent = Literal["full", "adapters"]
UNIVERSAL: ExportFormat = "deepspeed-universal"

_SHARD_BYTES = 50_000_000_000
"""Source: as it says itself."""
_SHARD_SOURCE = "max_shard_size of transformers 5.23, save_pretrained"


class Export(InputModel):
    """Files of whole tensors beside the checkpoint: weights in safetensors, or a universal checkpoint of DeepSpeed."""

    every: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        description="Of so many saves to the main storage one is exported too."
    )
    format: AnySpelling[ExportFormat] = Field(
        "safetensors",
        description="What is written. With safetensors consolidated weights in Hugging Face format; with "
        "deepspeed-universal what ds_to_universal makes of a DeepSpeed checkpoint, afterwards: weights, fp32 copy and "
        "moments of each parameter in a folder of its own, which any layout loads.",
    )
    content: AnySpelling[ExportContent] = Field(
        "full",
        description="Weights that are exported. With full all of them, into which adapters are merged; with adapters "
        "(training.adapters) these alone, and modules that are trained whole beside them.",
    )
    dtype: Dtype | ScaledDtype = Field(
        "bf16", description="Dtype of the exported weights. fp8-block and the MX formats count their scales."
    )
    written_by: AnySpelling[ExportWriter] = Field(
        "rank-0",
        description="Who writes. With rank-0 one rank gathers and writes all weights while training waits; with "
        "every-rank all ranks write their shards, then read and write whole tensors, while training waits; with "
        "afterwards another job reads the checkpoint's weights and writes them.",
    )
    shard_bytes: ByteCount = Field(
        _SHARD_BYTES,
        json_schema_extra={"source": _SHARD_SOURCE},
        description=f"Max bytes of one file. Default: 50 GB, {_SHARD_SOURCE}.",
    )
    keep: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1, description="Exports that are kept, the newest ones; one more is being written."
    )

    @property
    def waits(self) -> bool:
        """Whether training waits for an export."""
        return self.written_by != "afterwards"

    @model_validator(mode="before")
    @classmethod
    def _another_job_converts(cls, given: object) -> object:
        if not isinstance(given, Mapping) or not known_spelling(str(given.get("format")), (UNIVERSAL,)):
            return given
        return {"written_by": "afterwards"} | dict(given)

    @model_validator(mode="after")
    def _a_universal_checkpoint_is_as_deepspeed_writes_it(self) -> Self:
        if self.format != UNIVERSAL:
            return self
        for name in ("content", "dtype", "shard_bytes"):
            if name in self.model_fields_set:
                raise broken_rule(f"has format {UNIVERSAL} and {name}, which is of safetensors", f"remove {name}")
        if self.written_by != "afterwards":
            raise broken_rule(
                f"has format {UNIVERSAL} and written_by {self.written_by}: another job makes it", "remove written_by"
            )
        return self


class Exported(Figures):
    """The `export` block of the report: what `checkpoint.export` writes."""

    num_bytes: int = Field(
        description="Bytes of one export: its weights once, in checkpoint.export.dtype; of a universal checkpoint fp32 "
        "weights and moments once, and copies of files with weights."
    )
    num_files: int = Field(
        description="How many files one export writes: consolidated ones, or one for each state of a parameter."
    )
    every: int = Field(1, description="Of so many saves to the main storage one is exported.")
    written_bytes: int = Field(
        0,
        description="Bytes that one export writes in all its steps: more than num_bytes where shards or pieces are "
        "written first.",
    )
    written_files: int = Field(0, description="How many files one export writes in all its steps.")
    read_bytes: int = Field(0, description="Bytes that one export reads back; 0 where rank 0 gathers the weights.")
    read_files: int = Field(0, description="How many files one export reads, one for each that it makes of them.")
    working_bytes: int = Field(
        0,
        description="Bytes of files that are there beside while an export is written: pieces of a universal "
        "checkpoint, shards of every-rank; 0 of others. They are taken to be removed when it is done.",
    )
    num_writers: int = Field(description="Ranks or processes that write at once.")
    is_writer_rate_known: bool = Field(
        description="Whether the storage's profile has a write rate of one writer. Without it rank 0 alone is taken to "
        "write as one process does, and several writers as fast as the whole storage, or as their nodes."
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
        """Time of the whole export, one step after the other."""
        if self.read_seconds is None or self.write_seconds is None:
            return None
        return self.gather_seconds + self.read_seconds + self.write_seconds

    @property
    def stall_seconds(self) -> Numbers | None:
        """Time for which training waits."""
        return self.seconds if self.waits else 0.0


def export_times(
    export: Export | None, profile: StorageProfile | None, workload: CheckpointWorkload
) -> ExportTimes | None:
    """The steps of an export, None where there is none.

    rank-0: the node of rank 0 receives the weights of all others, B (1 - 1/nodes) at its network rate, then one stream
    writes B, at most as fast as one process does. every-rank: all ranks write B in shards, then as many as there are
    files read B and write it again. afterwards: one process for each file reads the weights and writes them, all on
    one node.
    Source: transformers, save_pretrained of a full state dict; PyTorch, torch.distributed.checkpoint.hf_storage and
    `consolidate_safetensors_files_on_every_rank`; NVIDIA-NeMo/Automodel pull request 2289. Nothing overlaps.
    """
    if export is None:
        return None
    gather: Numbers = 0.0
    if export.written_by == "rank-0" and workload.network_bytes_per_second is not None:
        from_others: Numbers = np.subtract(1.0, np.divide(1.0, workload.num_nodes))
        gather = np.divide(workload.exported_bytes * from_others, workload.network_bytes_per_second)
    steps = export_steps(export, workload)
    return ExportTimes(
        gather,
        steps_seconds(profile, steps["read"], direction="read"),
        steps_seconds(profile, steps["write"], direction="write"),
        waits=export.waits,
    )


def export_steps(export: Export, workload: CheckpointWorkload) -> dict[Direction, Sequence[Demand]]:
    """What one export asks of the storage, one step after the other; `export_times` says who moves what."""
    if workload.universal is not None:
        return _conversion_steps(workload.universal, workload)
    match export.written_by:
        case "rank-0":
            step = _step(export, workload, num_streams=1)
            return {"write": [replace(step, process_bytes_per_second=workload.process_bytes_per_second)], "read": []}
        case "every-rank":
            merging = _step(export, workload, num_streams=_num_mergers(export, workload), of_files=True)
            shards = _step(export, workload, num_streams=workload.num_gpus)
            return {"write": [shards, merging], "read": [merging]}
        case "afterwards":
            moving = _step(export, workload, num_streams=num_files(export, workload), on_one_node=True, of_files=True)
            return {"write": [moving], "read": [moving]}


def stalling_writes(export: Export | None, workload: CheckpointWorkload) -> Sequence[Demand]:
    """The steps of an export that write while training waits; none where there is no export or nothing waits for it."""
    if export is None or not export.waits:
        return ()
    return export_steps(export, workload)["write"]


def num_files(export: Export, workload: CheckpointWorkload) -> Numbers:
    """Files of one export: B / shard, rounded up.

    Source: transformers, save_pretrained, max_shard_size.

    >>> from types import SimpleNamespace
    >>> float(num_files(Export(every=1), SimpleNamespace(exported_bytes=160_060_522_496, universal=None)))
    4.0
    """
    if workload.universal is not None:
        return workload.universal.num_files
    whole: Numbers = np.ceil(np.divide(workload.exported_bytes, export.shard_bytes))
    return np.maximum(1.0, whole)


def export_of(
    export: Export | None,
    times: ExportTimes | None,
    profile: StorageProfile | None,
    *,
    workload: CheckpointWorkload,
    interval_seconds: Numbers,
) -> Exported | None:
    """The `export` block of the report; None where nothing is exported."""
    if export is None or times is None:
        return None
    mean, steps = mean_stall_seconds(export, times), export_steps(export, workload)
    return Exported.of(
        num_bytes=workload.exported_bytes,
        num_files=num_files(export, workload),
        every=export.every,
        written_bytes=sum(step.total_bytes for step in steps["write"]),
        written_files=sum(step.num_files for step in steps["write"]),
        read_bytes=sum(step.total_bytes for step in steps["read"]),
        read_files=sum(step.num_files for step in steps["read"]),
        working_bytes=working_bytes(export, workload),
        num_writers=_num_writers(export, workload),
        is_writer_rate_known=profile is not None and profile.rates("write").stream_bytes_per_second is not None,
        gather_seconds=times.gather_seconds,
        read_seconds=times.read_seconds,
        write_seconds=times.write_seconds,
        seconds=times.seconds,
        stall_seconds=times.stall_seconds,
        mean_stall_seconds=mean,
        overhead_fraction=None if mean is None else np.divide(mean, interval_seconds),
    )


def working_bytes(export: Export, workload: CheckpointWorkload) -> Numbers:
    """Bytes of files that one export reads and no checkpoint holds: its pieces, or the shards of all ranks.

    Source: DeepSpeed 0.19, checkpoint/ds_to_universal.py, whose pieces lie in a temporary folder that it removes;
    PyTorch, torch.distributed.checkpoint.hf_storage, whose shards lie in a folder `sharded` beside whole tensors.
    PyTorch 2.13 leaves them there: that trainers remove them is taken as given.

    >>> from sizing.report import answer
    >>> document = {"model": {"preset": "gpt2"}, "checkpoint": {"export": {"every": 1, "written_by": "every-rank"}}}
    >>> answer(document).export.working_bytes == answer(document).export.num_bytes
    True
    """
    if workload.universal is not None:
        return workload.universal.state_bytes
    return workload.exported_bytes if export.written_by == "every-rank" else 0


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
    """Warn where the time of exports is not known."""
    if block is not None and block.stall_seconds is None:
        yield "No rate for checkpoint.export: its time is not part of the goodput. Give write and read rates"


def _num_writers(export: Export, workload: CheckpointWorkload) -> Numbers:
    if workload.universal is not None:
        return NUM_MERGING
    match export.written_by:
        case "rank-0":
            return 1
        case "every-rank":
            return _num_mergers(export, workload)
        case "afterwards":
            return num_files(export, workload)


def _conversion_steps(universal: Universal, workload: CheckpointWorkload) -> dict[Direction, Sequence[Demand]]:
    """Steps that make a universal checkpoint on one node: they cut the state into pieces, and join these."""
    network = workload.write.node_network_bytes_per_second

    def step(num_bytes: Numbers, num_streams: int, num_files: Numbers) -> Demand:
        return Demand(
            num_bytes, num_streams, 1.0, num_files, node_network_bytes_per_second=network, linked_over_copied=0.0
        )

    pieces = step(universal.state_bytes, NUM_EXTRACTING, universal.num_working_files)
    joined = step(universal.num_bytes, NUM_MERGING, universal.num_files)
    reads = [
        step(universal.state_bytes + universal.copied_bytes, NUM_EXTRACTING, workload.write.num_files),
        step(universal.state_bytes, NUM_MERGING, universal.num_working_files),
    ]
    return {"write": [pieces, joined], "read": reads}


def _num_mergers(export: Export, workload: CheckpointWorkload) -> Numbers:
    return np.minimum(workload.num_gpus, num_files(export, workload))


def _step(
    export: Export,
    workload: CheckpointWorkload,
    *,
    num_streams: Numbers,
    on_one_node: bool = False,
    of_files: bool = False,
) -> Demand:
    """A step that moves all weights; what it reads of files passes no GPU's link to its host."""
    return Demand(
        workload.exported_bytes,
        num_streams,
        1.0 if on_one_node else np.minimum(num_streams, workload.num_nodes),
        np.maximum(num_streams, num_files(export, workload)),
        node_network_bytes_per_second=workload.write.node_network_bytes_per_second,
        linked_over_copied=0.0 if of_files else 1.0,
    )
