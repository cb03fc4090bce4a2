"""Which ranks write which files, by format: classes of equal ranks, each with its multiplicity."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sizing.layout.cells import unique_content
from sizing.layout.deepspeed import deepspeed
from sizing.layout.files import File, Plan, WriterClass
from sizing.layout.formats import FormatName, zero_stage_of
from sizing.layout.fsdp import fsdp_sharded
from sizing.layout.megatron import megatron, megatron_distributed_optimizer, torch_dist
from sizing.layout.parallelism import Parallelism


def writers_of(name: FormatName, plan: Plan) -> tuple[WriterClass, ...]:
    """The classes of writers of a format."""
    return tuple(_WRITERS[name](plan))


def writers_per_stage(name: FormatName, parallelism: Parallelism) -> int:
    """Consecutive ranks, from the first of each stage on, that write.

    Source: `writers` of the format's row in `formats.py`.

    >>> writers_per_stage("megatron", Parallelism(tensor=8, data=6))
    8
    """
    match name:
        case "full":
            return 1
        case "megatron" | "megatron-distributed-optimizer":
            return parallelism.tensor * parallelism.expert
        case "deepspeed" if zero_stage_of(name, parallelism) == 0:
            return parallelism.tensor * parallelism.expert
        case _:
            return parallelism.ranks_per_stage


def _full(plan: Plan) -> Iterator[WriterClass]:
    span = plan.spans[0]
    dense, expert = unique_content(span, plan.parallelism, plan.parts)
    file = File("checkpoint.pt", dense.part_bytes, expert.part_bytes, dense.num_tensors() + expert.num_tensors())
    yield WriterClass(span, range(1), 1, range(1), (file,))


_WRITERS: dict[FormatName, Callable[[Plan], Iterator[WriterClass]]] = {
    "megatron": megatron,
    "megatron-distributed-optimizer": megatron_distributed_optimizer,
    "torch-dist": torch_dist,
    "deepspeed": deepspeed,
    "fsdp-sharded": fsdp_sharded,
    "full": _full,
}
