"""Layouts that need full recomputation: the fewest layers of each model chunk with which they fit."""

from __future__ import annotations

import bisect
import math
from dataclasses import replace

from sizing.explore.layouts.layouts_request import OBJECTIVES_OF_TIME, LayoutsRequest
from sizing.explore.layouts.search import Search, Tally, Weighed
from sizing.layout.chunks import LayerSplit
from sizing.state import Training
from sizing.state.training import Framework

FRAMEWORKS_WITH_COUNTS: tuple[Framework, ...] = ("megatron", "fsdp2")
"""Megatron-LM takes --recompute-num-layers, and with FSDP2 the loop itself wraps layers. torchtitan and MaxText go by
lists of operations, DeepSpeed by the model's own code."""

MAX_REFINED = 200
"""As many as goodput is computed of: what is slower although nothing were computed again is not among them."""


def with_fewest_layers(request: LayoutsRequest, search: Search, tally: Tally) -> None:
    """Replace what computes whole chunks again by what computes the fewest layers again, as far as it can be shown.

    A layout cannot take less time than with nothing computed again, which the search has weighed: those come first for
    which that is least, and no more follow when it exceeds the last time that is shown.
    """
    if not _is_asked(request, search):
        return
    floors = _floors(tally)
    times = sorted(each.step_seconds or math.inf for each in tally.fitting)
    shown = request.max_layouts if search.objective == "step-time" else MAX_REFINED
    refined: dict[int, Weighed] = {}
    whole = [each for each in tally.fitting if each.recomputation == "full" and id(each.candidate) in floors]
    for each in sorted(whole, key=lambda weighed: floors[id(weighed.candidate)])[:MAX_REFINED]:
        if floors[id(each.candidate)] > times[min(shown, len(times)) - 1]:
            break
        refined[id(each)] = found = _with_fewest(search, each)
        bisect.insort(times, found.step_seconds or math.inf)
        times.remove(each.step_seconds or math.inf)
    tally.fitting = [refined.get(id(each), each) for each in tally.fitting]


def _is_asked(request: LayoutsRequest, search: Search) -> bool:
    if request.partial_recomputation is not None:
        is_wanted = request.partial_recomputation
    else:
        is_wanted = search.objective in OBJECTIVES_OF_TIME
        is_wanted &= search.scenario.training.framework in FRAMEWORKS_WITH_COUNTS
    return is_wanted and search.scenario.training.recomputation is None


def _floors(tally: Tally) -> dict[int, float]:
    """The least time of each candidate that does not fit with less: that with nothing computed again."""
    return {
        id(each.candidate): each.step_seconds
        for each in tally.tight
        if each.recomputation == "none" and each.step_seconds is not None
    }


def _with_fewest(search: Search, weighed: Weighed) -> Weighed:
    """Memory falls and time grows with every layer, so the first number that fits is the fastest."""
    memory_of = search.question.memories(weighed.parallelism)

    def asked(layers: int) -> Training:
        return weighed.training.model_copy(update={"recomputed_layers": layers})

    def fits(layers: int) -> bool:
        return memory_of(asked(layers)).needed_bytes <= search.room_bytes

    longest = _longest_chunk(search, weighed)
    layers = 1 + bisect.bisect_left(range(1, longest), True, key=fits)
    if layers >= longest:
        return weighed
    return replace(weighed, training=asked(layers), memory=memory_of(asked(layers)))


def _longest_chunk(search: Search, weighed: Weighed) -> int:
    """Max layers of a model chunk."""
    split = LayerSplit.of(weighed.parallelism, search.question.model(tensor=1).num_layers)
    return max(len(split.layers_in(chunk)) for chunk in range(split.num_chunks))
