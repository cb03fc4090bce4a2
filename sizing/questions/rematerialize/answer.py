"""Answer about layers to compute again: the chain of each stage, and what each technique makes of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sizing.errors import InvalidInput
from sizing.layout.gradient_errors import GradientErrors
from sizing.layout.stages import StageSpan
from sizing.model import ResolvedModel
from sizing.questions.rematerialize.report import (
    RematerializationPlan,
    RematerializationReport,
    StageRematerialization,
)
from sizing.questions.rematerialize.request import RematerializationRequest
from sizing.report import find_layout
from sizing.sized_layout import SizedLayout, size_layout
from sizing.training.activations import (
    LayerKind,
    ModelActivations,
    StageActivations,
    activations_of,
    uncounted_activations,
)
from sizing.training.execution import Execution, execution_of
from sizing.training.gpu_memory import Peaks, RankMemory, memory_by_rank
from sizing.training.in_flight import in_flight_of
from sizing.training.layer_activations import KeptBytes, layer_activation_bytes
from sizing.training.rematerialization.chain import ChainLayer, LayerChain
from sizing.training.rematerialization.techniques import TECHNIQUES, Room
from sizing.training.state_memory import StateRule, on_gpu
from sizing.units import decimal_bytes_text

BACKWARD_OVER_FORWARD = 2.0
"""Both gradients take a product of matrices each: Korthikanti et al. 2022, arXiv 2205.05198, appendix A."""


def answer_rematerialization(request: RematerializationRequest) -> RematerializationReport:
    """Say which layers to compute again so that every stage fits, and what that costs, by each technique.

    Raises InvalidInput as `report.answer` does, without a batch, for layers that are not counted, and where nobody says
    what memory a GPU has.
    """
    found_layout = find_layout(request.scenario)
    planner = _StagePlanner(request.model_copy(update={"scenario": found_layout.scenario}))
    room_bytes, stages = planner.room_bytes, list(planner.plan_stages())
    fewest = [stage.fewest for stage in stages]
    fits = all(plan.fits for plan in fewest)
    least = max(min(plan.gpu_bytes for plan in stage.plans) for stage in stages)
    warnings = found_layout.warnings
    if least > room_bytes:
        warnings.append(
            f"No technique fits {decimal_bytes_text(room_bytes)}: the least is {decimal_bytes_text(least)}. "
            "Give more memory, more GPUs or a smaller micro_batch_size"
        )
    return RematerializationReport(
        gpu_memory_bytes=planner.capacity,
        room_bytes=room_bytes,
        num_recomputed_layers=max(len(plan.recomputed_layers) for plan in fewest) if fits else None,
        extra_compute_fraction=max(plan.extra_compute_fraction for plan in fewest) if fits else None,
        min_gpu_bytes=least,
        stages=stages,
        warnings=warnings,
    )


class _StagePlanner:
    """Plans of each technique for the stages of a scenario, within the memory of its GPUs."""

    def __init__(self, request: RematerializationRequest) -> None:
        training, parallelism = request.scenario.training, request.scenario.parallelism
        self._training = training
        self._layout: SizedLayout = size_layout(request.scenario)
        execution = execution_of(training, parallelism)
        if execution is None:
            raise InvalidInput.of(
                "training.micro_batch_size",
                "is required to say what activations take",
                value=None,
                remedy="give it and training.sequence_length",
            )
        keeps_scores = execution.recomputation == "none"
        self._execution: Execution = replace(execution, recomputation="none" if keeps_scores else "selective")
        model = self._layout.model
        activations = activations_of(model, training, parallelism)
        if activations is None:
            raise InvalidInput.of(
                "model",
                "must be one whose activations are counted",
                value=model.name,
                remedy=uncounted_activations(model) or "give its architecture",
            )
        self._activations: ModelActivations = activations
        capacity = request.gpu_memory_bytes or self._layout.node.spec.gpu_memory_bytes
        if capacity is None:
            raise InvalidInput.of(
                "gpu_memory_bytes", "is required where the node does not say it", value=None, remedy="give it: 80 GB"
            )
        self.capacity = int(capacity)
        self.room_bytes = int(self.capacity * (1 - request.headroom_fraction))
        self._times = _forward_times(model)

    def plan_stages(self) -> Iterator[StageRematerialization]:
        """Yield the plans for the fullest rank of each kind of stages."""
        layout, training = self._layout, self._training
        rule = StateRule.of(training, layout.checkpoint_layout.sharding).kept(on_gpu(training, layout.parallelism))
        errors = GradientErrors.of(training, layout.parallelism)
        holders, peaks = layout.checkpoint_layout.holders, self._peaks_outside_layers
        fullest: dict[int, RankMemory] = {}
        for each in memory_by_rank(holders, rule, self._execution, peaks, errors):
            first = each.holder.span.stages.start
            if first not in fullest or each.total_bytes > fullest[first].total_bytes:
                fullest[first] = each
        yield from map(self._plan_stage, fullest.values())

    def _peaks_outside_layers(self, span: StageSpan) -> Peaks:
        """Return what a stage holds beside what its layers keep."""
        kinds = tuple(LayerKind(kind.layers, KeptBytes(working=kind.kept.working)) for kind in self._activations.kinds)
        bare = replace(self._activations, kinds=kinds)
        layout, sharding = self._layout, self._layout.checkpoint_layout.sharding
        held = StageActivations(bare, parallelism=layout.parallelism, execution=self._execution).of_stage(span)
        beside = in_flight_of(span, layout.model.inventory, self._training, layout.parallelism, sharding)
        return Peaks(held, beside)

    def _plan_stage(self, fullest: RankMemory) -> StageRematerialization:
        span, other_bytes = fullest.holder.span, fullest.total_bytes
        in_flight = self._execution.in_flight_microbatches(span.stages.start)
        layers = [layer for chunk in span.chunks for layer in chunk]
        if span.has_head:
            past = self._layout.model.num_layers
            layers += range(past, past + self._activations.num_modules)
        chain, peaks, state = self._chain_of(layers), fullest.peaks, fullest.state_bytes
        room = Room(
            self.room_bytes,
            in_flight,
            at_loss=state + peaks.loss_bytes,
            # The gradient that comes back to a layer is in the peaks of plans too.
            in_layer=state + peaks.layer_bytes - chain.output_bytes,
            at_end=state + peaks.end_bytes,
        )
        plans = []
        for technique in TECHNIQUES if layers else ():
            plan = technique.plan(chain, room)
            counts, needed = plan.forward_counts, room.needed(chain, plan)
            plans.append(
                RematerializationPlan(
                    technique=technique.name,
                    recomputed_layers=[layer for layer, number in zip(layers, counts, strict=True) if number > 1],
                    max_forward_passes=max(counts),
                    gpu_bytes=round(needed),
                    fits=needed <= room.num_bytes,
                    extra_compute_fraction=plan.extra_fraction,
                )
            )
        return StageRematerialization(
            first_stage=span.stages.start,
            num_stages=len(span.stages),
            num_layers=len(layers),
            in_flight_microbatches=in_flight,
            other_bytes=round(other_bytes),
            plans=plans,
        )

    def _chain_of(self, layers: list[int]) -> LayerChain:
        """Make a chain of these layers. Multi-token-prediction modules behind the last layer are as it is."""
        hidden, last = self._activations.hidden_bytes, self._layout.model.num_layers - 1
        full = replace(self._execution, recomputation="full")
        value = layer_activation_bytes(KeptBytes(), hidden_bytes=hidden, execution=full)[0]
        chain_layers = []
        for layer in (min(each, last) for each in layers):
            [kept] = [kind.kept for kind in self._activations.kinds if layer in kind.layers]
            whole = layer_activation_bytes(kept, hidden_bytes=hidden, execution=self._execution)[0]
            time = self._times[layer]
            chain_layers.append(ChainLayer(time, BACKWARD_OVER_FORWARD * time, value, whole - value))
        return LayerChain(tuple(chain_layers), value)


def _forward_times(model: ResolvedModel) -> dict[int, float]:
    """Return the time of each layer, in proportion to the parameters that a token passes through: 2 operations each.

    Source: Kaplan et al. 2020, arXiv 2001.08361, section 2.1; products of queries and keys are left out.
    """
    times = dict.fromkeys(range(model.num_layers), 0.0)
    for group in model.inventory:
        if group.placement == "layers":
            active = (model.num_experts_per_token or 1) / group.experts if group.experts else 1.0
            for layer in group.layers:
                times[layer] += group.num_parameters / len(group.layers) * active
    return times
