"""What would run instead: the same degrees with more recomputation, else the nearest degrees on the same GPUs."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections.abc import Iterator

from sizing.errors import InvalidInput
from sizing.layout import Parallelism
from sizing.layout.degrees import DegreeSearch, degrees_text
from sizing.training.gpu_memory import GpuMemory
from sizing.training.memory_question import RECOMPUTATIONS, MemoryQuestion
from sizing.units import decimal_bytes_text

MOST_TRIED = 100
"""Degrees beside the given ones. An answer must not take long; the layout search tries all."""

_EXPERT_FACTORS = (1, 2, 4, 8)


def memory_warnings(memory: GpuMemory, question: MemoryQuestion, given: Parallelism) -> Iterator[str]:
    """What a reader must know before believing that the layout runs."""
    if question.training.micro_batch_size is not None and memory.total_bytes is None:
        yield "activations are not known: they need the model's architecture, and only a number of parameters is given"
    if memory.runs is not False:
        return
    if memory.total_bytes is None:
        needs, remedy = "training state needs", "raise parallelism.tensor or parallelism.pipeline"
    else:
        needs, remedy = "training state and its activations need", _remedy(memory, question, given)
    needed, capacity = decimal_bytes_text(memory.needed_bytes), decimal_bytes_text(memory.gpu_memory_bytes or 0)
    yield f"the {needs} {needed} on the fullest GPU, which has {capacity}: this layout cannot run; {remedy}"


def _remedy(memory: GpuMemory, question: MemoryQuestion, given: Parallelism) -> str:
    """The nearest that runs, in words."""
    stronger = RECOMPUTATIONS[RECOMPUTATIONS.index(memory.recomputation or "none") :]
    least: tuple[int, str] | None = None
    for parallelism in itertools.chain([given], _by_distance(question, given)):
        try:
            found = question.memory(parallelism, room_bytes=memory.gpu_memory_bytes or 0, recomputations=stronger)
        except InvalidInput:
            continue
        words = f"{degrees_text(parallelism)} and recomputation {found.recomputation}"
        if found.runs:
            return f"the nearest that can has {words}: {decimal_bytes_text(found.needed_bytes)}"
        if least is None or found.needed_bytes < least[0]:
            least = found.needed_bytes, words
    needed, words = least or (memory.needed_bytes, degrees_text(given))
    return (
        f"none of the degrees tried on these GPUs can, and {words} comes nearest with {decimal_bytes_text(needed)}: "
        "take more GPUs or a smaller micro_batch_size, or ask ckpt-size layouts"
    )


def _by_distance(question: MemoryQuestion, given: Parallelism) -> Iterator[Parallelism]:
    """Degrees on the same GPUs, those with the fewest doublings and halvings first."""
    search = DegreeSearch(
        model=question.model(tensor=given.tensor),
        training=question.training,
        format_name=question.format_name,
        given=given,
        num_gpus=given.num_gpus,
        gpus_per_node=question.node.spec.gpus_per_node,
        contexts=(given.context,),
        experts=_experts(question, given),
    )
    near = heapq.nsmallest(MOST_TRIED, search.combinations(), key=lambda degrees: _distance(degrees, given))
    for degrees in near:
        with contextlib.suppress(InvalidInput):
            yield search.fitting(degrees)


def _experts(question: MemoryQuestion, given: Parallelism) -> list[int]:
    """The given expert degree and some multiples."""
    architecture = question.model(tensor=given.tensor).architecture
    num_experts = (architecture.num_experts if architecture else None) or given.expert
    return [given.expert * factor for factor in _EXPERT_FACTORS if num_experts % (given.expert * factor) == 0]


def _distance(degrees: dict[str, int], given: Parallelism) -> float:
    return sum(abs(math.log2(degrees[name] / getattr(given, name))) for name in ("tensor", "pipeline", "expert"))
