"""The whole run as data, fixed before the clock: files, bytes, memory and disk."""

from __future__ import annotations

from dataclasses import dataclass

from io_bench import host_memory
from io_bench.device import Device
from io_bench.engines import Engine, EnginePlan
from io_bench.errors import too_small
from io_bench.inventory import Inventory, inventory_of
from io_bench.payload import POOL_BYTES
from io_bench.process_group import ProcessGroup
from io_bench.request import Request
from io_bench.target import Target
from sizing.units import bytes_text


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run on one rank. `engine_plans` has one entry per rank, the same on all ranks.

    At most one checkpoint is on disk: each repetition removes its own before the next one writes.
    """

    run_id: str
    seed: int
    repetitions: int
    keep: bool
    target: Target
    inventory: Inventory
    device: Device
    rank: int
    num_local_ranks: int
    engine_plans: tuple[EnginePlan, ...]

    @property
    def engine_plan(self) -> EnginePlan:
        """The part of this rank."""
        return self.engine_plans[self.rank]

    @property
    def run_title(self) -> str:
        """Where the files go: a path or a URL."""
        return self.target.run_title(self.run_id)

    @property
    def most_disk_bytes(self) -> int:
        """What all ranks together have on disk at most."""
        return sum(plan.most_disk_bytes for plan in self.engine_plans)

    @property
    def rank_host_bytes(self) -> int:
        """Host memory that one rank needs: payload, pool, and what engine and target add."""
        resident = 0 if self.device.is_gpu else self.inventory.num_bytes + POOL_BYTES
        return resident + self.engine_plan.host_bytes + self.target.host_bytes

    @property
    def rank_gpu_bytes(self) -> int:
        """GPU memory that one rank needs; 0 on the CPU."""
        if not self.device.is_gpu:
            return 0
        return self.inventory.num_bytes + POOL_BYTES + self.engine_plan.gpu_bytes

    @property
    def node_host_bytes(self) -> int:
        """Host memory that the ranks of this node need together."""
        return self.rank_host_bytes * self.num_local_ranks

    def needs(self) -> str:
        """Memory and disk that the run will take, as a sentence."""
        gpu = f" and {bytes_text(self.rank_gpu_bytes)} on its GPU" if self.device.is_gpu else ""
        return (
            f"Needs per rank {bytes_text(self.rank_host_bytes)} of memory{gpu}: a payload of "
            f"{bytes_text(self.inventory.num_bytes)} in {self.inventory.num_tensors} tensors, and what it "
            f"restores. The ranks of this node together need {bytes_text(self.node_host_bytes)}; "
            f"{bytes_text(host_memory.available_bytes())} is available. "
            f"On disk at most {bytes_text(self.most_disk_bytes)}, one checkpoint of all ranks."
        )

    def check(self) -> None:
        """Raise InvalidInput where this rank's node or the target cannot hold the run."""
        _check_memory("the memory of this node", self.node_host_bytes, host_memory.available_bytes())
        gpu_free = self.device.free_bytes()
        if gpu_free is not None:
            _check_memory("the memory of the GPU", self.rank_gpu_bytes, gpu_free)
        self.target.check_space(self.most_disk_bytes)


def plan_of(request: Request, engine: Engine, group: ProcessGroup) -> RunPlan:
    """The plan of this rank. Raises InvalidInput where the run cannot fit."""
    device = Device.of_local_rank(group.placement.local_rank)
    inventory = inventory_of(request.options.bytes_per_rank)
    ranks = range(group.num_ranks)
    plan = RunPlan(
        run_id=request.run_id,
        seed=request.seed,
        repetitions=request.options.repetitions,
        keep=request.options.keep,
        target=request.target,
        inventory=inventory,
        device=device,
        rank=group.rank,
        num_local_ranks=group.num_local_ranks,
        engine_plans=tuple(engine.plan(inventory, rank=rank, device=device) for rank in ranks),
    )
    plan.check()
    return plan


def _check_memory(holder: str, needed_bytes: int, available_bytes: int) -> None:
    if needed_bytes > available_bytes:
        rule = f"has {bytes_text(available_bytes)} available where its ranks take {bytes_text(needed_bytes)}"
        raise too_small(holder, rule)
