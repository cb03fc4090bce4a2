"""One configuration as data, fixed before the clock: who writes, which files, bytes, memory and disk."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from io_bench.engines import Engine, EnginePlan
from io_bench.host import cpus, memory
from io_bench.payload.device import Device
from io_bench.payload.inventory import Inventory
from io_bench.payload.seeded_bytes import POOL_BYTES
from io_bench.payload.snapshot import SNAPSHOT_BYTES
from io_bench.payload.workload import Workload
from io_bench.planning.configuration import Configuration, writing_ranks
from io_bench.ranks.process_group import ProcessGroup
from io_bench.ranks.writers import Writers
from io_bench.target.directory.direct_io import ALIGNMENT_BYTES
from io_bench.target.target import Target
from io_bench.target.transfer import Transfer
from sizing.units import bytes_text

_Card = dict[str, Any]
"""What the writers tell each other of their plans."""

_STREAMED = "generated during the write and read back into the same buffers"


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """What one writer saves, and what that takes of its node."""

    inventory: Inventory
    engine_plan: EnginePlan
    host_bytes: int
    gpu_bytes: int

    @classmethod
    def of(
        cls, inventory: Inventory, engine_plan: EnginePlan, *, device: Device, transfer: Transfer | None
    ) -> WriterPlan:
        """Payload and pool stay in memory, on the GPU where there is one; engine and transfer add to that.

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
class Plan:
    """One configuration on one rank; `own` is None where the rank only waits.

    `engine_plans` and `payload_bytes` have one entry per writer and are the same on all ranks. At most one checkpoint
    is on disk: each repetition removes its own before the next one writes. Where there are several nodes and all
    writers save tensors of the same shapes, each restores what one on the next node has written. `cpus_of_node` is how
    many CPUs its writers can keep busy together. `transfer` is how the target moves files, where that is not up to the
    engine.
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
    transfer: Transfer | None = None

    @property
    def source_index(self) -> int:
        """The writer whose files this rank restores: its own, or those of a writer on another node."""
        index = self.writers.index or 0
        shift = self.configuration.writers_per_node if self.restores_from_other_node else 0
        return (index + shift) % len(self.engine_plans)

    @property
    def num_passes(self) -> int:
        """How often a repetition moves the checkpoint: written, read, and read again where it is not held in memory."""
        return 3 if any(plan.is_streamed for plan in self.engine_plans) else 2

    @property
    def max_disk_bytes(self) -> int:
        """Max bytes of all writers on disk."""
        return sum(plan.max_disk_bytes for plan in self.engine_plans)

    @property
    def files_of_rank(self) -> list[tuple[str, ...]]:
        """The files that each rank of the group makes."""
        files = dict(zip(self.writers.ranks, self.engine_plans, strict=True))
        return [files[rank].all_files if rank in files else () for rank in range(self.writers.group.num_ranks)]

    def needs(self) -> str:
        """What is written, and the memory and disk that it takes, in sentences; of this rank and its node."""
        own_needs = f"{self.workload_title} " if self.workload_title else ""
        if self.own is not None:
            gpu = f" and {bytes_text(self.own.gpu_bytes)} on its GPU" if self.device.is_gpu else ""
            own_needs += (
                f"Each rank needs {bytes_text(self.own.host_bytes)} of memory{gpu}: a payload of "
                f"{bytes_text(self.own.inventory.num_bytes)} in {self.own.inventory.num_tensors} tensors, "
                f"{_STREAMED if self.own.engine_plan.is_streamed else 'and the restored copy'}. "
            )
        return (
            f"{own_needs}The ranks of this node need {bytes_text(self.node_host_bytes)} in total; "
            f"{bytes_text(memory.available_bytes())} is available. "
            f"Max on disk: {bytes_text(self.max_disk_bytes)}, one checkpoint of all ranks."
        )


def plan_of(
    configuration: Configuration, workload: Workload, engine: Engine, target: Target, group: ProcessGroup
) -> Plan:
    """The plan of this rank, which knows what the others write. Exchanges with all ranks."""
    writers = Writers(writing_ranks(group.placements, configuration, max_writers=workload.max_writers), group)
    device = Device.of_local_rank(group.placement.local_rank)
    own, transfer = _own_plan(configuration, workload, engine, target, writers=writers, device=device)
    cards = writers.exchange(_card(own, device), doing="planning")
    here = _cards_by_node(writers, cards).get(group.placement.node, [])
    return Plan(
        configuration,
        writers,
        device,
        own,
        engine_plans=tuple(_engine_plan(card["engine"]) for card in cards),
        payload_bytes=tuple(card["payload_bytes"] for card in cards),
        workload_title=workload.described(len(writers.ranks)),
        node_host_bytes=sum(card["host_bytes"] for card in here),
        gpu_bytes=sum(card["gpu_bytes"] for card in here if card["gpu"] == device.identity),
        cpus_of_node={node: _num_cpus(of_node) for node, of_node in _cards_by_node(writers, cards).items()},
        restores_from_other_node=_restores_from_other_node(writers, cards, configuration.writers_per_node),
        transfer=transfer,
    )


def _own_plan(
    configuration: Configuration,
    workload: Workload,
    engine: Engine,
    target: Target,
    *,
    writers: Writers,
    device: Device,
) -> tuple[WriterPlan | None, Transfer | None]:
    """What this rank writes, and how the target moves it; neither where the rank only waits."""
    if writers.index is None:
        return None, None
    inventory = workload.inventory(writers.index)
    engine_plan = engine.plan(inventory, rank=writers.index, device=device)
    transfer = target.transfer(
        block_bytes=configuration.block_bytes,
        num_parallel=configuration.threads_per_rank,
        largest_file_bytes=engine_plan.max_disk_bytes,
    )
    return WriterPlan.of(inventory, engine_plan, device=device, transfer=transfer), transfer


def _cards_by_node(writers: Writers, cards: Sequence[_Card]) -> dict[str, list[_Card]]:
    return {node: [card for card, at in zip(cards, writers.nodes, strict=True) if at == node] for node in writers.nodes}


def _restores_from_other_node(writers: Writers, cards: Sequence[_Card], writers_per_node: int) -> bool:
    """Whether every writer's neighbor on the next node has tensors of the same shapes."""
    return _can_shift(writers, writers_per_node) and len({card["fingerprint"] for card in cards}) == 1


def _card(own: WriterPlan | None, device: Device) -> _Card | None:
    if own is None:
        return None
    return {
        "engine": dataclasses.asdict(own.engine_plan),
        "payload_bytes": own.inventory.num_bytes,
        "host_bytes": own.host_bytes,
        "gpu": device.identity,
        "gpu_bytes": own.gpu_bytes,
        "cpus": cpus.allowed_cpus(),
        "cpu_limit": cpus.cgroup_limit(),
        "fingerprint": own.inventory.fingerprint,
    }


def _engine_plan(card: dict[str, Any]) -> EnginePlan:
    names = {key: tuple(card[key]) for key in ("files", "passing_files")}
    return EnginePlan(**card | names)


def _num_cpus(cards: Sequence[_Card]) -> float:
    """CPUs for the writers of a node: batch systems often give each its own, and a control group may grant less."""
    return min(len({cpu for card in cards for cpu in card["cpus"]}), cards[0]["cpu_limit"] or math.inf)


def _can_shift(writers: Writers, num_places: int) -> bool:
    """Whether the writer so many places on stands on another node, for each of them."""
    nodes = writers.nodes
    return all(node != nodes[(index + num_places) % len(nodes)] for index, node in enumerate(nodes))
