"""Every technique of the catalog as what it is to a scenario: its kinds, and one object for each of its names.

A `ScenarioTechnique` sets fields of the scenario. A `PlannedTechnique` plans layers, as `rematerialize` does. A
`BalancedTechnique` balances the stages on nodes of several kinds, as `stages` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue

from sizing.errors import InvalidInput
from sizing.field_paths import value_at, with_fields
from sizing.frameworks import FRAMEWORKS
from sizing.layout.sharding import ZERO_STAGE_OF_GRADIENTS, ZERO_STAGE_OF_WEIGHTS, zero_stage_of
from sizing.questions.rematerialize.answer import answer_rematerialization
from sizing.questions.rematerialize.report import RematerializationPlan, StageRematerialization
from sizing.questions.rematerialize.request import RematerializationRequest
from sizing.questions.stages.answer import answer_stages
from sizing.questions.stages.report import Pipeline, StagesReport
from sizing.questions.stages.request import StagesRequest
from sizing.questions.stages.virtual_workers import worker_training
from sizing.scenario import Scenario, scenario_from
from sizing.sized_layout import size_layout
from sizing.state.offload import Place
from sizing.training.memory_search import HEADROOM_FRACTION
from sizing.training.offload import Score, area_of_absence, chain_of, choose_to_swap_out, duration_of_absence

Fields = dict[str, JsonValue]
"""Values by dotted path in the scenario; null takes a field back to its default."""

Setter = Callable[[Scenario], Fields | str]
"""Chooses the fields that a technique sets in a scenario, or says why it does not apply there."""


class ScenarioChange(NamedTuple):
    """The fields that a technique changed, and the scenario with them."""

    fields: Fields
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class ScenarioTechnique:
    """A technique of the catalog, by its name there."""

    name: str
    choose_fields: Setter

    def apply(self, scenario: Scenario) -> ScenarioChange | str:
        """Apply the technique to a scenario, or return a sentence that says why it does not apply.

        Raises InvalidInput where the scenario itself has no layout to choose the fields by.
        """
        fields = self.choose_fields(scenario)
        if isinstance(fields, str):
            return fields
        document = scenario.model_dump(mode="json", exclude_unset=True)
        in_effect = scenario.model_dump(mode="json")
        changed = {path: value for path, value in fields.items() if value_at(in_effect, path) != value}
        if not changed:
            return "The scenario has it already"
        try:
            return ScenarioChange(changed, scenario_from(with_fields(document, changed)))
        except InvalidInput as error:
            return str(error)


def always(**fields: JsonValue) -> Setter:
    """Set the same fields of `training` in every scenario."""
    return lambda _: {f"training.{name}": value for name, value in fields.items()}


def never(reason: str) -> Setter:
    """Apply to no scenario, for a reason."""
    return lambda _: reason


def with_degree(name: str, choose_fields: Setter) -> Setter:
    """Apply only where a degree of parallelism is above 1."""

    def choose(scenario: Scenario) -> Fields | str:
        if getattr(scenario.parallelism, name) > 1:
            return choose_fields(scenario)
        return f"It needs parallelism.{name} above 1"

    return choose


_ACTIVATIONS = "training.offload.activations_fraction"
_OPTIMIZER, _WEIGHTS = "training.offload.optimizer", "training.offload.weights"


_UNCOUNTED = "It needs training.micro_batch_size and sequence_length, without which activations are not counted"


def offload_activations(scenario: Scenario) -> Fields | str:
    """Offload what every layer keeps, as vDNN does."""
    if scenario.training.micro_batch_size is None:
        return _UNCOUNTED
    return {_ACTIVATIONS: 1.0}


def offload_activations_by(score: Score) -> Setter:
    """Offload as many layers as the GPU has no room for beside the search's headroom, the highest score first."""

    def choose(scenario: Scenario) -> Fields | str:
        layout = size_layout(scenario)
        memory = layout.memory
        if memory.activation_bytes is None:
            return _UNCOUNTED
        if memory.gpu_memory_bytes is None:
            return "It needs a node whose GPU memory is known"
        document = scenario.model_dump(mode="json", exclude_unset=True)
        without = size_layout(scenario_from(with_fields(document, {_ACTIVATIONS: 1.0}))).memory.needed_bytes
        activation_bytes = memory.needed_bytes - without
        room_bytes = memory.gpu_memory_bytes * (1 - HEADROOM_FRACTION) - without
        if activation_bytes <= room_bytes:
            return "The activations fit the GPU without it"
        fullest_stage, holders = memory.fullest_stage or 0, layout.checkpoint_layout.holders
        num_layers = max(1, next(each.span.num_layers for each in holders if fullest_stage in each.span.stages))
        chain = chain_of([activation_bytes / num_layers] * num_layers)
        swapped = choose_to_swap_out(chain, room_bytes=room_bytes, score=score)
        if swapped is None:
            return "The state leaves the GPU no room for the activations of one layer"
        return {_ACTIVATIONS: len(swapped) / num_layers}

    return choose


def offload_state(optimizer: Place | None, weights: Place | None) -> Setter:
    """Offload parts of the state to a place. A framework that moves both at once moves both there."""

    def choose(scenario: Scenario) -> Fields | str:
        both = FRAMEWORKS[scenario.training.framework].offload.is_joint
        other = optimizer or weights
        places = {_OPTIMIZER: other if both else optimizer, _WEIGHTS: other if both else weights}
        fields: Fields = {path: place for path, place in places.items() if place is not None}
        if FRAMEWORKS[scenario.training.framework].shards == "zero":
            least = ZERO_STAGE_OF_GRADIENTS if weights is None and optimizer == "host" else ZERO_STAGE_OF_WEIGHTS
            fields["parallelism.zero_stage"] = max(least, zero_stage_of(scenario.parallelism))
        return fields

    return choose


def offload_weights_and_activations(score: Score) -> Setter:
    """Offload weights, and the activations for which the GPU then has no room, as SwapAdvisor does."""

    def choose(scenario: Scenario) -> Fields | str:
        weights, activations = offload_state(None, "host")(scenario), offload_activations_by(score)(scenario)
        if isinstance(weights, str):
            return weights
        return weights if isinstance(activations, str) else weights | activations

    return choose


class PlanFigures(NamedTuple):
    """What the fullest GPU needs under a plan, and the compute that it and the scenario as it is add."""

    plan: str
    total_bytes: int
    extra_compute_fraction: float
    extra_before: float


@dataclass(frozen=True, slots=True)
class PlannedTechnique:
    """A technique of the catalog, by its name there, and what `rematerialize` calls it."""

    name: str
    plan: str

    def apply(self, scenario: Scenario) -> PlanFigures | str:
        """Plan every stage, or return a sentence that says why there is no plan."""
        if scenario.training.micro_batch_size is None:
            return _UNCOUNTED
        try:
            stages = answer_rematerialization(RematerializationRequest(scenario=scenario)).stages
        except InvalidInput as error:
            return str(error)
        plans = [_find_plan(stage, self.plan) for stage in stages if stage.plans]
        with_every_layer = [_find_plan(stage, "every layer") for stage in stages if stage.plans]
        is_full = scenario.training.recomputation == "full"
        return PlanFigures(
            plan=self.plan,
            total_bytes=max(plan.gpu_bytes for plan in plans),
            extra_compute_fraction=max(plan.extra_compute_fraction for plan in plans),
            extra_before=max(plan.extra_compute_fraction for plan in with_every_layer) if is_full else 0.0,
        )


def _find_plan(stage: StageRematerialization, technique: str) -> RematerializationPlan:
    return next(plan for plan in stage.plans if plan.technique == technique)


class Balance(NamedTuple):
    """Fields that apply a technique, and figures with their values before and after."""

    fields: Fields
    figures: list[tuple[str, float, float]]


@dataclass(frozen=True, slots=True)
class BalancedTechnique:
    """A technique of the catalog, by its name there, and what it makes of a report on stages."""

    name: str
    read: Callable[[StagesReport, Scenario], Balance | str]

    def apply(self, scenario: Scenario) -> Balance | str:
        """Balance the scenario, or return a sentence that says why that does not apply."""
        if len({kind.model_copy(update={"count": None}) for kind in scenario.cluster.nodes or ()}) < 2:
            return "It balances GPUs of several kinds: give them as cluster.nodes, 4 x dgx-a100 and 4 x dgx-h100"
        try:
            return self.read(answer_stages(StagesRequest(scenario=scenario)), scenario)
        except InvalidInput as error:
            return str(error)


def balance_stages(report: StagesReport, _: Scenario) -> Balance | str:
    """Balance the layers so that each kind of node takes the same time, as Pipe-torch does."""
    if not report.change:
        return "The scenario has it already"
    before, after = report.as_given, report.balanced
    figures = [
        ("stages.step_seconds", before.step_seconds, after.step_seconds),
        ("stages.tokens_per_second", before.tokens_per_second, after.tokens_per_second),
        ("stages.max_gpu_bytes", _find_max_gpu_bytes(before), _find_max_gpu_bytes(after)),
    ]
    return Balance(report.change, figures)


def find_fastest_workers(report: StagesReport, scenario: Scenario) -> Balance | str:
    """Find the policy whose virtual workers train on the most tokens, as HetPipe groups them."""
    able = [each for each in report.virtual_workers if each.workers]
    if not able:
        return "; ".join(f"{each.policy}: {each.reason}" for each in report.virtual_workers)
    best = max(able, key=lambda each: each.tokens_per_second or 0.0)
    fields: Fields = worker_training(scenario)
    if len(best.workers) == 1:
        fields["parallelism.layers_per_stage"] = [*best.workers[0].layers_per_stage]
    largest = max(worker.max_gpu_bytes for worker in best.workers)
    figures = [
        ("stages.tokens_per_second", report.as_given.tokens_per_second, best.tokens_per_second or 0.0),
        ("stages.max_gpu_bytes", _find_max_gpu_bytes(report.as_given), largest),
        ("stages.undrained_bytes", report.written_bytes, best.undrained_bytes or 0),
    ]
    return Balance(fields, figures)


def _find_max_gpu_bytes(pipeline: Pipeline) -> int:
    return max(stage.gpu_bytes for stage in pipeline.stages)


_SMALL_GRAPHS = (
    "It plans graphs of up to 16 operations, as those inside a layer; of the layers of a stage, which are a chain, "
    "Rotor has the plan of least time"
)


def _schedule(name: str, *, chunks: int = 1) -> Setter:
    """Set a schedule with this number of chunks per stage."""

    def choose(scenario: Scenario) -> Fields | str:
        fields: Fields = {"training.schedule": name}
        if scenario.parallelism.virtual_pipeline != chunks:
            fields["parallelism.virtual_pipeline"] = chunks
        return fields

    return with_degree("pipeline", choose)


def _interleave(scenario: Scenario) -> Fields | str:
    """Interleave two chunks per stage, or more where the scenario has more."""
    chunks = max(2, scenario.parallelism.virtual_pipeline)
    return {"training.schedule": "interleaved", "parallelism.virtual_pipeline": chunks}


def _enlarge_batch(scenario: Scenario) -> Fields | str:
    """Double the batch and the replicas. A step takes the same time; the learning rate doubles as well."""
    batch, data = scenario.training.global_batch_size, scenario.parallelism.data
    if batch is None:
        return "It needs training.global_batch_size, which it doubles"
    fields: Fields = {"training.global_batch_size": 2 * batch, "parallelism.data": 2 * data}
    if scenario.cluster.num_gpus is not None:
        fields["cluster.num_gpus"] = 2 * scenario.cluster.num_gpus
    return fields


def _compress(method: str) -> Setter:
    """Set a method of gradient compression with its defaults."""
    return lambda _: {"training.gradient_compression.method": method}


_SETTERS: dict[str, Setter] = {
    "gpipe": _schedule("gpipe"),
    "1f1b / dapple": _schedule("1f1b"),
    "interleaved 1f1b": with_degree("pipeline", _interleave),
    "zb-v": _schedule("zb-v", chunks=2),
    "none": always(recomputation="none"),
    "tensor": with_degree("tensor", always(recomputation="none", sequence_parallel=False)),
    "tensor sequence": with_degree("tensor", always(recomputation="none", sequence_parallel=True)),
    "tensor selective": with_degree("tensor", always(recomputation="selective", sequence_parallel=False)),
    "tensor sequence selective": with_degree("tensor", always(recomputation="selective", sequence_parallel=True)),
    "full recompute": always(recomputation="full"),
    "Checkmate": never(_SMALL_GRAPHS),
    "vDNN": offload_activations,
    "TFLMS": offload_activations_by(duration_of_absence),
    "AutoSwap": offload_activations_by(area_of_absence),
    "ZeRO-Offload": offload_state("host", None),
    "ZeRO-Infinity": offload_state("nvme", "host"),
    "TFLMS, AutoSwap for weights": offload_state(None, "host"),
    "SwapAdvisor": offload_weights_and_activations(area_of_absence),
    "top-k sparsification": _compress("top-k"),
    "8-bit Adam": always(optimizer="adam-8bit"),
    "4-bit training": always(precision="nvfp4-mixed"),
    "4-bit Adam": always(optimizer="adam-4bit"),
    "linear learning-rate scaling": _enlarge_batch,
}

_SCHEDULES = ("pipedream", "pipedream-2bw", "pipemare", "chimera", "zb-h1", "zb-h2", "dualpipe")
_METHODS = ("QSGD", "PowerSGD", "1-bit Adam")
"""Techniques that are called as their value of a field is."""

PLANNED = {"sqrt(n) checkpoints": "sqrt(n)", "Revolve": "revolve", "Rotor": "rotor"}
"""Techniques that plan layers, and what `rematerialize` calls them."""

BALANCED = {"Pipe-torch": balance_stages, "HetPipe": find_fastest_workers}
"""Techniques for nodes of several kinds, and what they make of the answer of `stages`."""

SCENARIO_TECHNIQUES: Mapping[str, ScenarioTechnique | PlannedTechnique | BalancedTechnique] = {
    name: ScenarioTechnique(name, choose_fields)
    for name, choose_fields in (
        _SETTERS
        | {name: _schedule(name) for name in _SCHEDULES}
        | {name: _compress(name.lower().replace(" ", "-")) for name in _METHODS}
    ).items()
} | {
    **{name: PlannedTechnique(name, plan) for name, plan in PLANNED.items()},
    **{name: BalancedTechnique(name, read) for name, read in BALANCED.items()},
}
"""Each technique by its name in the catalog."""
