"""Layouts that do not fit, or not without computing more: the least that training.offload must move off the GPU."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sizing.errors import InvalidInput
from sizing.explore.layouts.layouts_request import OBJECTIVES_OF_TIME, LayoutsRequest
from sizing.explore.layouts.search import Search, Tally, Weighed
from sizing.state import Training
from sizing.state.offload import OFFLOAD_RATES, Offload
from sizing.training import GpuMemory
from sizing.training.placement import OFFLOAD_RULES
from sizing.units import MAX_SECONDS

MAX_OFFLOADED = 40
"""Of the candidates that do not fit: some ten milliseconds each. The nearest or fastest come first, and what moves more
over the link is slower."""

ACTIVATION_STEPS = 20
"""Fractions of the activations that are tried: twentieths. A layer of a deep stage is less."""


def with_offload(request: LayoutsRequest, search: Search, tally: Tally) -> None:
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
    order: Callable[[Weighed], float] = _step if tally.fitting else _memory
    found: list[Weighed] = []
    for each in sorted(tally.tight, key=order)[:MAX_OFFLOADED]:
        if tally.fitting and _step(each) >= best:
            break
        fitting = [one for one in _offloaded(search, each) if one.step_seconds is not None or not has_time]
        best = min((best, *map(_step, fitting)))
        found += fitting
    tally.fitting += found
    if not tally.fitting and tally.tight:
        tally.emptied = min(_emptied(search, min(tally.tight, key=_memory)), key=_memory, default=None)


def _emptied(search: Search, tight: Weighed) -> Iterator[Weighed]:
    """With each choice of what leaves the GPU, and all activations where they can."""
    weigh = _Weigh(search, tight, search.question.memories(tight.parallelism))
    for state in _states(search, tight):
        with contextlib.suppress(InvalidInput):
            yield weigh.emptied(state)


def _step(weighed: Weighed) -> float:
    return weighed.step_seconds or math.inf


def _memory(weighed: Weighed) -> float:
    return weighed.gpu_bytes


def _offloaded(search: Search, tight: Weighed) -> Iterator[Weighed]:
    """With each choice of what leaves the GPU that fits it and the host, as long as more makes the step shorter."""
    best, weigh = math.inf, _Weigh(search, tight, search.question.memories(tight.parallelism))
    for state in _states(search, tight):
        try:
            found = weigh.least(state)
        except InvalidInput:
            continue
        if found is not None and (best == math.inf or _step(found) < best):
            yield found
            best = min(_step(found), MAX_SECONDS)


def _states(search: Search, tight: Weighed) -> Iterator[Offload]:
    """Nothing; the optimizer on the host, and the weights too; the same on drives: as far as the framework moves it."""
    rule = OFFLOAD_RULES[tight.training.framework]
    has_drives = search.question.node.spec.local_nvme_bytes is not None
    yield Offload()
    if "host" in rule.optimizer and not rule.is_joint:
        yield Offload(optimizer="host")
    if "host" in rule.weights:
        yield Offload(optimizer="host", weights="host")
    if "nvme" in rule.optimizer and has_drives:
        yield Offload(optimizer="nvme")
    if "nvme" in rule.weights and has_drives:
        yield Offload(optimizer="nvme", weights="nvme")


@dataclass(frozen=True, slots=True)
class _Weigh:
    """A candidate that does not fit, and what its GPUs hold by how it trains."""

    search: Search
    tight: Weighed
    memory_of: Callable[[Training], GpuMemory]

    def least(self, state: Offload) -> Weighed | None:
        """With so much of the state off the GPU, and the least fraction of the activations with which it fits."""
        alone = self._weighed(state) if state.moves else self.tight
        room = self.search.room_bytes
        if alone.gpu_bytes <= room:
            return alone if self._host_holds(alone) else None
        every = self.emptied(state)
        if every.gpu_bytes > room:
            return None
        missing = (alone.gpu_bytes - room) / (alone.gpu_bytes - every.gpu_bytes)
        found = self._with_fraction(state, math.ceil(missing * ACTIVATION_STEPS))
        found = found if found.gpu_bytes <= room else every
        return found if self._host_holds(found) else None

    def emptied(self, state: Offload) -> Weighed:
        """With so much of the state off the GPU, and all activations where the framework moves them."""
        moves_activations = OFFLOAD_RULES[self.tight.training.framework].moves_activations
        if self.tight.activation_bytes is None or not moves_activations:
            return self._weighed(state)
        return self._with_fraction(state, ACTIVATION_STEPS)

    def _with_fraction(self, state: Offload, twentieths: int) -> Weighed:
        return self._weighed(state.model_copy(update={"activations_fraction": twentieths / ACTIVATION_STEPS}))

    def _weighed(self, offload: Offload) -> Weighed:
        rates = self.search.offload_rates.model_dump(include=set(OFFLOAD_RATES))
        training = self.tight.training.model_copy(update={"offload": offload.model_copy(update=rates)})
        return replace(self.tight, training=training, memory=self.memory_of(training))

    def _host_holds(self, found: Weighed) -> bool:
        """Whether memory and drives of a node hold what its GPUs keep there; yes where nobody says how much it has."""
        spec, bytes_in = self.search.question.node.spec, self.search.question.host_state_bytes
        freed = self.tight.gpu_bytes - found.gpu_bytes
        activations = freed - (self.tight.memory.gpu_state_bytes - found.memory.gpu_state_bytes)
        in_memory = bytes_in(found.parallelism, found.training, place="host") + activations
        on_drives = bytes_in(found.parallelism, found.training, place="nvme")
        gpus = min(spec.gpus_per_node, self.search.num_gpus)
        kept = ((in_memory, spec.host_memory_bytes), (on_drives, spec.local_nvme_bytes))
        return all(capacity is None or gpus * num_bytes <= capacity for num_bytes, capacity in kept)


def offload_text(offload: Offload | None) -> str:
    """What lies off the GPU in a few words.

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
