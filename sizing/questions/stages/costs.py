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
from sizing.frameworks import FRAMEWORKS
from sizing.layout.holders import HolderClass, content_of, holder_classes
from sizing.layout.stages import StageSpan, stage_spans
from sizing.layout.trained_model import trained_inventory
from sizing.questions.stages.request import check_kinds, require_execution, require_work
from sizing.scenario import Scenario
from sizing.sized_layout import size_layout
from sizing.training import GpuMemory, gpu_memory
from sizing.training.execution import value_bytes
from sizing.training.links import exchange_of_replicas
from sizing.training.state_memory import StateRule
from sizing.training.step_time import TRAFFIC_OF_OPTIMIZER, ChunkSeconds, SlowestStage, Stage, time_passes
from sizing.training.unlike_workers import Costs, StagePlacement

_BOTH_WAYS = 2
"""Activations come from the stage before, their gradients go back."""
_NOTHING = content_of((), ())
_NO_OTHER_SPLIT = {
    "first_stage_layers": None,
    "last_stage_layers": None,
    "embedding_counts_as_layer": None,
    "loss_counts_as_layer": None,
}


class PipelineStep(NamedTuple):
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
        self.execution = require_execution(self._training, self._parallelism)
        self._layout = size_layout(scenario.model_copy(update={"cluster": kinds[0].alone}))
        self._work = require_work(self._layout.model, self._training)
        self._inventory = trained_inventory(self._layout.model.inventory, self._training)
        self.num_layers, self.num_stages = self._layout.model.num_layers, self._parallelism.pipeline
        self._left_free = 1.0 - headroom_fraction
        self._like = _Likeness.of(
            [group.layers for group in self._inventory] + [layers for layers, _ in self._work.kinds], self.num_layers
        )
        self._memory: dict[tuple[int, int], GpuMemory] = {}
        self._stage = functools.cache(self._stage_on)
        self._seconds = functools.cache(self._time_microbatches)
        self.seconds = functools.cache(self._mask_seconds)

    def layer_seconds(self, kind: int) -> float:
        """Return the time of a microbatch on a stage of the first layer alone, without head."""
        return float(self._seconds(kind, False)[self._like.numbers[0, 1]])

    def room_bytes(self, kind: int) -> float:
        """Return the bytes of a GPU of the kind that may be used."""
        return (self.kinds[kind].node.spec.gpu_memory_bytes or 0) * self._left_free

    def memory(self, stage: int, first: int, past: int) -> GpuMemory:
        """Return what the fullest GPU of a stage needs with the layers from `first` up to those before `past`."""
        key = (stage, int(self._like.numbers[first, past]))
        if key not in self._memory:
            node = self._layout.node
            self._memory[key] = gpu_memory(
                self._training,
                self._parallelism,
                holders=self._holders(stage, first, past),
                sharding=self._layout.checkpoint_layout.sharding,
                model=self._layout.model,
                node=replace(node, spec=node.spec.model_copy(update={"gpu": None})),
                work=self._work,
            )
        return self._memory[key]

    def _mask_seconds(self, stage: int, kind: int, before: int | None) -> Costs:
        """Return the times of a microbatch on a stage by its layers.

        They are infinite where the layers do not fit, or leave other stages none.
        """
        costs = np.full((self.num_layers + 1,) * 2, np.inf)
        is_last = stage == self.num_stages - 1
        times, waited = self._seconds(kind, is_last), self.transfer_seconds(kind, before)
        for first in self._list_firsts(stage):
            longest = self._find_longest(stage, kind, first)
            pasts = slice(longest, longest + 1) if is_last else slice(first + 1, longest + 1)
            if longest == self.num_layers or not is_last:
                costs[first, pasts] = times[self._like.numbers[first, pasts]] + waited
        return costs

    def missing(self, stage: int, kind: int, _: int | None) -> Costs:
        """Return the bytes that a GPU of a stage lacks, by the stage's layers; negative where some are left."""
        costs = np.full((self.num_layers + 1,) * 2, np.inf)
        for first in self._list_firsts(stage):
            for past in self._list_pasts(stage, first):
                costs[first, past] = self.memory(stage, first, past).needed_bytes - self.room_bytes(kind)
        return costs

    def transfer_seconds(self, kind: int, before: int | None) -> float:
        """Return how much longer a stage waits for a stage before it that is on slower adapters or on other nodes.

        max(0, 2 (a/min(r, r') - a/r0)): a bytes of activations; r and r' what the adapters of both kinds carry for
        a GPU, r0 the rate within a kind, which the time of a stage has already. Source: definition.
        """
        if before is None or before == kind:
            return 0.0
        rates = [self._network_rate(each) for each in (kind, before)]
        tokens = self.execution.num_tokens / self.execution.num_sharing
        moved = value_bytes(self._training) * tokens * self._work.hidden
        return _BOTH_WAYS * max(0.0, moved / min(rates) - moved / self._rate_within(kind))

    def step(self, placements: Sequence[StagePlacement]) -> PipelineStep:
        """Time a step over these stages: all passes simulated with the times of each + max exchange + max optimizer.

        Exchange and optimizer are seconds of a stage. Source: time_passes and Stage, as step_time takes them.
        """
        kinds = [None, *(each.kind for each in placements)]
        waited = [self.transfer_seconds(each.kind, before) for each, before in zip(placements, kinds, strict=False)]
        chunks = [
            self._chunk(each.kind, range(each.first, each.past), is_last=number == len(placements) - 1).slowed(
                1.0, waiting=waiting
            )
            for number, (each, waiting) in enumerate(zip(placements, waited, strict=True))
        ]
        slowest_links = max((self._stage(each.kind) for each in placements), key=lambda each: each.send_seconds)
        passes = time_passes(slowest_links, [(each,) for each in chunks])
        ends = [self._end_of_step(stage, each, passes) for stage, each in enumerate(placements)]
        seconds = passes.passes_seconds + max(exchange for exchange, _ in ends) + max(update for _, update in ends)
        sequences = (self.execution.num_microbatches or 0) * self.execution.micro_batch_size * self._parallelism.data
        times = [
            each.seconds + self._sent_seconds(placed.kind) for each, placed in zip(chunks, placements, strict=True)
        ]
        return PipelineStep(times, seconds, sequences * self.execution.sequence_length / seconds)

    def version_bytes(self, stage: int, each: StagePlacement) -> float:
        """Return the bytes of one version of the weights of a stage, all its ranks of one replica together."""
        rule = StateRule.of(self._training, self._layout.checkpoint_layout.sharding)
        return sum(
            len(holder.tensor_ranks)
            * (
                rule.version_bytes(holder.dense, _NOTHING)
                + self._parallelism.expert * rule.version_bytes(_NOTHING, holder.expert)
            )
            for holder in self._holders(stage, each.first, each.past)
        )

    def sync_seconds(self, stage: int, each: StagePlacement) -> float:
        """Return the time to push the updates of all parameters of a rank, and to pull them, over its adapters.

        2 w P/r: w bytes of a value, P parameters, r bytes per second. Source: definition.
        """
        parameters = max(
            holder.dense.parameters + holder.expert.parameters for holder in self._holders(stage, each.first, each.past)
        )
        return _BOTH_WAYS * value_bytes(self._training) * parameters / self._network_rate(each.kind)

    def _list_firsts(self, stage: int) -> range:
        """List the layers that a stage may begin with so that each stage has one."""
        return range(1) if stage == 0 else range(stage, self.num_layers - self.num_stages + stage + 1)

    def _list_pasts(self, stage: int, first: int) -> range:
        """List the layers before which a stage that begins with `first` may end."""
        is_last = stage == self.num_stages - 1
        past = self.num_layers - self.num_stages + stage + 2
        return range(self.num_layers if is_last else first + 1, past)

    def _find_longest(self, stage: int, kind: int, first: int) -> int:
        """Find the last layer up to which a stage fits, as more layers never need less."""
        pasts, room = self._list_pasts(stage, first), self.room_bytes(kind)
        fitting = bisect.bisect_right(pasts, room, key=lambda past: self.memory(stage, first, past).needed_bytes)
        return pasts[fitting - 1] if fitting else first

    def _holders(self, stage: int, first: int, past: int) -> tuple[HolderClass, ...]:
        """Return the ranks of a stage with these layers, as the layout has them where other stages hold the rest."""
        layers = [0] * self.num_stages
        layers[0], layers[-1] = first, self.num_layers - past
        layers[stage] = past - first
        degrees = self._parallelism.model_copy(update=_NO_OTHER_SPLIT | {"layers_per_stage": tuple(layers)})
        spans = stage_spans(self._inventory, degrees, num_layers=self.num_layers)
        [span] = [each for each in spans if stage in each.stages]
        return holder_classes([replace(span, stages=range(stage, stage + 1))], degrees, ())

    def _time_microbatches(self, kind: int, is_last: bool) -> npt.NDArray[np.float64]:
        """Return the times of a microbatch by the number of the layers' likeness."""
        longest = self.num_layers - self.num_stages + 1
        times = np.full(len(self._like.examples), np.inf)
        for number, (first, past) in enumerate(self._like.examples):
            if first < past <= first + longest:
                chunk = self._chunk(kind, range(first, past), is_last=is_last)
                times[number] = chunk.seconds + self._sent_seconds(kind)
        return times

    def _chunk(self, kind: int, layers: range, *, is_last: bool) -> ChunkSeconds:
        """Return the times of a microbatch on a stage of these layers, at the peak of the kind's GPUs."""
        stage = self.num_stages - 1 if is_last else 0
        span = StageSpan(range(stage, stage + 1), (layers,), (), (), has_head=is_last)
        [chunk] = self._stage(kind).chunks(span)
        return chunk.slowed(self.kinds[kind].flops_fraction)

    def _sent_seconds(self, kind: int) -> float:
        """Return what a stage waits for its sends, one forward and one back."""
        stage = self._stage(kind)
        return _BOTH_WAYS * (1.0 - stage.overlaps.pipeline) * stage.send_seconds

    def _end_of_step(self, stage: int, each: StagePlacement, passes: SlowestStage) -> tuple[float, float]:
        """Return the time of the exchange of a stage's replicas that is not hidden, and of its optimizer."""
        on_kind, sharding = self._stage(each.kind), self._layout.checkpoint_layout.sharding
        kept = FRAMEWORKS[self._training.framework].keeps[self._training.precision]
        exchange = exchange_of_replicas(
            self._training,
            self._parallelism,
            holders=self._holders(stage, each.first, each.past),
            sharding=sharding,
            links=on_kind.links,
            execution=self.execution,
            reduced=kept.gradient_bytes,
        )
        exposed = on_kind.exposed_exchange(exchange, passes, is_by_layer=sharding.gathers in ("layers", "modules"))
        state = self.memory(stage, each.first, each.past).gpu_state_bytes
        return exposed, TRAFFIC_OF_OPTIMIZER * state / on_kind.gpu.memory_bytes_per_second

    def _stage_on(self, kind: int) -> Stage:
        return Stage.of(
            self._work,
            self._training,
            self._parallelism,
            execution=self.execution,
            sharding=self._layout.checkpoint_layout.sharding,
            node=self.kinds[kind].node,
        )

    def _rate_within(self, kind: int) -> float:
        """Return the rate to the next stage on the same kind: over the links of a node, or over the adapters."""
        spec = self.kinds[kind].node.spec
        if self._parallelism.ranks_per_stage < spec.gpus_per_node:
            return float("inf")
        return self._network_rate(kind)

    def _network_rate(self, kind: int) -> float:
        """Return what the adapters to other nodes carry for one GPU."""
        links = self._stage(kind).links
        return links.node_bytes_per_second / links.gpus_per_node


class _Likeness(NamedTuple):
    """Runs of layers that are alike: `numbers` by first layer and the one past the last, an example of each number."""

    numbers: npt.NDArray[np.int64]
    examples: list[tuple[int, int]]

    @classmethod
    def of(cls, patterns: Sequence[Sequence[int]], num_layers: int) -> _Likeness:
        """Number the runs of layers. Runs with as many layers of each pattern are alike."""
        edges = np.arange(num_layers + 1)
        different = {tuple(layers) for layers in patterns if layers}
        before = np.array([np.searchsorted(layers, edges) for layers in sorted(different)] or [edges])
        counts = (before[:, None, :] - before[:, :, None]).reshape(len(before), -1)
        _, examples, numbers = np.unique(counts, axis=1, return_index=True, return_inverse=True)
        pairs = [divmod(int(place), num_layers + 1) for place in examples]
        return cls(numbers.reshape(num_layers + 1, num_layers + 1), pairs)
