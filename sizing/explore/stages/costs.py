"""What a stage of any layers costs on any kind of node: time of a microbatch, and memory of its fullest GPU."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sizing.cluster import ResolvedKind
from sizing.explore.stages.checks import check_kinds, counted_work, timed_execution
from sizing.layout.cells import Cell, cells_of
from sizing.layout.layout import trained_inventory
from sizing.layout.shards import content_of
from sizing.layout.stages import StageSpan, stage_spans
from sizing.scenario import Scenario
from sizing.sized import sized
from sizing.training import gpu_memory
from sizing.training.execution import value_bytes
from sizing.training.memory.gpu_memory import GpuMemory
from sizing.training.memory.state_memory import GRADIENT_BYTES_PER_PARAMETER, StateRule
from sizing.training.time.achieved import achieved_rates
from sizing.training.time.step import StepTime
from sizing.training.time.step_time import StateBytes, step_time
from sizing.training.unlike.partition import Costs, Placed

_BOTH_WAYS = 2
"""Activations come from the stage before, their gradients go back."""
_NOTHING = content_of((), ())
_NO_OTHER_SPLIT = {
    "first_stage_layers": None,
    "last_stage_layers": None,
    "embedding_counts_as_layer": None,
    "loss_counts_as_layer": None,
}


class Step(NamedTuple):
    """A step over some stages, with the time of a microbatch on each."""

    stage_seconds: list[float]
    seconds: float
    tokens_per_second: float


class StageCosts:
    """A scenario whose stages may hold any layers, on nodes of some kinds with a share of their memory kept free.

    Raises InvalidInput where memory or time of some stage cannot be computed.
    """

    def __init__(self, scenario: Scenario, kinds: tuple[ResolvedKind, ...], *, headroom_fraction: float) -> None:
        check_kinds(kinds)
        self._training, self._parallelism, self.kinds = scenario.training, scenario.parallelism, kinds
        self.execution = timed_execution(self._training, self._parallelism)
        self._asked = sized(scenario.model_copy(update={"cluster": kinds[0].alone}))
        self._work = counted_work(self._asked.model)
        self._inventory = trained_inventory(self._asked.model.inventory, self._training)
        self.num_layers, self.num_stages = self._asked.model.num_layers, self._parallelism.pipeline
        self._left_free = 1.0 - headroom_fraction
        self._like = _Likeness.of(
            [group.layers for group in self._inventory] + [layers for layers, _ in self._work.kinds], self.num_layers
        )
        self._memory: dict[tuple[int, int], GpuMemory] = {}
        self._seconds = functools.cache(self._seconds_of)
        self.seconds = functools.cache(self._masked_seconds)

    def layer_seconds(self, kind: int) -> float:
        """Time of a microbatch on a stage of the first layer alone, without head."""
        return float(self._seconds(kind, False)[self._like.numbers[0, 1]])

    def room_bytes(self, kind: int) -> float:
        """Bytes of a GPU of the kind that may be used."""
        return (self.kinds[kind].node.spec.gpu_memory_bytes or 0) * self._left_free

    def memory(self, stage: int, first: int, past: int) -> GpuMemory:
        """What the fullest GPU of a stage needs with the layers from `first` up to those before `past`."""
        key = (stage, int(self._like.numbers[first, past]))
        if key not in self._memory:
            self._memory[key] = self._memory_of(stage, first, past)
        return self._memory[key]

    def _masked_seconds(self, stage: int, kind: int, before: int | None) -> Costs:
        """Times of a microbatch on a stage by its layers: infinity where they do not fit, or leave others none."""
        costs = np.full((self.num_layers + 1,) * 2, np.inf)
        is_last = stage == self.num_stages - 1
        times, waited = self._seconds(kind, is_last), self.transfer_seconds(kind, before)
        for first in self._firsts(stage):
            longest = self._longest(stage, kind, first)
            pasts = slice(longest, longest + 1) if is_last else slice(first + 1, longest + 1)
            if longest == self.num_layers or not is_last:
                costs[first, pasts] = times[self._like.numbers[first, pasts]] + waited
        return costs

    def missing(self, stage: int, kind: int, _: int | None) -> Costs:
        """Bytes by which a GPU of a stage has too little memory, by its layers; negative where some is left."""
        costs = np.full((self.num_layers + 1,) * 2, np.inf)
        for first in self._firsts(stage):
            for past in self._pasts(stage, first):
                costs[first, past] = self.memory(stage, first, past).needed_bytes - self.room_bytes(kind)
        return costs

    def transfer_seconds(self, kind: int, before: int | None) -> float:
        """What a stage waits longer for the stage before where that is on slower adapters or on other nodes.

        2 (a/min(r, r') - a/r0) at least 0: a bytes of activations; r and r' what the adapters of both kinds carry for
        a GPU, r0 the rate within a kind, which the time of a stage has already. Source: definition.
        """
        if before is None or before == kind:
            return 0.0
        rates = [self._network_rate(each) for each in (kind, before)]
        tokens = self.execution.num_tokens / self.execution.num_sharing
        moved = value_bytes(self._training) * tokens * self._work.hidden
        return _BOTH_WAYS * max(0.0, moved / min(rates) - moved / self._rate_within(kind))

    def step(self, placed: Sequence[Placed]) -> Step:
        """A step over these stages: m max T + b/(1 - b) m mean T + max of exchanges + max of the optimizer's.

        T of a stage's microbatch, m microbatches, b what the schedule idles. Source: as step_time, whose parts of each
        stage these are.
        """
        kinds = [None, *(each.kind for each in placed)]
        parts = [self._parts(number, each) for number, each in enumerate(placed)]
        m, idle = self.execution.num_microbatches or 0, self.execution.bubble_fraction or 0.0
        times = [
            self._stage_seconds(part, each.kind) + self.transfer_seconds(each.kind, kinds[number])
            for number, (part, each) in enumerate(zip(parts, placed, strict=True))
        ]
        seconds = m * (max(times) + idle / (1 - idle) * sum(times) / len(times))
        seconds += max(part.exchange_seconds for part in parts) + max(part.optimizer_seconds for part in parts)
        batch = m * self.execution.micro_batch_size * self._parallelism.data
        return Step(times, seconds, batch * self.execution.sequence_length / seconds)

    def version_bytes(self, stage: int, each: Placed) -> float:
        """Bytes of one version of the weights of a stage, all its ranks of one replica together."""
        rule = StateRule.of(self._training, self._asked.laid_out.sharding)
        return sum(
            len(cell.tensor_ranks)
            * (
                rule.version_bytes(cell.dense, _NOTHING)
                + self._parallelism.expert * rule.version_bytes(_NOTHING, cell.expert)
            )
            for cell in self._cells(stage, each.first, each.past)
        )

    def sync_seconds(self, stage: int, each: Placed) -> float:
        """To push the updates of all parameters of a rank over its share of the adapters, and to pull them.

        2 w P/r: w bytes of a value, P parameters, r bytes per second. Source: definition.
        """
        parameters = max(
            cell.dense.parameters + cell.expert.parameters for cell in self._cells(stage, each.first, each.past)
        )
        return _BOTH_WAYS * value_bytes(self._training) * parameters / self._network_rate(each.kind)

    def _firsts(self, stage: int) -> range:
        """Layers that a stage may begin with so that each stage has one."""
        return range(1) if stage == 0 else range(stage, self.num_layers - self.num_stages + stage + 1)

    def _pasts(self, stage: int, first: int) -> range:
        """Where it may end then."""
        is_last = stage == self.num_stages - 1
        past = self.num_layers - self.num_stages + stage + 2
        return range(self.num_layers if is_last else first + 1, past)

    def _longest(self, stage: int, kind: int, first: int) -> int:
        """The last layer up to which a stage fits, as more layers never need less."""
        pasts, room = self._pasts(stage, first), self.room_bytes(kind)
        fitting = bisect.bisect_right(pasts, room, key=lambda past: self.memory(stage, first, past).needed_bytes)
        return pasts[fitting - 1] if fitting else first

    def _memory_of(self, stage: int, first: int, past: int) -> GpuMemory:
        asked = self._asked
        without_gpu = replace(asked.node, spec=asked.node.spec.model_copy(update={"gpu": None}))
        return gpu_memory(
            self._training,
            self._parallelism,
            cells=self._cells(stage, first, past),
            sharding=asked.laid_out.sharding,
            model=asked.model,
            node=without_gpu,
            work=self._work,
        )

    def _cells(self, stage: int, first: int, past: int) -> tuple[Cell, ...]:
        """The ranks of a stage with these layers, as the layout has them where other stages hold the rest."""
        layers = [0] * self.num_stages
        layers[0], layers[-1] = first, self.num_layers - past
        layers[stage] = past - first
        degrees = self._parallelism.model_copy(update=_NO_OTHER_SPLIT | {"layers_per_stage": tuple(layers)})
        spans = stage_spans(self._inventory, degrees, num_layers=self.num_layers)
        [span] = [each for each in spans if stage in each.stages]
        return cells_of([replace(span, stages=range(stage, stage + 1))], degrees, ())

    def _seconds_of(self, kind: int, is_last: bool) -> npt.NDArray[np.float64]:
        """Times of a microbatch by the number of the layers' likeness."""
        stage = self.num_stages - 1 if is_last else 0
        longest = self.num_layers - self.num_stages + 1
        times = np.full(len(self._like.examples), np.inf)
        for number, (first, past) in enumerate(self._like.examples):
            if first < past <= first + longest:
                span = StageSpan(range(stage, stage + 1), (range(first, past),), (), (), has_head=is_last)
                part = self._timed([Cell(span, range(1), _NOTHING, _NOTHING)], kind, state_bytes=0.0)
                times[number] = self._stage_seconds(part, kind)
        return times

    def _parts(self, stage: int, each: Placed) -> StepTime:
        state = self.memory(stage, each.first, each.past).gpu_state_bytes
        return self._timed(self._cells(stage, each.first, each.past), each.kind, state_bytes=state)

    def _timed(self, cells: Sequence[Cell], kind: int, *, state_bytes: float) -> StepTime:
        precision = (self._training.framework, self._training.precision)
        found = step_time(
            self._work,
            self._training,
            self._parallelism,
            execution=self.execution,
            cells=cells,
            sharding=self._asked.laid_out.sharding,
            node=self.kinds[kind].node,
            state=StateBytes(state_bytes, GRADIENT_BYTES_PER_PARAMETER[precision]),
        )
        assert found is not None  # noqa: S101  GPUs and microbatches are checked
        return found

    def _stage_seconds(self, part: StepTime, kind: int) -> float:
        """Of one microbatch: computation at the peak of the kind's GPUs, and what it waits for."""
        computing = part.compute_seconds / self.kinds[kind].flops_fraction
        return (computing + part.waiting_seconds) / (self.execution.num_microbatches or 1)

    def _rate_within(self, kind: int) -> float:
        """From a stage to the next one of the same kind: over the links of a node, or over the adapters."""
        spec = self.kinds[kind].node.spec
        if self._parallelism.ranks_per_stage < spec.gpus_per_node:
            return float("inf")
        return self._network_rate(kind)

    def _network_rate(self, kind: int) -> float:
        """What the adapters to other nodes carry for one GPU; infinite where they are not known."""
        spec, hides = self.kinds[kind].node.spec, self._asked.laid_out.sharding.gathers in ("layers", "modules")
        network = spec.compute_network_bytes_per_second
        achieved = achieved_rates(self._training, spec.gpu or "", hides_exchange=hides).network
        return float("inf") if network is None else network * achieved / spec.gpus_per_node


class _Likeness(NamedTuple):
    """Which runs of layers are alike: `numbers` by first layer and the one past the last, an example of each number."""

    numbers: npt.NDArray[np.int64]
    examples: list[tuple[int, int]]

    @classmethod
    def of(cls, patterns: Sequence[Sequence[int]], num_layers: int) -> _Likeness:
        """Alike are runs with as many layers of each pattern."""
        edges = np.arange(num_layers + 1)
        different = {tuple(layers) for layers in patterns if layers}
        before = np.array([np.searchsorted(layers, edges) for layers in sorted(different)] or [edges])
        counts = (before[:, None, :] - before[:, :, None]).reshape(len(before), -1)
        _, examples, numbers = np.unique(counts, axis=1, return_index=True, return_inverse=True)
        pairs = [divmod(int(place), num_layers + 1) for place in examples]
        return cls(numbers.reshape(num_layers + 1, num_layers + 1), pairs)
