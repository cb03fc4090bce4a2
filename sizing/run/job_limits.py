"""The `job_limits` block of the report: limits of software and machine that end a job, against what it needs.

Each limit is a function that yields a row where it applies to the scenario's framework, format, mode and storage. What
users may have set otherwise is not known here: the limit of each row is the default of the version that `source` names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from sizing.cluster import NodeSpec
from sizing.frameworks.framework import CollectiveTimeout, Framework
from sizing.layout import CheckpointLayout, Parallelism
from sizing.run.checkpoint import ARCHIVE, Checkpoint
from sizing.run.evaluation import RunReport
from sizing.run.failures import Preemption
from sizing.run.host_memory import HostMemory
from sizing.run.tier_rows import TierRow
from sizing.run.write import remedy_for_notice
from sizing.storage.calibration.calibration import NORMAL_QUANTILE
from sizing.strict_model import StrictModel
from sizing.training import GpuMemory
from sizing.units import counted_text, decimal_bytes_text, seconds_text

JobLimitName = Literal[
    "collective-timeout",
    "export-timeout",
    "planning-timeout",
    "store-timeout",
    "nccl-heartbeat",
    "preemption-notice",
    "slurm-kill-wait",
    "host-memory",
    "shared-memory",
    "locked-memory",
    "gpu-memory",
    "free-space",
    "file-size",
    "open-files",
    "object-size",
    "object-parts",
    "object-request",
]
Unit = Literal["seconds", "bytes", "count"]


class JobLimit(StrictModel):
    """One limit that ends a job, or a save: what the prediction needs, and what it allows as it ships."""

    name: JobLimitName = Field(description="What ends the job where it is too small, such as the watchdog of NCCL.")
    unit: Unit = Field(description="Unit of needed, needed_p99 and limit.")
    needed: float | None = Field(description="Mean of what the prediction needs. Null where nothing predicts it.")
    needed_p99: float | None = Field(
        None, description="What 99 of 100 saves stay within. Null where no calibration gives the spread."
    )
    limit: float | None = Field(
        description="What the limit allows by default, or as the scenario says. Null where it is not known."
    )
    holds: bool | None = Field(
        description="Whether needed_p99, or else needed, stays within the limit. Null where either is unknown."
    )
    needs: str = Field(description="What takes that much.")
    setting: str = Field(description="Line that sets the limit, in the form of the framework or of the system.")
    source: str = Field(description="Where the default was read: project, file, version or commit.")

    @property
    def needed_text(self) -> str:
        """The need with its unit; empty where nothing predicts it."""
        p99 = "" if self.needed_p99 is None else f", p99 {quantity_text(self.needed_p99, self.unit)}"
        return "" if self.needed is None else quantity_text(self.needed, self.unit) + p99

    @property
    def limit_text(self) -> str:
        """The limit with its unit; empty where it is not known."""
        return "" if self.limit is None else quantity_text(self.limit, self.unit)


def quantity_text(value: float, unit: Unit) -> str:
    """Write a quantity of a limit with its unit.

    >>> quantity_text(600, "seconds"), quantity_text(96e9, "bytes"), quantity_text(10_000, "count")
    ('10.0 min', '96.00 GB', '10,000')
    """
    if unit == "count":
        return f"{value:,.0f}"
    return seconds_text(value) if unit == "seconds" else decimal_bytes_text(value)


@dataclass(frozen=True, kw_only=True)
class LimitInputs:
    """What an answer predicts, from which the need of each limit is taken.

    `cached_planning_fraction`: planning with cached plans over that as it is, 1 where they are or their time is given;
    `write_high_seconds`: the 95th percentile of a save's time, where a calibration gives it.
    """

    checkpoint_layout: CheckpointLayout
    parallelism: Parallelism
    framework: Framework
    checkpoint: Checkpoint
    node: NodeSpec
    run: RunReport
    gpu_memory: GpuMemory
    host_memory: HostMemory
    planning_seconds: float
    cached_planning_fraction: float
    is_storage_in_nodes: bool
    preemption: Preemption | None = None
    write_high_seconds: float | None = None

    @property
    def write_seconds(self) -> float | None:
        """Mean time of a save to the main storage, with planning."""
        return self.run.write.seconds if self.run.write else None

    @property
    def write_p99_seconds(self) -> float | None:
        """99th percentile of that time, where a calibration gives its spread."""
        if self.write_seconds is None or self.write_high_seconds is None:
            return None
        return p99_seconds(self.write_seconds, p95_seconds=self.write_high_seconds)

    @property
    def is_planned_over_gloo(self) -> bool:
        """Whether an asynchronous save plans in the background, which torch allows over a backend of CPUs alone."""
        planning = self.checkpoint_layout.saved_as.planning
        return self.checkpoint.mode == "async" and planning is not None and planning.is_in_background

    @property
    def largest_file_bytes(self) -> int:
        """Bytes of the largest file of a checkpoint."""
        return max(
            -(-file.num_bytes // file.count) for writer in self.checkpoint_layout.writers for file in writer.files
        )


GLOO_TIMEOUT = CollectiveTimeout(
    1800.0,
    'new_group(backend="gloo", timeout=timedelta(seconds={seconds}))',
    "torch 2.13, c10d/Backend.hpp, kBackendDefaultTimeout",
    is_of_nccl=False,
)
"""Timeout of every backend of torch.distributed but NCCL."""
P99_QUANTILE = 2.3263478740408408
"""Standard normal quantile of 0.99."""
RESERVE = 2
"""Times what is needed that a suggested timeout is. A choice: saves of one run differ by that on shared storage."""
REPORTED_PEERS = 63
"""Peers of rank 0 in the runs of 64 ranks that both reports of its GPU memory are of."""
BYTES_PER_PEER = (11e9 / REPORTED_PEERS, (26.25e9 - 3e9) / REPORTED_PEERS)
"""GPU memory that rank 0 takes for each peer when plans are gathered over NCCL, of two reports of 64 ranks.

Sources: over 11 GB more on GPU 0 (pytorch/pytorch#151030); 26.25 GB, 3 GB on the others, for point-to-point channels
that are never freed (radixark/Megatron-LM#62).
"""


def p99_seconds(mean_seconds: float, *, p95_seconds: float) -> float:
    """Compute the 99th percentile of a time from its 95th: m (h / m)^(z99 / z95), of a log-normal time.

    Args: `mean_seconds` m, the prediction; `p95_seconds` h, the upper end of its 90 % interval.
    Source: definition of the log-normal distribution, of which `calibration.prediction` takes its intervals.

    >>> round(p99_seconds(100.0, p95_seconds=130.0), 1)
    144.9
    """
    return mean_seconds * math.pow(p95_seconds / mean_seconds, P99_QUANTILE / NORMAL_QUANTILE)


def waiting_seconds(write_seconds: float, *, least_over_largest: float) -> float:
    """Compute how long the rank that is done first waits for the last one: W (1 - l).

    Args: `write_seconds` W, without planning; `least_over_largest` l, the bytes of the rank that writes least over
    those of the one that writes most, 0 where a rank writes nothing.
    Source: definition; assumes that the storage serves all ranks at one rate. A rank that it starves is not foreseen:
    rank 0 was done 68 min after the others in verl-project/verl#2860.

    >>> waiting_seconds(900.0, least_over_largest=0.0), waiting_seconds(900.0, least_over_largest=1.0)
    (900.0, 0.0)
    """
    return write_seconds * (1.0 - least_over_largest)


def rank_0_planning_bytes(num_ranks: int, *, bytes_per_peer: float) -> float:
    """Compute the GPU memory that rank 0 takes to gather plans over NCCL: c min(n - 1, 63).

    Args: `num_ranks` n; `bytes_per_peer` c, one of BYTES_PER_PEER.
    Source: BYTES_PER_PEER. Both reports are of 64 ranks: what more ranks take beyond that is not known.

    >>> round(rank_0_planning_bytes(64, bytes_per_peer=11e9 / 63) / 1e9, 1)
    11.0
    """
    return bytes_per_peer * min(num_ranks - 1, REPORTED_PEERS)


def job_limits(inputs: LimitInputs) -> list[JobLimit]:
    """List the limits that apply, in the order in which a job meets them."""
    return [row for limit in _LIMITS for row in limit(inputs)]


def job_limit_warnings(limits: Iterable[JobLimit], *, told: Iterable[JobLimitName] = ()) -> Iterator[str]:
    """Name each limit that does not hold, with the line that sets it; those that other warnings tell are left out."""
    for row in limits:
        if row.holds is False and row.name not in (*told, *_NEVER_WARNED):
            name = row.name.replace("-", " ").capitalize()
            yield (f"{name} of {row.limit_text} does not hold: {row.needs} takes {row.needed_text}. Set: {row.setting}")


_NEVER_WARNED: tuple[JobLimitName, ...] = ("slurm-kill-wait",)
"""Limits that matter only to those who save on a signal, which no scenario says."""


def _row(
    name: JobLimitName,
    unit: Unit,
    *,
    needed: float | None,
    limit: float | None,
    needs: str,
    setting: str,
    source: str,
    needed_p99: float | None = None,
) -> JobLimit:
    worst = needed if needed_p99 is None else needed_p99
    return JobLimit.model_construct(  # validation takes half of the time of the block
        name=name,
        unit=unit,
        needed=needed,
        needed_p99=needed_p99,
        limit=limit,
        holds=None if worst is None or limit is None else worst <= limit,
        needs=needs,
        setting=setting,
        source=source,
    )


def _timeout_row(
    name: JobLimitName, timeout: CollectiveTimeout, *, seconds: float | None, p99: float | None, needs: str
) -> JobLimit:
    worst = (seconds if p99 is None else p99) or 0.0
    return _row(
        name,
        "seconds",
        needed=seconds,
        needed_p99=p99,
        limit=timeout.seconds,
        needs=needs,
        setting=timeout.line_for(max(timeout.seconds, RESERVE * worst)),
        source=timeout.source,
    )


def _collective_timeout(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the wait of the ranks that have written, for the last one, in their next collective or barrier."""
    layout, saved_as = inputs.checkpoint_layout.on_nodes, inputs.checkpoint_layout.saved_as
    is_of_nccl = inputs.framework.collective_timeout.is_of_nccl
    if inputs.checkpoint.mode == "async" and is_of_nccl and not inputs.is_planned_over_gloo:
        return  # ranks train on, and ask now and then whether all have written
    timeout = GLOO_TIMEOUT if inputs.is_planned_over_gloo else inputs.framework.collective_timeout
    writers_bytes = [sum(file.num_bytes for file in writer.files) for writer in inputs.checkpoint_layout.writers]
    idle = layout.num_gpus - layout.num_writers
    least = 0.0 if idle else min(writers_bytes) / max(writers_bytes)
    seconds = inputs.write_seconds
    mean = None if seconds is None else waiting_seconds(seconds - inputs.planning_seconds, least_over_largest=least)
    p99, ratio = None, None if seconds is None else inputs.write_p99_seconds
    if mean and seconds and ratio is not None:
        p99 = mean * ratio / seconds
    who = f"{counted_text(idle, 'rank')} that write nothing" if idle else "the rank that has written first"
    yield _timeout_row(
        "collective-timeout", timeout, seconds=mean, p99=p99, needs=f"the wait of {who} in a save in {saved_as.name}"
    )


def _export_timeout(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the wait of all ranks for the one that gathers and writes an export."""
    export, exported = inputs.checkpoint.export, inputs.run.export
    if export is None or exported is None or export.written_by != "rank-0" or inputs.parallelism.num_gpus == 1:
        return
    needs = f"the wait of {counted_text(inputs.parallelism.num_gpus - 1, 'rank')} for the export by rank 0"
    timeout = inputs.framework.collective_timeout
    yield _timeout_row("export-timeout", timeout, seconds=exported.stall_seconds, p99=None, needs=needs)


def _planning_timeout(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the time in which rank 0 makes one plan of all, while the other ranks wait for it."""
    if inputs.checkpoint_layout.saved_as.planning is None or inputs.parallelism.num_gpus == 1:
        return
    timeout = GLOO_TIMEOUT if inputs.is_planned_over_gloo else inputs.framework.collective_timeout
    needs = f"the wait of {counted_text(inputs.parallelism.num_gpus, 'rank')} for the plan of rank 0"
    yield _timeout_row("planning-timeout", timeout, seconds=inputs.planning_seconds, p99=None, needs=needs)


def _store_timeout(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the wait of the ranks that do not read, in the first collective after a restore, for those that do."""
    timeout, plan = inputs.framework.collective_timeout, inputs.run.restore
    reading_ranks = inputs.checkpoint_layout.saved_as.gathers == "everything"
    if not timeout.is_of_nccl or not reading_ranks or inputs.parallelism.num_gpus == 1:
        return
    needs = "the wait for the rank that reads, in the rendezvous of a restore's first collective"
    row = _timeout_row("store-timeout", timeout, seconds=plan.read_seconds, p99=None, needs=needs)
    source = "torch 2.13, distributed_c10d.py, init_process_group: store.set_timeout(timeout)"
    yield row.model_copy(update={"source": f"{source}; {timeout.source}"})


def _nccl_heartbeat(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the heartbeat of the watchdog, which only a Python call that keeps the interpreter's lock holds up."""
    if inputs.framework.collective_timeout.is_of_nccl:
        yield _row(
            "nccl-heartbeat",
            "seconds",
            needed=None,
            limit=480.0,
            needs="one call that keeps Python's lock or the driver's, such as pinning all of a share at once",
            setting="TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=1800",
            source="torch 2.13, c10d/ProcessGroupNCCL.cpp; its message in om-ai-lab/VLM-R1#257",
        )


def _signals(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the time that a save has between a notice or a signal and the end."""
    seconds, p99 = inputs.write_seconds, inputs.write_p99_seconds
    needs = "a save that begins with it"
    if inputs.preemption is not None and inputs.preemption.notice_seconds:
        notice, write = inputs.preemption.notice_seconds, inputs.run.write
        setting = (
            "a higher write bandwidth of the storage"
            if write is None
            else remedy_for_notice(write, notice_seconds=notice, cached_fraction=inputs.cached_planning_fraction)
        )
        yield _row(
            "preemption-notice",
            "seconds",
            needed=seconds,
            needed_p99=p99,
            limit=notice,
            needs=needs,
            setting=f"{setting}; nodes take their tiers along, and clouds fix the notice",
            source="reliability.preemption.notice_seconds; AWS gives 120 s, Google Cloud 30 s, Azure 30 s or more",
        )
    ahead = 120 if seconds is None else math.ceil(RESERVE * (seconds if p99 is None else p99) / 60) * 60
    yield _row(
        "slurm-kill-wait",
        "seconds",
        needed=seconds,
        needed_p99=p99,
        limit=30.0,
        needs=needs,
        setting=f"#SBATCH --signal=USR1@{ahead}",
        source="Slurm, slurm.conf(5), KillWait",
    )


def _host_memory(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the host memory of a save or of a restore, the larger one, against that of the node."""
    memory = inputs.host_memory
    is_of_restore = memory.restoring_bytes > memory.needed_bytes
    yield _row(
        "host-memory",
        "bytes",
        needed=max(memory.restoring_bytes, memory.needed_bytes),
        limit=memory.usable_bytes,
        needs="a restore by all ranks of a node at once" if is_of_restore else "a save by all ranks of a node",
        setting="#SBATCH --mem=0, for all memory of the node; resources.limits.memory of a pod",
        source="the node's memory, as Slurm gives without --mem where DefMemPerNode is unset, without what the system "
        "keeps: Google Distributed Cloud, Resources available for your workloads",
    )


def _shared_memory(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield what an asynchronous save of DCP stages in /dev/shm, where another process writes it."""
    memory = inputs.host_memory
    if inputs.is_planned_over_gloo and memory.staged_bytes:
        size = -(-memory.staged_bytes // 10**9) + 1
        yield _row(
            "shared-memory",
            "bytes",
            needed=memory.staged_bytes,
            limit=None if memory.node_bytes is None else memory.node_bytes / 2,
            needs="staging for a process that writes, as with async_mode async_with_pinned_mem",
            setting=f"mount -o remount,size={size}G /dev/shm; in Docker, which gives 64 MiB, --shm-size={size}g",
            source="tmpfs(5): half of the memory; torch 2.13, distributed/checkpoint/staging.py, use_shared_memory",
        )


def _locked_memory(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield what each writer pins; CUDA pins through its driver, so that nothing predicts whether the limit counts."""
    if inputs.checkpoint.mode == "async" and inputs.host_memory.staged_bytes:
        yield _row(
            "locked-memory",
            "bytes",
            needed=None,
            limit=8 * 1024**2,
            needs="staging that is pinned by mlock or RDMA; what CUDA pins through its driver does not count",
            setting="ulimit -l unlimited",
            source="Linux 5.16 and later, include/uapi/linux/resource.h, MLOCK_LIMIT; 64 KiB before",
        )


def _gpu_memory(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the memory of the fullest GPU in a save: training, and what rank 0 gathers beside it."""
    memory, saved_as = inputs.gpu_memory, inputs.checkpoint_layout.saved_as
    extra = _gpu_save_bytes(inputs)
    training = "training without activations, and" if memory.total_bytes is None else "training with"
    most = rank_0_planning_bytes(inputs.parallelism.num_gpus, bytes_per_peer=BYTES_PER_PEER[1])
    what = "the largest tensor whole"
    if saved_as.planning:
        what = f"channels to all ranks, over which it gathers plans (up to {decimal_bytes_text(most)} were reported)"
    if extra:
        yield _row(
            "gpu-memory",
            "bytes",
            needed=memory.held_bytes + extra,
            limit=memory.gpu_memory_bytes,
            needs=f"{training} {decimal_bytes_text(extra)} on GPU 0 for {what}",
            setting='init_process_group("cpu:gloo,cuda:nccl"), so that plans are gathered on CPUs'
            if saved_as.planning
            else "checkpoint.format fsdp-sharded",
            source="pytorch/pytorch#151030 and radixark/Megatron-LM#62, of 64 ranks each"
            if saved_as.planning
            else "torch 2.13, distributed/_state_dict_utils.py, _gather_state_dict, tensor by tensor with cpu_offload",
        )


def _gpu_save_bytes(inputs: LimitInputs) -> float:
    """Bytes that a save takes on GPU 0 beside training: channels to gather plans over NCCL, or one tensor whole.

    Plans go over NCCL where the process group has no backend for CPUs: in synchronous saves, and in Megatron's, which
    plans on the group of the training. The lower of BYTES_PER_PEER counts.
    """
    saved_as = inputs.checkpoint_layout.saved_as
    if saved_as.gathers == "everything":
        return 4.0 * max(
            (math.prod(holding.shape) for each in inputs.checkpoint_layout.holders for holding in each.span.holdings),
            default=0,
        )
    is_over_nccl = inputs.framework.collective_timeout.is_of_nccl and not inputs.is_planned_over_gloo
    if saved_as.planning is None or not is_over_nccl:
        return 0.0
    return rank_0_planning_bytes(inputs.parallelism.num_gpus, bytes_per_peer=BYTES_PER_PEER[0])


def _free_space(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield what must fit, against the disk that there is, or the drives of a node where the storage lies there.

    The fullest node has its share of a checkpoint of everything that is kept, and an export whole where one node
    writes it.
    """
    capacity, export = inputs.run.capacity, inputs.checkpoint.export
    needed, limit = capacity.usable_bytes, capacity.disk_bytes
    source = "not known: no scenario says what is free" if limit is None else "retention.disk_bytes of the scenario"
    if inputs.is_storage_in_nodes:
        layout = inputs.checkpoint_layout
        whole = capacity.exported_bytes if export and export.written_by != "every-rank" else 0
        share = layout.on_nodes.max_node_bytes / layout.size.written_bytes
        used = whole + (capacity.capacity_bytes - whole) * share
        needed = used * capacity.usable_bytes / capacity.capacity_bytes
        limit, source = inputs.node.local_nvme_bytes, "the node's drives"
    held = counted_text(capacity.num_checkpoints, "checkpoint") + ", one being written"
    if capacity.kept_weights_bytes:
        held += ", and kept weights"
    if capacity.exported_bytes:
        held += ", and exports"
    yield _row(
        "free-space",
        "bytes",
        needed=needed,
        limit=limit,
        needs=held + (", on the fullest node" if inputs.is_storage_in_nodes else ""),
        setting=f"a quota of {decimal_bytes_text(needed)} or more (df, quota -s; on Lustre lfs df, as one full target "
        "ends a save), or a lower retention.keep_last",
        source=source,
    )


def _files(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield the size of the largest file, and what a rank has open at once."""
    yield _row(
        "file-size",
        "bytes",
        needed=inputs.largest_file_bytes,
        limit=16 * 1024**4,
        needs="the largest file of a checkpoint",
        setting="a file system with larger files (XFS, Lustre), or a format in which every rank writes its share",
        source="ext4(5) with blocks of 4 KiB, the least of common file systems",
    )
    files = max(sum(file.count > 0 for file in writer.files) for writer in inputs.checkpoint_layout.writers)
    sockets = inputs.parallelism.num_gpus - 1 if inputs.is_planned_over_gloo else 0
    yield _row(
        "open-files",
        "count",
        needed=files + sockets,
        limit=1024,
        needs=f"{counted_text(files, 'file')} of a rank"
        + (
            f" and {counted_text(sockets, 'connection')} of the gloo group that an asynchronous save needs"
            * (sockets > 0)
        ),
        setting="ulimit -n 65536",
        source="Linux and systemd, DefaultLimitNOFILE; gloo connects all ranks: 1,500 failed in pytorch/gloo#327",
    )


PART_BYTES = 50 * 1024**2
"""Part of an upload. Source: s3fs 2026.9, core.py, default_block_size, through which DCP's FsspecWriter writes."""
MAX_PARTS = 10_000
"""Parts of one upload. Source: Amazon S3 user guide, multipart upload limits; 5 MiB to 5 GiB each."""
MAX_OBJECT_BYTES = 5 * 1024**4
"""Size of one object. Source: Google Cloud Storage, quotas; Amazon S3 until 2025, which now has 48.8 TiB."""


def _objects(inputs: LimitInputs) -> Iterator[JobLimit]:
    """Yield size, parts and requests of the largest file as an object, where a tier is an object store."""
    archive = next((row for row in inputs.run.tiers if row.kind == ARCHIVE), None)
    if archive is None:
        return
    largest = inputs.largest_file_bytes
    yield _row(
        "object-size",
        "bytes",
        needed=largest,
        limit=MAX_OBJECT_BYTES,
        needs="the largest file of a checkpoint as one object",
        setting="a format in which every rank writes its share",
        source="Google Cloud Storage, quotas: 5 TiB; Amazon S3 has 48.8 TiB (multipart upload limits)",
    )
    needed_part = max(PART_BYTES, math.ceil(RESERVE * largest / MAX_PARTS / 1024**2) * 1024**2)
    yield _row(
        "object-parts",
        "count",
        needed=-(-largest // PART_BYTES),
        limit=MAX_PARTS,
        needs="parts of 50 MiB of the largest file",
        setting=f"s3fs.S3FileSystem(default_block_size={needed_part})",
        source="Amazon S3 user guide, multipart upload limits; s3fs 2026.9, core.py, default_block_size",
    )
    yield _object_request(archive, largest)


def _object_request(archive: TierRow, largest: int) -> JobLimit:
    """Return the time of one part, at the rate at which a writer's largest file drains to the object store."""
    drain = archive.drain_seconds
    seconds = drain * min(PART_BYTES, largest) / largest if drain and largest else None
    return _row(
        "object-request",
        "seconds",
        needed=seconds,
        limit=60.0,
        needs="a part of 50 MiB at the rate at which a writer drains",
        setting=f"botocore.config.Config(read_timeout={math.ceil(max(120.0, RESERVE * (seconds or 0.0)))})",
        source="botocore 1.43, endpoint.py, DEFAULT_TIMEOUT",
    )


_LIMITS: tuple[Callable[[LimitInputs], Iterator[JobLimit]], ...] = (
    _collective_timeout,
    _export_timeout,
    _planning_timeout,
    _store_timeout,
    _nccl_heartbeat,
    _signals,
    _host_memory,
    _shared_memory,
    _locked_memory,
    _gpu_memory,
    _free_space,
    _files,
    _objects,
)
