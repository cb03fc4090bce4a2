"""The chain of each pipeline stage, and what each technique makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from pydantic import ValidationError

from sizing.errors import InvalidInput, explain
from sizing.explore.rematerializations.rematerialization_report import (
    RematerializationPlan,
    RematerializationReport,
    StageRematerialization,
)
from sizing.explore.rematerializations.rematerialization_request import RematerializationRequest
from sizing.layout.stages import StageSpan
from sizing.model import ResolvedModel
from sizing.sized import SizedLayout, sized
from sizing.training.execution import Execution, execution_of
from sizing.training.memory.activations import LayerKind, ModelActivations, activations_of, uncounted_activations
from sizing.training.memory.hosted import Hosted, hosted
from sizing.training.memory.in_flight import in_flight_of
from sizing.training.memory.layer_activations import layer_activation_bytes
from sizing.training.memory.moments import Moments
from sizing.training.memory.piece_activations import Kept
from sizing.training.memory.stage_activations import StageActivations
from sizing.training.memory.state_memory import StateRule
from sizing.training.rematerialization.chain import Chain, Link
from sizing.training.rematerialization.techniques import TECHNIQUES, Room, Technique
from sizing.units import decimal_bytes_text

BACKWARD_OVER_FORWARD = 2.0
"""Both gradients take a product of matrices each: Korthikanti et al. 2022, arXiv 2205.05198, appendix A."""


def rematerialization(request: RematerializationRequest | Mapping[str, Any]) -> RematerializationReport:
    """Which layers to compute again so that every stage fits, and what that costs, by each technique.

    Raises InvalidInput as `report.answer` does, without a batch, for layers that are not counted, and where nobody says
    what memory a GPU has.
    """
    if not isinstance(request, RematerializationRequest):
        try:
            request = RematerializationRequest.model_validate(request)
        except ValidationError as error:
            raise explain(error, RematerializationRequest) from None
    return rematerialization_of(request)


def rematerialization_of(request: RematerializationRequest) -> RematerializationReport:
    """The same of a request that is one already. Raises InvalidInput as `rematerialization` does."""
    question = _Question(request)
    stages = list(question.stages())
    fewest = [stage.fewest for stage in stages]
    fits = all(plan.fits for plan in fewest)
    least = max(min(plan.gpu_bytes for plan in stage.plans) for stage in stages)
    return RematerializationReport(
        gpu_memory_bytes=question.capacity,
        room_bytes=question.room_bytes,
        num_recomputed_layers=max(len(plan.recomputed_layers) for plan in fewest) if fits else None,
        extra_compute_fraction=max(plan.extra_compute_fraction for plan in fewest) if fits else None,
        min_gpu_bytes=least,
        stages=stages,
        warnings=list(_warnings(question.room_bytes, least)),
    )


def _warnings(room_bytes: int, least: int) -> Iterator[str]:
    if least > room_bytes:
        yield (
            f"No technique fits {decimal_bytes_text(room_bytes)}: the least is {decimal_bytes_text(least)}. "
            "Give more memory, more GPUs or a smaller micro_batch_size"
        )


class _Question:
    def __init__(self, request: RematerializationRequest) -> None:
        self._training = training = request.scenario.training
        self._asked: SizedLayout = sized(request.scenario)
        execution = execution_of(training, request.scenario.parallelism)
        if execution is None:
            raise InvalidInput.of(
                "training.micro_batch_size",
                "is required to say what activations take",
                value=None,
                remedy="give it and training.sequence_length",
            )
        keeps_scores = execution.recomputation == "none"
        self._execution: Execution = replace(execution, recomputation="none" if keeps_scores else "selective")
        self._activations = _activations(self._asked.model, request)
        self.capacity = _capacity(self._asked, request)
        self.room_bytes = int(self.capacity * (1 - request.headroom_fraction))
        self._rule = StateRule.of(training, self._asked.laid_out.sharding)
        self._times = _forward_times(self._asked.model)

    def stages(self) -> Iterator[StageRematerialization]:
        """Of each span, its fullest rank."""
        fullest: dict[int, Hosted] = {}
        for each in hosted(self._asked.laid_out.cells, self._rule, self._execution, self._outside):
            first = each.cell.span.stages.start
            if first not in fullest or each.total_bytes > fullest[first].total_bytes:
                fullest[first] = each
        for each in fullest.values():
            yield self._stage(each.cell.span, each.total_bytes)

    def _outside(self, span: StageSpan) -> Moments:
        """What a stage holds beside what its layers keep."""
        kinds = tuple(LayerKind(kind.layers, Kept(working=kind.kept.working)) for kind in self._activations.kinds)
        bare = replace(self._activations, kinds=kinds)
        asked, sharding = self._asked, self._asked.laid_out.sharding
        held = StageActivations(bare, parallelism=asked.parallelism, execution=self._execution).of_stage(span)
        beside = in_flight_of(span, asked.model.inventory, self._training, asked.parallelism, sharding)
        return Moments(held, beside)

    def _stage(self, span: StageSpan, other_bytes: float) -> StageRematerialization:
        in_flight = self._execution.in_flight_microbatches(span.stages.start)
        layers = [layer for chunk in span.chunks for layer in chunk]
        if span.has_head:
            past = self._asked.model.num_layers
            layers += range(past, past + self._activations.num_modules)
        stage = _Stage(layers, self._chain(layers), Room(self.room_bytes - other_bytes, in_flight), other_bytes)
        return StageRematerialization(
            first_stage=span.stages.start,
            num_stages=len(span.stages),
            num_layers=len(layers),
            in_flight_microbatches=in_flight,
            other_bytes=round(other_bytes),
            plans=[stage.planned(each) for each in TECHNIQUES] if layers else [],
        )

    def _chain(self, layers: list[int]) -> Chain:
        full = replace(self._execution, recomputation="full")
        value = layer_activation_bytes(Kept(), hidden_bytes=self._activations.hidden_bytes, execution=full)[0]
        return Chain(tuple(self._link(layer, value) for layer in layers), value)

    def _link(self, layer: int, value: float) -> Link:
        """Of a layer; multi-token-prediction modules behind the last one are as it is."""
        layer = min(layer, self._asked.model.num_layers - 1)
        [kept] = [kind.kept for kind in self._activations.kinds if layer in kind.layers]
        hidden = self._activations.hidden_bytes
        whole = layer_activation_bytes(kept, hidden_bytes=hidden, execution=self._execution)[0]
        time = self._times[layer]
        return Link(time, BACKWARD_OVER_FORWARD * time, value, whole - value)


class _Stage(NamedTuple):
    layers: list[int]
    chain: Chain
    room: Room
    other_bytes: float

    def planned(self, technique: Technique) -> RematerializationPlan:
        plan = technique.plan(self.chain, self.room)
        counts = plan.forward_counts
        needed = self.room.needed(self.chain, plan)
        return RematerializationPlan(
            technique=technique.name,
            recomputed_layers=[layer for layer, number in zip(self.layers, counts, strict=True) if number > 1],
            max_forward_passes=max(counts),
            gpu_bytes=round(self.other_bytes + needed),
            fits=needed <= self.room.num_bytes,
            extra_compute_fraction=plan.extra_fraction,
        )


def _activations(model: ResolvedModel, request: RematerializationRequest) -> ModelActivations:
    found = activations_of(model, request.scenario.training, request.scenario.parallelism)
    if found is None:
        raise InvalidInput.of(
            "model",
            "must be one whose activations are counted",
            value=model.name,
            remedy=uncounted_activations(model) or "give its architecture",
        )
    return found


def _capacity(asked: SizedLayout, request: RematerializationRequest) -> int:
    capacity = request.gpu_memory_bytes or asked.node.spec.gpu_memory_bytes
    if capacity is None:
        raise InvalidInput.of(
            "gpu_memory_bytes", "is required where the node does not say it", value=None, remedy="give it: 80 GB"
        )
    return int(capacity)


def _forward_times(model: ResolvedModel) -> dict[int, float]:
    """Of each layer in proportion to the parameters that a token passes through: 2 operations each.

    Source: Kaplan et al. 2020, arXiv 2001.08361, section 2.1; products of queries and keys are left out.
    """
    times = dict.fromkeys(range(model.num_layers), 0.0)
    for group in model.inventory:
        if group.placement == "layers":
            active = (model.num_experts_per_token or 1) / group.experts if group.experts else 1.0
            for layer in group.layers:
                times[layer] += group.num_parameters / len(group.layers) * active
    return times
