"""Layouts that fit once the GPU keeps less: the fewest layers to compute again, or the least to offload."""

from __future__ import annotations

import bisect
import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS
from sizing.layout.chunks import LayerSplit
from sizing.questions.layouts.request import OBJECTIVES_OF_TIME, LayoutsRequest
from sizing.questions.layouts.search import Search, SizedCandidate, Tally
from sizing.state import Training
from sizing.state.offload import OFFLOAD_RATES, Offload
from sizing.training import GpuMemory
from sizing.units import MAX_SECONDS

MAX_REFINED = 200
"""Max layouts that are refined, as many as goodput is computed of. What is slower although nothing were computed again
is not among them."""


def recompute_fewest_layers(request: LayoutsRequest, search: Search, tally: Tally) -> None:
    """Replace what computes whole chunks again by what computes the fewest layers again, as far as it can be shown.

    A layout cannot take less time than with nothing computed again, which the search has tried: those come first for
    which that is least, and no more follow when it exceeds the last time that is shown.
    """
    if not wants_fewest_recomputed_layers(request, search):
        return
    floors = _find_floors(tally)
    times = sorted(each.step_seconds or math.inf for each in tally.fitting)
    shown = request.max_layouts if search.objective == "step-time" else MAX_REFINED
    refined: dict[int, SizedCandidate] = {}
    whole = [each for each in tally.fitting if each.recomputation == "full" and id(each.candidate) in floors]
    for each in sorted(whole, key=lambda sized_candidate: floors[id(sized_candidate.candidate)])[:MAX_REFINED]:
        if floors[id(each.candidate)] > times[min(shown, len(times)) - 1]:
            break
        refined[id(each)] = candidate = _find_fewest(search, each)
        bisect.insort(times, candidate.step_seconds or math.inf)
        times.remove(each.step_seconds or math.inf)
    tally.fitting = [refined.get(id(each), each) for each in tally.fitting]


def wants_fewest_recomputed_layers(request: LayoutsRequest, search: Search) -> bool:
    """Whether layouts that compute whole chunks again are replaced by what computes fewer layers again."""
    if request.partial_recomputation is not None:
        is_wanted = request.partial_recomputation
    else:
        is_wanted = search.objective in OBJECTIVES_OF_TIME
        is_wanted &= FRAMEWORKS[search.scenario.training.framework].counts_layers
    return is_wanted and search.scenario.training.recomputation is None


def _find_floors(tally: Tally) -> dict[int, float]:
    """Find the least time of each candidate that does not fit with less: that with nothing computed again."""
    return {
        id(each.candidate): each.step_seconds
        for each in tally.tight
        if each.recomputation == "none" and each.step_seconds is not None
    }


def _find_fewest(search: Search, sized_candidate: SizedCandidate) -> SizedCandidate:
    """Find the fewest layers with which a candidate fits: memory falls and time grows with every layer."""
    memory_of = search.question.memories(sized_candidate.parallelism)

    def recompute(layers: int) -> Training:
        return sized_candidate.training.model_copy(update={"recomputed_layers": layers})

    def fits(layers: int) -> bool:
        return memory_of(recompute(layers)).needed_bytes <= search.room_bytes

    split = LayerSplit.of(sized_candidate.parallelism, search.question.model(tensor=1).num_layers)
    longest = max(len(split.layers_in(chunk)) for chunk in range(split.num_chunks))
    layers = 1 + bisect.bisect_left(range(1, longest), True, key=fits)
    if layers >= longest:
        return sized_candidate
    return replace(sized_candidate, training=recompute(layers), memory=memory_of(recompute(layers)))


MAX_OFFLOADED = 40
"""Candidates that do not fit and are tried: some ten milliseconds each. The nearest or fastest come first, and what
moves more over the link is slower."""

ACTIVATION_STEPS = 20
"""Fractions of the activations that are tried: twentieths. A layer of a deep stage is less."""


def offload_least(request: LayoutsRequest, search: Search, tally: Tally) -> None:
    """Add what fits once some of it is off the GPU, where nothing fits or less would take less time.

    Of what does not fit, the candidates that would be faster than all that fit; where nothing fits, those that need the
    least. Host memory must hold what is moved, and with an objective of time the time of the step must be known.
    """
    if request.offload is False or search.scenario.training.moves_off_gpu:
        return
    has_time = search.objective in OBJECTIVES_OF_TIME
    if tally.fitting and not has_time:
        return
    best = min((each.step_seconds or math.inf for each in tally.fitting), default=math.inf)
    order: Callable[[SizedCandidate], float] = _step_seconds if tally.fitting else _gpu_bytes
    emptier: list[SizedCandidate] = []
    for each in sorted(tally.tight, key=order)[:MAX_OFFLOADED]:
        if tally.fitting and _step_seconds(each) >= best:
            break
        fitting = [one for one in _try_offloads(search, each) if one.step_seconds is not None or not has_time]
        best = min((best, *map(_step_seconds, fitting)))
        emptier += fitting
    tally.fitting += emptier
    if not tally.fitting and tally.tight:
        tally.emptied = min(_empty_gpu(search, min(tally.tight, key=_gpu_bytes)), key=_gpu_bytes, default=None)


def _empty_gpu(search: Search, tight: SizedCandidate) -> Iterator[SizedCandidate]:
    """Size the candidate with each choice of what leaves the GPU, and all activations where they can."""
    trial = _OffloadTrial(search, tight, search.question.memories(tight.parallelism))
    for state in _list_states(search, tight):
        with contextlib.suppress(InvalidInput):
            yield trial.size_emptied(state)


def _step_seconds(sized_candidate: SizedCandidate) -> float:
    return sized_candidate.step_seconds or math.inf


def _gpu_bytes(sized_candidate: SizedCandidate) -> float:
    return sized_candidate.gpu_bytes


def _try_offloads(search: Search, tight: SizedCandidate) -> Iterator[SizedCandidate]:
    """Try each choice of what leaves the GPU that fits it and the host, as long as more makes the step shorter."""
    best, trial = math.inf, _OffloadTrial(search, tight, search.question.memories(tight.parallelism))
    for state in _list_states(search, tight):
        try:
            candidate = trial.size_least(state)
        except InvalidInput:
            continue
        if candidate is not None and (best == math.inf or _step_seconds(candidate) < best):
            yield candidate
            best = min(_step_seconds(candidate), MAX_SECONDS)


def _list_states(search: Search, tight: SizedCandidate) -> Iterator[Offload]:
    """List what may leave: nothing, or what the framework moves, to the host or to the drives of a node."""
    yield Offload()
    has_drives = search.question.node.spec.local_nvme_bytes is not None
    yield from FRAMEWORKS[tight.training.framework].offload.choices(has_drives=has_drives)


@dataclass(frozen=True, slots=True)
class _OffloadTrial:
    """A candidate that does not fit, to be sized with less on its GPUs."""

    search: Search
    tight: SizedCandidate
    memory_of: Callable[[Training], GpuMemory]

    def size_least(self, state: Offload) -> SizedCandidate | None:
        """Size it with this state off the GPU, and the least fraction of the activations with which it fits."""
        alone = self._size(state) if state.moves else self.tight
        room = self.search.room_bytes
        if alone.gpu_bytes <= room:
            return alone if self._host_holds(alone) else None
        every = self.size_emptied(state)
        if every.gpu_bytes > room:
            return None
        missing = (alone.gpu_bytes - room) / (alone.gpu_bytes - every.gpu_bytes)
        candidate = self._size_with_fraction(state, math.ceil(missing * ACTIVATION_STEPS))
        candidate = candidate if candidate.gpu_bytes <= room else every
        return candidate if self._host_holds(candidate) else None

    def size_emptied(self, state: Offload) -> SizedCandidate:
        """Size it with this state off the GPU, and all activations where the framework moves them."""
        moves_activations = FRAMEWORKS[self.tight.training.framework].offload.moves_activations
        if self.tight.activation_bytes is None or not moves_activations:
            return self._size(state)
        return self._size_with_fraction(state, ACTIVATION_STEPS)

    def _size_with_fraction(self, state: Offload, twentieths: int) -> SizedCandidate:
        return self._size(state.model_copy(update={"activations_fraction": twentieths / ACTIVATION_STEPS}))

    def _size(self, offload: Offload) -> SizedCandidate:
        rates = self.search.offload_rates.model_dump(include=set(OFFLOAD_RATES))
        training = self.tight.training.model_copy(update={"offload": offload.model_copy(update=rates)})
        return replace(self.tight, training=training, memory=self.memory_of(training))

    def _host_holds(self, candidate: SizedCandidate) -> bool:
        """Whether memory and drives of a node hold what its GPUs keep there; yes where nobody says how much it has."""
        spec, bytes_in = self.search.question.node.spec, self.search.question.host_state_bytes
        freed = self.tight.gpu_bytes - candidate.gpu_bytes
        activations = freed - (self.tight.memory.gpu_state_bytes - candidate.memory.gpu_state_bytes)
        in_memory = bytes_in(candidate.parallelism, candidate.training, place="host") + activations
        on_drives = bytes_in(candidate.parallelism, candidate.training, place="nvme")
        gpus = min(spec.gpus_per_node, self.search.num_gpus)
        kept = ((in_memory, spec.usable_host_memory_bytes), (on_drives, spec.local_nvme_bytes))
        return all(capacity is None or gpus * num_bytes <= capacity for num_bytes, capacity in kept)


def offload_text(offload: Offload | None) -> str:
    """Put into a few words what lies off the GPU.

    >>> offload_text(Offload(optimizer="host", activations_fraction=0.25))
    'optimizer, 25 % of activations'
    """
    if offload is None:
        return "none"
    places = {"optimizer": offload.optimizer, "weights": offload.weights}
    parts = [name if place == "host" else f"{name} on {place}" for name, place in places.items() if place != "none"]
    if offload.activations_fraction is not None:
        parts.append(f"{offload.activations_fraction:.0%}".replace("%", " % of activations"))
    return ", ".join(parts) or "none"
