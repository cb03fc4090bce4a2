"""Search for what fits: the memory of a model under any degrees, and the nearest layout that fits."""

from __future__ import annotations

import contextlib
import copy
import functools
import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, get_args

from sizing.cluster import ResolvedNode
from sizing.errors import InvalidInput
from sizing.frameworks import FRAMEWORKS, resident_statistics
from sizing.layout import Parallelism
from sizing.layout.degrees import DegreeSearch, degrees_text
from sizing.layout.formats import CheckpointFormat, formats_of, is_allowed
from sizing.layout.fsdp_shards import FsdpMesh
from sizing.layout.holders import HolderClass
from sizing.layout.sharding import (
    ZERO_STAGE_OF_WEIGHTS,
    Sharding,
    has_distributed_optimizer,
    zero_stage_of,
)
from sizing.layout.trained_model import resolved_model
from sizing.model import Model, ResolvedModel
from sizing.state import StatePart, Training
from sizing.state.offload import Offload, Place
from sizing.state.optimizers import needs_whole_matrices
from sizing.state.training import Recomputation
from sizing.training.activations import uncounted_activations
from sizing.training.gpu_memory import GpuMemory, gpu_memory, holders_in_training
from sizing.training.in_flight import Gathered, gathered_of
from sizing.training.layer_work import model_work
from sizing.training.state_memory import StateRule, state_bytes_off_gpu
from sizing.units import counted_text, decimal_bytes_text, percent_text

RECOMPUTATIONS: tuple[Recomputation, ...] = get_args(Recomputation)
"""Recomputations from the max memory to the min."""

_REPLICAS: dict[str, Any] = {"context": 1, "data": 1, "shard_group": None, "zero_stage": None}
"""Degrees that say how many ranks hold a tensor, not which ranks of a replica do."""

HEADROOM_FRACTION = 0.1
"""Share of a GPU's memory that is kept for what is not counted, where no other is asked for."""


class MemoryQuestion:
    """Memory question: what a GPU holds of a model under any degrees, for given training, format and node."""

    def __init__(self, model: Model, training: Training, *, saved_as: CheckpointFormat, node: ResolvedNode) -> None:
        self.training = training
        self.allows: Callable[[Sharding, Parallelism], bool] = lambda _sharding, _parallelism: True
        self.saved_as = saved_as
        self.node = node
        self._resolved = functools.cache(lambda tensor: resolved_model(model, training, Parallelism(tensor=tensor)))
        self._work = functools.cache(lambda tensor: model_work(self._resolved(tensor), training))
        self._known_holders: dict[
            tuple[Parallelism, bool, FsdpMesh | None, tuple[StatePart, ...]], Sequence[HolderClass]
        ] = {}

    def model(self, *, tensor: int) -> ResolvedModel:
        """Return the model as this many tensor ranks hold it."""
        return self._resolved(tensor)

    def with_distributed_optimizer(self) -> MemoryQuestion:
        """Return the same question with the optimizer divided over the replicas."""
        other = copy.copy(self)
        other.training = self.training.model_copy(update={"distributed_optimizer": True})
        return other

    def within(self, allows: Callable[[Sharding, Parallelism], bool]) -> MemoryQuestion:
        """Return the same question whose suggestions are only layouts that `allows` lets pass."""
        other = copy.copy(self)
        other.allows = allows
        return other

    def sharding(self, parallelism: Parallelism) -> Sharding:
        """Return how replicas divide the state."""
        return self.saved_as.sharding(self.training, parallelism)

    def memory(
        self, parallelism: Parallelism, *, room_bytes: float, recomputations: Sequence[Recomputation]
    ) -> GpuMemory:
        """Return the memory with the first recomputation that fits the room, or with the last one if none fits.

        Raises InvalidInput where batch and degrees do not go together.
        """
        *_, memory = self.try_each(parallelism, room_bytes=room_bytes, recomputations=recomputations)
        return memory

    def try_each(
        self,
        parallelism: Parallelism,
        *,
        room_bytes: float,
        recomputations: Sequence[Recomputation],
        training: Training | None = None,
    ) -> Iterator[GpuMemory]:
        """Yield the memory with one recomputation after another, until one fits the room.

        `training`: another batch or schedule than the question's.
        Raises InvalidInput where batch and degrees do not go together.
        """
        memory_of = self.memories(parallelism)
        for recomputation in recomputations:
            memory = memory_of((training or self.training).model_copy(update={"recomputation": recomputation}))
            yield memory
            if memory.needed_bytes <= room_bytes:
                break

    def memories(self, parallelism: Parallelism) -> Callable[[Training], GpuMemory]:
        """Return a function from training to GPU memory. What the degrees alone decide is computed once.

        The function raises InvalidInput where batch and degrees do not go together.
        """
        sharding = self.sharding(parallelism)

        def memory_of(training: Training) -> GpuMemory:
            return gpu_memory(
                training,
                parallelism,
                holders=self._holders(parallelism, training, sharding),
                sharding=sharding,
                model=self.model(tensor=parallelism.tensor),
                node=self.node,
                work=self._work(parallelism.tensor),
            )

        return memory_of

    def host_state_bytes(self, parallelism: Parallelism, training: Training, *, place: str) -> float:
        """Return the bytes of state that the fullest rank keeps in a place off its GPU."""
        sharding = self.sharding(parallelism)
        holders, rule = self._holders(parallelism, training, sharding), StateRule.of(training, sharding)
        return state_bytes_off_gpu(training, parallelism, place=place, holders=holders, rule=rule)

    def _holders(self, parallelism: Parallelism, training: Training, sharding: Sharding) -> Sequence[HolderClass]:
        is_folded = training.folds_pipeline
        statistics = resident_statistics(training, is_sharded=sharding.weights.dense > 1)
        key = parallelism.model_copy(update=_REPLICAS), is_folded, sharding.mesh, statistics
        if key not in self._known_holders:
            model = self.model(tensor=parallelism.tensor)
            self._known_holders[key] = holders_in_training(model, training, parallelism, sharding)
        return self._known_holders[key]

    def may_divide(self, given: Parallelism) -> bool:
        """Return whether each replica holds all state, and FSDP would divide it."""
        is_whole = FRAMEWORKS[self.training.framework].shards == "shard-group" and given.shard_group is None
        return is_whole and not needs_whole_matrices(self.training.optimizer)

    def gathered(self, parallelism: Parallelism) -> Gathered | None:
        """Return what FSDP or ZeRO 3 gathers at one time; None where the model is not sharded over several ranks."""
        inventory = self.model(tensor=parallelism.tensor).inventory
        return gathered_of(inventory, self.training, parallelism, self.sharding(parallelism))

    def remedies(self, given: Parallelism) -> str:
        """Suggest in words how a GPU would hold less than under any degrees on as many GPUs."""
        per_node = self.node.spec.gpus_per_node
        more = "Use more"
        if self.may_divide(given):
            takes_group = "shard_group" in self.saved_as.takes
            way = "by parallelism.shard_group" if takes_group else "with training.framework fsdp2"
            more = f"Divide the state {way} over these or more"
        more += " GPUs" + (f" in whole nodes of {per_node}" if given.num_gpus % per_node else "")
        return more + (", a smaller micro_batch_size" if (self.training.micro_batch_size or 1) > 1 else "")


MAX_TRIED = 100
"""Degrees near the given ones. An answer must not take long; the layout search tries all."""

_EXPERT_FACTORS = (1, 2, 4, 8)
"""Factors by which more expert ranks are tried: the usual powers of two of a node."""


def no_fit_text(num_gpus: int, needs: str, *, needed_bytes: int, gpu_memory_bytes: int, headroom: str = "") -> str:
    """Say that a model does not fit on these GPUs, without a full stop; `needs` is what needs memory, with its verb.

    >>> no_fit_text(8, "training state needs", needed_bytes=920 * 10**9, gpu_memory_bytes=80 * 10**9)
    'Does not fit on 8 GPUs: training state needs 920.0 GB on the fullest GPU, which has 80.00 GB'
    """
    needed, capacity = decimal_bytes_text(needed_bytes), decimal_bytes_text(gpu_memory_bytes)
    fits_not = f"Does not fit on {counted_text(num_gpus, 'GPU')}{headroom}"
    return f"{fits_not}: {needs} {needed} on the fullest GPU, which has {capacity}"


class CannotRun(NamedTuple):
    """Reason why a layout cannot run, without a full stop, and remedies as sentences."""

    because: str
    remedy: str
    is_sure: bool = True
    """Whether it cannot; it may where only the headroom is missing."""

    @property
    def sentence(self) -> str:
        """A warning with the reason and the remedy."""
        return f"{self.because}; this layout {'cannot' if self.is_sure else 'may not'} run. {self.remedy}"


def memory_warnings(memory: GpuMemory, question: MemoryQuestion, given: Parallelism) -> Iterator[str]:
    """Warn about the memory of a layout, beside what `cannot_run` says.

    Gathered weights may not fit where no batch says what else is held.
    """
    if question.training.micro_batch_size is not None and memory.total_bytes is None:
        yield from filter(None, [uncounted_activations(question.model(tensor=given.tensor))])
    gathered = question.gathered(given) if memory.runs is not False and memory.total_bytes is None else None
    capacity = memory.gpu_memory_bytes or math.inf
    if gathered is not None and memory.needed_bytes + gathered.num_bytes > capacity:
        needed = decimal_bytes_text(memory.needed_bytes + gathered.num_bytes)
        yield (
            f"{gathered.text}, {decimal_bytes_text(gathered.num_bytes)} that are not counted. With them the fullest "
            f"GPU needs {needed} of {decimal_bytes_text(capacity)}: this layout may not run"
        )
    offload = question.training.offload
    is_on_drives = offload is not None and "nvme" in (offload.optimizer, offload.weights)
    lacks_rate = is_on_drives and offload is not None and offload.nvme_bytes_per_second is None
    if memory.step is None and memory.num_microbatches is not None and lacks_rate:
        yield "Time of a step not computed: state lies on NVMe drives. Give training.offload.nvme_bytes_per_second"


def cannot_run(memory: GpuMemory, question: MemoryQuestion, given: Parallelism) -> CannotRun | None:
    """Explain why the layout cannot run and what could; None where it may run or the GPU's memory is unknown."""
    if memory.runs is not False:
        return None
    needs = "training state needs" if memory.total_bytes is None else "training state and activations need"
    capacity = memory.gpu_memory_bytes or 0
    room_bytes = int(capacity * (1 - HEADROOM_FRACTION))
    stronger = RECOMPUTATIONS[RECOMPUTATIONS.index(memory.recomputation or "none") :]
    remedies = ". ".join(
        (
            *_suggest_distributed_optimizer(question, given, room_bytes=room_bytes, recomputations=stronger),
            *suggest_shard_group(question, given, room_bytes=room_bytes, recomputations=stronger),
            _describe_nearest(memory, question, given, room_bytes=room_bytes, recomputations=stronger),
        )
    )
    because = no_fit_text(given.num_gpus, needs, needed_bytes=memory.needed_bytes, gpu_memory_bytes=capacity)
    return CannotRun(because, remedies)


def _suggest_distributed_optimizer(
    question: MemoryQuestion, given: Parallelism, *, room_bytes: int, recomputations: Sequence[Recomputation]
) -> Iterator[str]:
    """Suggest to divide the optimizer over the replicas, where the framework can and that is enough."""
    takes = "distributed_optimizer"
    able = [each for each in formats_of(question.training.framework) if takes in each.takes]
    if not able or has_distributed_optimizer(question.training) or given.num_replicas == 1:
        return
    divided = question.with_distributed_optimizer()
    if not divided.allows(divided.sharding(given), given):
        return
    memory = divided.memory(given, room_bytes=room_bytes, recomputations=recomputations)
    if memory.needed_bytes <= room_bytes:
        names = " or ".join(each.name for each in able if is_allowed(each, divided.training, given))
        in_format = "" if takes in question.saved_as.takes else f" and checkpoint.format {names}"
        recomputed = f" and recomputation {memory.recomputation}" if memory.recomputation else ""
        yield (
            f"With training.distributed_optimizer true{in_format}{recomputed} it needs "
            f"{decimal_bytes_text(memory.needed_bytes)}"
        )


def suggest_shard_group(
    question: MemoryQuestion,
    given: Parallelism,
    *,
    room_bytes: int,
    recomputations: Sequence[Recomputation],
    has_own_batch: bool = True,
) -> Iterator[str]:
    """Suggest to divide all state over the replicas, where each holds all of it and that is enough.

    The recomputation of a batch that was assumed is chosen anew, so it is not named.
    """
    takes_group = "shard_group" in question.saved_as.takes
    if not (question.may_divide(given) and takes_group) or given.num_replicas == 1:
        return
    divided = given.model_copy(update={"shard_group": given.num_replicas})
    memory = question.memory(divided, room_bytes=room_bytes, recomputations=recomputations)
    if memory.needed_bytes <= room_bytes:
        recomputed = f" and recomputation {memory.recomputation}" if has_own_batch and memory.recomputation else ""
        yield (
            f"With parallelism.shard_group {given.num_replicas}{recomputed}, as FSDP divides the state, it needs "
            f"{decimal_bytes_text(memory.needed_bytes)}"
        )


def _describe_nearest(
    memory: GpuMemory,
    question: MemoryQuestion,
    given: Parallelism,
    *,
    room_bytes: int,
    recomputations: Sequence[Recomputation],
) -> str:
    """Describe the nearest layout that runs with the layout search's headroom free."""
    lowest = memory.needed_bytes, given, degrees_text(given)
    for parallelism in itertools.chain([given], _sort_by_distance(question, given)):
        try:
            tried = question.memory(parallelism, room_bytes=room_bytes, recomputations=recomputations)
        except InvalidInput:
            continue
        words = degrees_text(parallelism)
        if tried.recomputation is not None:
            words += f" and recomputation {tried.recomputation}"
        if tried.needed_bytes <= room_bytes:
            return f"The nearest layout that fits is {words}: {decimal_bytes_text(tried.needed_bytes)}"
        if tried.needed_bytes < lowest[0]:
            lowest = tried.needed_bytes, parallelism, words
    needed, nearest, words = lowest
    emptier = (
        offload_that_fits(question, degrees, room_bytes=room_bytes, recomputations=recomputations)
        for degrees in (given, nearest)
    )
    ways = (
        f"No degrees tried on these GPUs fit with {percent_text(HEADROOM_FRACTION)} headroom; "
        f"the nearest, {words}, needs {decimal_bytes_text(needed)}",
        *itertools.islice(filter(None, emptier), 1),
        f"{question.remedies(given)}, or run ckpt-size layouts",
    )
    return ". ".join(ways)


def offload_that_fits(
    question: MemoryQuestion, given: Parallelism, *, room_bytes: int, recomputations: Sequence[Recomputation]
) -> str | None:
    """Say what of the state may leave the GPUs so that the given degrees fit, the least that the framework can move.

    None where nothing helps: the GPU holds too much all the same, or the node cannot keep what leaves.
    """
    training, spec, gpus = question.training, question.node.spec, min(question.node.spec.gpus_per_node, given.num_gpus)
    gathered = question.gathered(given) if training.micro_batch_size is None else None
    room_bytes -= gathered.num_bytes if gathered else 0
    capacities: dict[Place, int | None] = {"host": spec.usable_host_memory_bytes, "nvme": spec.local_nvme_bytes}
    for choice in FRAMEWORKS[training.framework].offload.choices(has_drives=spec.local_nvme_bytes is not None):
        parts = choice.model_dump(exclude_unset=True)
        offload = (training.offload or Offload()).model_copy(update=parts)
        moved = training.model_copy(update={"offload": offload})
        try:
            *_, memory = question.try_each(given, room_bytes=room_bytes, recomputations=recomputations, training=moved)
        except InvalidInput:
            continue
        kept = {place: gpus * question.host_state_bytes(given, moved, place=place) for place in capacities}
        is_kept = all(num_bytes <= (capacities[place] or math.inf) for place, num_bytes in kept.items())
        if is_kept and memory.needed_bytes <= room_bytes:
            recomputed = {"recomputation": memory.recomputation} if memory.recomputation else {}
            named = {f"training.offload.{part}": place for part, place in parts.items()} | recomputed
            ways = " and ".join(f"{name} {value}" for name, value in named.items())
            off_gpu = " and ".join(
                f"{decimal_bytes_text(kept[place])} {name}" for place, name in _PLACES.items() if kept[place]
            )
            needed = memory.needed_bytes + (gathered.num_bytes if gathered else 0)
            on_gpu = f"{decimal_bytes_text(needed)} on the fullest GPU, and " if needed else ""
            return f"With {ways}, {degrees_text(given)} fits: {on_gpu}a node keeps {off_gpu}"
    return None


_PLACES: dict[Place, str] = {"host": "in host memory", "nvme": "on its drives"}


def _sort_by_distance(question: MemoryQuestion, given: Parallelism) -> Iterator[Parallelism]:
    """Yield degrees on the same GPUs, the fewest doublings and halvings first. What is sharded stays sharded.

    A stage of ZeRO counts as a doubling; of equally near degrees those with fewer pipeline stages come first.
    """
    takes_zero = "zero_stage" in question.saved_as.takes
    num_experts = question.model(tensor=given.tensor).num_experts or given.expert
    expert_degrees = (given.expert * factor for factor in _EXPERT_FACTORS)
    search = DegreeSearch(
        model=question.model(tensor=given.tensor),
        training=question.training,
        saved_as=question.saved_as,
        given=given.model_copy(update={"shard_group": None}),
        num_gpus=given.num_gpus,
        num_linked_gpus=question.node.spec.num_linked_gpus,
        contexts=(given.context,),
        experts=[degree for degree in expert_degrees if num_experts % degree == 0],
        zero_stages=range(zero_stage_of(given), ZERO_STAGE_OF_WEIGHTS + 1) if takes_zero else (),
        shard_groups=given.shard_group is not None,
    )
    before = {"tensor": given.tensor, "pipeline": given.pipeline, "expert": given.expert, "group": given.shard_ranks}

    def distance(degrees: dict[str, int]) -> tuple[float, int]:
        after = degrees | {"group": degrees.get("shard_group", given.shard_ranks)}
        num_doublings = sum(abs(math.log2(after[name] / before[name])) for name in before)
        return num_doublings + degrees.get("zero_stage", 0), degrees["pipeline"]

    for degrees in heapq.nsmallest(MAX_TRIED, search.combinations(), key=distance):
        with contextlib.suppress(InvalidInput):
            parallelism = search.fitting(degrees)
            if question.allows(question.sharding(parallelism), parallelism):
                yield parallelism
