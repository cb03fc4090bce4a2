"""What would run instead: the same degrees with more recomputation, else the nearest degrees on the same GPUs."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.degrees import DegreeSearch, degrees_text
from sizing.layout.formats import formats_of
from sizing.layout.sharding import ZERO_STAGE_OF_WEIGHTS, has_distributed_optimizer, zero_stage_of
from sizing.state.offload import Offload
from sizing.state.training import Recomputation
from sizing.training.memory.activations import uncounted_activations
from sizing.training.memory.gpu_memory import GpuMemory
from sizing.training.memory.memory_question import HEADROOM_FRACTION, RECOMPUTATIONS, MemoryQuestion
from sizing.units import decimal_bytes_text, percent_text

MAX_TRIED = 100
"""Degrees near the given ones. An answer must not take long; the layout search tries all."""

_EXPERT_FACTORS = (1, 2, 4, 8)
"""By which more experts' ranks are tried: the usual powers of two of a node."""


class CannotRun(NamedTuple):
    """Why a layout cannot run, without a full stop, and what could, as sentences."""

    because: str
    remedy: str
    is_sure: bool = True
    """Whether it cannot; it may where only the headroom is missing."""

    @property
    def sentence(self) -> str:
        """Both, as a warning."""
        return f"{self.because}: this layout {'cannot' if self.is_sure else 'may not'} run. {self.remedy}"


def memory_warnings(memory: GpuMemory, question: MemoryQuestion, given: Parallelism) -> Iterator[str]:
    """What a reader must know of the memory of a layout, beside what `cannot_run` says."""
    if question.training.micro_batch_size is not None and memory.total_bytes is None:
        yield from filter(None, [uncounted_activations(question.model(tensor=given.tensor))])
    if memory.runs is not False:
        yield from _gathered(memory, question, given)
    if memory.step is None and memory.num_microbatches is not None and _lacks_rate_of_drives(question.training.offload):
        yield "Time of a step not computed: state lies on NVMe drives. Give training.offload.nvme_bytes_per_second"


def _lacks_rate_of_drives(offload: Offload | None) -> bool:
    return (
        offload is not None and offload.nvme_bytes_per_second is None and "nvme" in (offload.optimizer, offload.weights)
    )


def cannot_run(memory: GpuMemory, question: MemoryQuestion, given: Parallelism) -> CannotRun | None:
    """Why the layout cannot run and the nearest that can; None where it may run, or the GPU's memory is not known."""
    if memory.runs is not False:
        return None
    needs = "Training state needs" if memory.total_bytes is None else "Training state and activations need"
    needed, capacity = decimal_bytes_text(memory.needed_bytes), decimal_bytes_text(memory.gpu_memory_bytes or 0)
    room_bytes = int((memory.gpu_memory_bytes or 0) * (1 - HEADROOM_FRACTION))
    stronger = RECOMPUTATIONS[RECOMPUTATIONS.index(memory.recomputation or "none") :]
    remedies = ". ".join(
        (
            *_distributed_optimizer(question, given, room_bytes=room_bytes, recomputations=stronger),
            _nearest(memory, question, given, room_bytes=room_bytes, recomputations=stronger),
        )
    )
    return CannotRun(f"{needs} {needed} on the fullest GPU, which has {capacity}", remedies)


def _gathered(memory: GpuMemory, question: MemoryQuestion, given: Parallelism) -> Iterator[str]:
    """Whether what is gathered for a moment is too much where no batch says what else is held then."""
    if memory.total_bytes is not None:
        return
    found, capacity = question.gathered(given), memory.gpu_memory_bytes or math.inf
    if found is not None and memory.needed_bytes + found.num_bytes > capacity:
        needed = decimal_bytes_text(memory.needed_bytes + found.num_bytes)
        yield (
            f"{found.text}, {decimal_bytes_text(found.num_bytes)} that are not counted. With them the fullest GPU "
            f"needs {needed} of {decimal_bytes_text(capacity)}: this layout may not run"
        )


def _distributed_optimizer(
    question: MemoryQuestion, given: Parallelism, *, room_bytes: int, recomputations: Sequence[Recomputation]
) -> Iterator[str]:
    """The optimizer divided over the replicas, where the framework can, does not, and that is enough."""
    takes = "distributed_optimizer"
    able = [each for each in formats_of(question.training.framework) if takes in each.takes]
    if not able or has_distributed_optimizer(question.training) or given.num_replicas == 1:
        return
    asked = question.with_distributed_optimizer()
    found = asked.memory(given, room_bytes=room_bytes, recomputations=recomputations)
    if found.needed_bytes <= room_bytes:
        names = " or ".join(each.name for each in able)
        saved = "" if takes in question.saved_as.takes else f" and checkpoint.format {names}"
        recomputed = f" and recomputation {found.recomputation}" if found.recomputation else ""
        yield (
            f"With training.distributed_optimizer true{saved}{recomputed} it needs "
            f"{decimal_bytes_text(found.needed_bytes)}"
        )


def _nearest(
    memory: GpuMemory,
    question: MemoryQuestion,
    given: Parallelism,
    *,
    room_bytes: int,
    recomputations: Sequence[Recomputation],
) -> str:
    """The nearest that runs and leaves the layout search's headroom free, in words."""
    lowest: tuple[int, str] | None = None
    for parallelism in itertools.chain([given], _by_distance(question, given)):
        try:
            found = question.memory(parallelism, room_bytes=room_bytes, recomputations=recomputations)
        except InvalidInput:
            continue
        words = degrees_text(parallelism)
        if found.recomputation is not None:
            words += f" and recomputation {found.recomputation}"
        if found.needed_bytes <= room_bytes:
            return f"The nearest layout that fits is {words}: {decimal_bytes_text(found.needed_bytes)}"
        if lowest is None or found.needed_bytes < lowest[0]:
            lowest = found.needed_bytes, words
    needed, words = lowest or (memory.needed_bytes, degrees_text(given))
    nearest = f"the nearest, {words}, needs {decimal_bytes_text(needed)}"
    return (
        f"No degrees tried on these GPUs fit with {percent_text(HEADROOM_FRACTION)} headroom; {nearest}. "
        f"{question.remedies(given.num_gpus)}, or run ckpt-size layouts"
    )


def _by_distance(question: MemoryQuestion, given: Parallelism) -> Iterator[Parallelism]:
    """Degrees on the same GPUs, those with the fewest doublings and halvings first; what is sharded is so further."""
    takes_zero = "zero_stage" in question.saved_as.takes
    search = DegreeSearch(
        model=question.model(tensor=given.tensor),
        training=question.training,
        saved_as=question.saved_as,
        given=given.model_copy(update={"shard_group": None}),
        num_gpus=given.num_gpus,
        num_linked_gpus=question.node.spec.num_linked_gpus,
        contexts=(given.context,),
        experts=_experts(question, given),
        zero_stages=range(zero_stage_of(given), ZERO_STAGE_OF_WEIGHTS + 1) if takes_zero else (),
        shard_groups=given.shard_group is not None,
    )
    near = heapq.nsmallest(MAX_TRIED, search.combinations(), key=lambda degrees: _distance(degrees, given))
    for degrees in near:
        with contextlib.suppress(InvalidInput):
            yield search.fitting(degrees)


def _experts(question: MemoryQuestion, given: Parallelism) -> list[int]:
    """The given expert degree and some multiples."""
    num_experts = question.model(tensor=given.tensor).num_experts or given.expert
    return [given.expert * factor for factor in _EXPERT_FACTORS if num_experts % (given.expert * factor) == 0]


def _distance(degrees: dict[str, int], given: Parallelism) -> tuple[float, int]:
    """Doublings and halvings, and stages of ZeRO; of equally near ones fewer pipeline stages are better."""
    before = {"tensor": given.tensor, "pipeline": given.pipeline, "expert": given.expert, "group": given.shard_ranks}
    after = degrees | {"group": degrees.get("shard_group", given.shard_ranks)}
    moved = sum(abs(math.log2(after[name] / before[name])) for name in before)
    return moved + degrees.get("zero_stage", 0), degrees["pipeline"]
