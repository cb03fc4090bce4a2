"""The plan of one configuration, made before anything is measured: who writes, which files, bytes, memory and disk.

Functions say whether a plan fits into the node, its GPUs and the target, and how much a rank must write so that the
time is that of the storage and not of the start.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from io_bench import host
from io_bench.engines import Engine, EnginePlan
from io_bench.errors import too_small
from io_bench.measure.configuration import Configuration, ranks_of
from io_bench.payload.byte_source import POOL_BYTES
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.payload import SNAPSHOT_BYTES
from io_bench.payload.workload import WriterWorkload
from io_bench.ranks.process_group import ProcessGroup, Writers
from io_bench.target.direct_io import ALIGNMENT_BYTES
from io_bench.target.target import PartTransfer, Target
from io_bench.workloads.background_kinds import background_disk_bytes, background_files
from io_bench.workloads.restores import num_rows
from io_bench.workloads.retention import num_slots
from sizing.errors import InvalidInput
from sizing.storage.measurement import SHORT_SECONDS
from sizing.units import bytes_text

_Card = dict[str, Any]
"""What a writer says of its plan."""
_NO_FILES = EnginePlan(files=(), max_disk_bytes=0, host_bytes=0, gpu_bytes=0)

_STREAMED = "generated during the write and read back into the same buffers"


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """The tensors that one writer saves, and the memory of its node that they take."""

    inventory: Inventory
    engine_plan: EnginePlan
    host_bytes: int
    gpu_bytes: int

    @classmethod
    def of(
        cls, inventory: Inventory, engine_plan: EnginePlan, *, device: Device, transfer: PartTransfer | None
    ) -> WriterPlan:
        """Add up the memory of one writer.

        Each tensor begins at a page. Of a streamed payload the pool alone stays, in host memory. What is on a GPU
        passes through host memory to be timed and compared: by a snapshot's buffer, tensor by tensor.
        """
        paged_bytes = inventory.num_bytes + inventory.num_tensors * ALIGNMENT_BYTES
        resident = POOL_BYTES + (0 if engine_plan.is_streamed else paged_bytes)
        on_host, on_gpu = resident, 0
        if device.is_gpu and not engine_plan.is_streamed:
            on_host, on_gpu = max(SNAPSHOT_BYTES, inventory.largest_tensor_bytes), resident
        parts_bytes = transfer.host_bytes(len(engine_plan.files)) if transfer else 0
        host_bytes = on_host + engine_plan.host_bytes + parts_bytes
        return cls(inventory, engine_plan, host_bytes, on_gpu + engine_plan.gpu_bytes)


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """The plan of one configuration on one rank; `own` is None where the rank only waits.

    `engine_plans` and `payload_bytes` have one entry per writer on rank 0, and none on the others: what they must know
    of the writers, rank 0 has told them. `replicas` are the ranks of all of them, one replica after another, where
    there are several: they restore what the first has written. `restoring` are the ranks that restore where these are
    more or less than the writers: each reads its part of what several have written. At most `num_checkpoints` are on
    disk; where that is one, each repetition removes its own before the next one writes. Where there are several nodes
    and all writers save tensors of the same shapes, each restores what one on the next node has written:
    `source_plan`. `cpus_of_node`, on rank 0, is how many CPUs the writers of each node can keep busy together,
    `cpus_of_reading_node` those that restore. `files_of` names the files that a rank makes. `transfer` is how the
    target moves files, where that is not up to the engine.
    """

    configuration: Configuration
    writers: Writers
    device: Device
    own: WriterPlan | None
    engine_plans: tuple[EnginePlan, ...]
    payload_bytes: tuple[int, ...]
    workload_title: str
    node_host_bytes: int
    gpu_bytes: int
    cpus_of_node: Mapping[str, float]
    restores_from_other_node: bool
    max_disk_bytes: int
    is_streamed: bool
    source_plan: EnginePlan
    files_of: Callable[[int], tuple[str, ...]]
    transfer: PartTransfer | None = None
    replicas: Writers | None = None
    restoring: Writers | None = None
    cpus_of_reading_node: Mapping[str, float] = field(default_factory=dict)

    @property
    def readers(self) -> Writers:
        """The ranks that restore: the writers, those of all replicas, or another number of them."""
        return self.replicas or self.restoring or self.writers

    @property
    def connected(self) -> Writers:
        """The ranks that write or restore: the larger of the two groups, which begins with the smaller."""
        return max(self.readers, self.writers, key=lambda ranks: len(ranks.ranks))

    def sources(self, reader: int) -> tuple[int, ...]:
        """The writers whose files a rank that restores reads, by its place among these."""
        resharding = self.configuration.resharding
        if resharding is None or self.own is None:
            return (reader % len(self.writers.ranks),)
        return resharding.sources((num_rows(spec.shape) for spec in self.own.inventory.tensors), reader)

    @property
    def source_index(self) -> int:
        """The writer whose files this rank restores: itself, or one on another node or of the first replica."""
        index = self.readers.index or 0
        shift = self.configuration.writers_per_node if self.restores_from_other_node else 0
        return (index + shift) % len(self.writers.ranks)

    @property
    def replica(self) -> int:
        """The replica of this rank."""
        return (self.readers.index or 0) // len(self.writers.ranks)

    @property
    def num_checkpoints(self) -> int:
        """Checkpoints whose files are on disk at once."""
        return num_slots(self.configuration.retained_checkpoints, self.configuration.deletion)

    @property
    def num_passes(self) -> int:
        """How often a repetition moves the checkpoint: written, read, and read again where it is not held in memory."""
        return 3 if self.is_streamed else 2

    def needs(self) -> str:
        """Sentences that report the bytes to be written, and the memory and disk that they take here."""
        own_needs = f"{self.workload_title} " if self.workload_title else ""
        if self.own is not None:
            gpu = f" and {bytes_text(self.own.gpu_bytes)} on its GPU" if self.device.is_gpu else ""
            own_needs += (
                f"Each rank needs {bytes_text(self.own.host_bytes)} of memory{gpu}: a payload of "
                f"{bytes_text(self.own.inventory.num_bytes)} in {self.own.inventory.num_tensors} tensors, "
                f"{_STREAMED if self.own.engine_plan.is_streamed else 'and the restored copy'}. "
            )
        checkpoints = "one checkpoint" if self.num_checkpoints == 1 else f"{self.num_checkpoints} checkpoints"
        batches = " and its batches" if self.configuration.beside == "batches" else ""
        return (
            f"{own_needs}The ranks of this node need {bytes_text(self.node_host_bytes)} in total; "
            f"{bytes_text(host.available_bytes())} is available. "
            f"Max on disk: {bytes_text(self.max_disk_bytes)}, {checkpoints}{batches} of all ranks."
        )


def plan_of(
    configuration: Configuration, workload: WriterWorkload, engine: Engine, target: Target, group: ProcessGroup
) -> MeasurementPlan:
    """Plan this rank's part; on rank 0 with what each writer does. Gives and takes values on all ranks."""
    everyone = Writers(ranks_of(group.placements, configuration, max_writers=workload.max_writers), group)
    writers, readers = _writers_and_readers(everyone, configuration)
    device = Device.of_local_rank(group.placement.local_rank)
    own, transfer = _plan_own_part(
        configuration, workload, engine, target, everyone=everyone, num_shards=len(writers.ranks), device=device
    )
    card = _describe_own_part(own, device)
    here = [each for each in group.gather_on_node(card, doing="planning") if each]
    of_everyone = everyone.gather(card, doing="planning")
    cards = of_everyone[: len(writers.ranks)]
    summary = group.broadcast(_sum_up_writers(writers, cards, configuration), doing="planning")

    if configuration.resharding is not None and not summary["are_alike"]:
        rule, remedy = "needs ranks that all save tensors of the same shapes", "give --bytes-per-rank"
        raise InvalidInput.of(
            "--restored-by", rule, value=configuration.num_restoring, remedy=f"{remedy} instead of --scenario"
        )

    def files_of(rank: int) -> tuple[str, ...]:
        if rank not in writers.ranks:
            return ()
        index = writers.ranks.index(rank)
        if cards:
            files = _engine_plan(cards[index]["engine"]).all_files
        else:
            files = engine.plan(workload.inventory(index), rank=index, device=device).all_files
        return (*_names_in_slots(files, configuration), *background_files(configuration.beside, index))

    plan = MeasurementPlan(
        configuration,
        writers,
        device,
        own,
        engine_plans=tuple(_engine_plan(each["engine"]) for each in cards),
        payload_bytes=tuple(each["payload_bytes"] for each in cards),
        workload_title=workload.describe(len(writers.ranks)),
        node_host_bytes=sum(each["host_bytes"] for each in here),
        gpu_bytes=sum(each["gpu_bytes"] for each in here if each["gpu"] == device.identity),
        cpus_of_node=_cpus_of_node(writers, cards),
        restores_from_other_node=summary["restores_from_other_node"],
        max_disk_bytes=summary["max_disk_bytes"],
        is_streamed=summary["is_streamed"],
        source_plan=own.engine_plan if own else _NO_FILES,
        files_of=files_of,
        transfer=transfer,
        replicas=readers if configuration.num_replicas > 1 else None,
        restoring=readers if configuration.resharding else None,
        cpus_of_reading_node=_cpus_of_node(readers, of_everyone[: len(readers.ranks)]),
    )
    if own is not None and configuration.resharding is not None:
        return dataclasses.replace(plan, source_plan=_resharded_source(plan, own, engine))
    if own is None or not plan.restores_from_other_node:
        return plan
    index = plan.source_index
    source_plan = engine.plan(workload.inventory(index), rank=index, device=device)
    return dataclasses.replace(plan, source_plan=source_plan)


def _sum_up_writers(writers: Writers, cards: Sequence[_Card], configuration: Configuration) -> dict[str, Any] | None:
    """Sum up, on rank 0, what every rank must know of the writers: limits, and whether they are alike."""
    if not cards:
        return None
    num_checkpoints = num_slots(configuration.retained_checkpoints, configuration.deletion)
    beside_bytes = background_disk_bytes(configuration.beside, [card["payload_bytes"] for card in cards])
    is_alone = configuration.num_replicas == 1 and configuration.resharding is None
    are_alike = len({card["fingerprint"] for card in cards}) == 1
    # Each writer can restore for the one so many places on where that stands on another node.
    nodes, num_places = writers.nodes, configuration.writers_per_node
    can_shift = all(node != nodes[(index + num_places) % len(nodes)] for index, node in enumerate(nodes))
    return {
        "restores_from_other_node": is_alone and are_alike and can_shift,
        "max_disk_bytes": num_checkpoints * sum(card["engine"]["max_disk_bytes"] for card in cards) + beside_bytes,
        "are_alike": are_alike,
        "is_streamed": any(card["engine"]["is_streamed"] for card in cards),
    }


def _plan_own_part(
    configuration: Configuration,
    workload: WriterWorkload,
    engine: Engine,
    target: Target,
    *,
    everyone: Writers,
    num_shards: int,
    device: Device,
) -> tuple[WriterPlan | None, PartTransfer | None]:
    """Plan what this rank writes, or holds as a later replica, and how the target moves it; None where it waits."""
    if everyone.index is None:
        return None, None
    shard = everyone.index % num_shards
    inventory = workload.inventory(shard)
    engine_plan = engine.plan(inventory, rank=shard, device=device)
    transfer = target.transfer(
        block_bytes=configuration.block_bytes,
        num_parallel=configuration.threads_per_rank,
        largest_file_bytes=engine_plan.max_disk_bytes,
    )
    return WriterPlan.of(inventory, engine_plan, device=device, transfer=transfer), transfer


def _writers_and_readers(everyone: Writers, configuration: Configuration) -> tuple[Writers, Writers]:
    """Choose the ranks that write and those that restore among all that take part. Raises InvalidInput."""
    resharding = configuration.resharding
    if resharding is None:
        num_ranks, num_replicas = len(everyone.ranks), configuration.num_replicas
        if num_ranks % num_replicas:
            rule, remedy = (
                f"must divide the {num_ranks} ranks that take part",
                "start more ranks, or give another number",
            )
            raise InvalidInput.of("--replicas", rule, value=num_replicas, remedy=remedy)
        return Writers(everyone.ranks[: num_ranks // num_replicas], everyone.group), everyone
    for flag, count in (("--saved-by", resharding.num_saving), ("--restored-by", resharding.num_restoring)):
        if count > len(everyone.ranks):
            rule, remedy = f"must be at most the {len(everyone.ranks)} ranks that take part", "start more ranks"
            raise InvalidInput.of(flag, rule, value=count, remedy=remedy)
    if resharding.num_saving == resharding.num_restoring:
        rule, remedy = "must not be the number of ranks that save", "give another number, or omit both flags"
        raise InvalidInput.of("--restored-by", rule, value=resharding.num_restoring, remedy=remedy)
    counts = (resharding.num_saving, resharding.num_restoring)
    writers, readers = (Writers(everyone.ranks[:count], everyone.group) for count in counts)
    return writers, readers


def _resharded_source(plan: MeasurementPlan, own: WriterPlan, engine: Engine) -> EnginePlan:
    """List the files that this rank has written or restores from: they must be out of its page cache."""
    own_files = own.engine_plan.files if plan.writers.index is not None else ()
    sources = plan.sources(plan.readers.index) if plan.readers.index is not None else ()
    read = (engine.plan(own.inventory, rank=source, device=plan.device).files for source in sources)
    files = dict.fromkeys((*own_files, *(name for names in read for name in names)))
    return dataclasses.replace(own.engine_plan, files=tuple(files))


def _names_in_slots(files: Sequence[str], configuration: Configuration) -> tuple[str, ...]:
    """Name the files of every checkpoint that is on disk at once."""
    if configuration.retained_checkpoints is None:
        return tuple(files)
    slots = range(num_slots(configuration.retained_checkpoints, configuration.deletion))
    return tuple(f"{slot}.{name}" for slot in slots for name in files)


def _cpus_of_node(ranks: Writers, cards: Sequence[_Card]) -> dict[str, float]:
    """Count, on rank 0, the CPUs that the ranks of each node can keep busy together; empty on the others."""
    of_node: dict[str, list[_Card]] = {}
    for node, card in zip(ranks.nodes if cards else (), cards, strict=True):
        of_node.setdefault(node, []).append(card)
    return {node: num_cpus(of_one) for node, of_one in of_node.items()}


def num_cpus(cards: Sequence[Mapping[str, Any]]) -> float:
    """Count the CPUs of one node's ranks: batch systems often give each its own, and a control group may grant less."""
    return min(len({cpu for card in cards for cpu in card["cpus"]}), cards[0]["cpu_limit"] or math.inf)


def _describe_own_part(own: WriterPlan | None, device: Device) -> _Card | None:
    """Describe what this rank writes and needs, for rank 0; None where it only waits."""
    if own is None:
        return None
    return {
        "engine": dataclasses.asdict(own.engine_plan),
        "payload_bytes": own.inventory.num_bytes,
        "host_bytes": own.host_bytes,
        "gpu": device.identity,
        "gpu_bytes": own.gpu_bytes,
        "cpus": host.allowed_cpus(),
        "cpu_limit": host.cgroup_cpu_limit(),
        "fingerprint": own.inventory.fingerprint,
    }


def _engine_plan(card: dict[str, Any]) -> EnginePlan:
    names = {key: tuple(card[key]) for key in ("files", "index_files", "passing_files")}
    return EnginePlan(**card | names)


def fits_memory(plan: MeasurementPlan) -> bool:
    """Whether this rank's node can hold what its ranks need."""
    return plan.node_host_bytes <= host.available_bytes()


def check_room(plan: MeasurementPlan, target: Target) -> None:
    """Raise InvalidInput where this rank's node or the target cannot hold the configuration."""
    _check_memory("the memory of this node", plan.node_host_bytes, host.available_bytes())
    gpu_free = plan.device.free_bytes()
    if gpu_free is not None:
        _check_memory("the memory of the GPU", plan.gpu_bytes, gpu_free)
    target.check_space(plan.max_disk_bytes)


def _check_memory(holder: str, needed_bytes: int, available_bytes: int) -> None:
    if needed_bytes > available_bytes:
        rule = f"has {bytes_text(available_bytes)} available, but its ranks need {bytes_text(needed_bytes)}"
        raise too_small(holder, rule)


_MARGIN = 1.2
"""A larger write is faster, because it starts as often as a small one."""


def enough_bytes(tried_bytes: int, seconds: float) -> Iterator[int]:
    """Offer sizes with which an operation takes five seconds or less, where `tried_bytes` took `seconds`.

    Multiples of what was tried by powers of two, down to it: the first that fits is taken. In steps so coarse, noise
    seldom gives the same storage another size on another night, with which no earlier run would be compared.

    >>> list(enough_bytes(256, 0.5)), list(enough_bytes(256, 0.55)), list(enough_bytes(256, 6.0))
    ([4096, 2048, 1024, 512, 256], [4096, 2048, 1024, 512, 256], [256])
    """
    times = 2 ** max(0, math.ceil(math.log2(_MARGIN * SHORT_SECONDS / seconds))) if seconds < SHORT_SECONDS else 1
    while times > 1:
        yield times * tried_bytes
        times //= 2
    yield tried_bytes
