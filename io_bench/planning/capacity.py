"""Whether a plan fits: into the memory of the node and of its GPUs, and into the target."""

from __future__ import annotations

from io_bench.errors import too_small
from io_bench.host import memory
from io_bench.planning.plan import Plan
from io_bench.target.target import Target
from sizing.units import bytes_text


def fits_memory(plan: Plan) -> bool:
    """Whether this rank's node can hold what its ranks need."""
    return plan.node_host_bytes <= memory.available_bytes()


def check_room(plan: Plan, target: Target) -> None:
    """Raise InvalidInput where this rank's node or the target cannot hold the configuration."""
    _check_memory("the memory of this node", plan.node_host_bytes, memory.available_bytes())
    gpu_free = plan.device.free_bytes()
    if gpu_free is not None:
        _check_memory("the memory of the GPU", plan.gpu_bytes, gpu_free)
    target.check_space(plan.max_disk_bytes)


def _check_memory(holder: str, needed_bytes: int, available_bytes: int) -> None:
    if needed_bytes > available_bytes:
        rule = f"has {bytes_text(available_bytes)} available, but its ranks need {bytes_text(needed_bytes)}"
        raise too_small(holder, rule)
