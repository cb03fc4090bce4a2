"""Offload of activations and of state: how much a scenario needs to run, and which fields ask for it."""

from __future__ import annotations

from sizing.explore.techniques.changes import Asks, Fields
from sizing.layout.sharding import ZERO_STAGE_OF_GRADIENTS, ZERO_STAGE_OF_WEIGHTS, zero_stage_of
from sizing.scenario import Scenario, scenario_from
from sizing.schema_versions import with_values
from sizing.sized import SizedLayout, sized
from sizing.state.offload import Place
from sizing.training.memory.memory_question import HEADROOM_FRACTION
from sizing.training.offload.swapping import Score, chain_of, swapped_out
from sizing.training.placement import OFFLOAD_RULES

_ACTIVATIONS = "training.offload.activations_fraction"
_OPTIMIZER, _WEIGHTS = "training.offload.optimizer", "training.offload.weights"


def all_activations(scenario: Scenario) -> Fields | str:
    """vDNN: what every layer keeps goes to the host."""
    if scenario.training.micro_batch_size is None:
        return _UNCOUNTED
    return {_ACTIVATIONS: 1.0}


_UNCOUNTED = "It needs training.micro_batch_size and sequence_length, without which activations are not counted"


def activations_by(score: Score) -> Asks:
    """As many layers as the GPU has no room for beside the headroom of the layout search, the highest score first."""

    def asked(scenario: Scenario) -> Fields | str:
        found = sized(scenario)
        memory = found.memory
        if memory.activation_bytes is None:
            return _UNCOUNTED
        if memory.gpu_memory_bytes is None:
            return "It needs a node whose GPU memory is known"
        staying = _bytes_without(scenario)
        room = memory.gpu_memory_bytes * (1 - HEADROOM_FRACTION) - staying
        kept = memory.needed_bytes - staying
        return _fraction(kept, room_bytes=room, num_layers=_num_layers(found), score=score)

    return asked


def _bytes_without(scenario: Scenario) -> int:
    """What the fullest GPU needs with the activations of all layers on the host: state and working memory."""
    document = scenario.model_dump(mode="json", exclude_unset=True)
    return sized(scenario_from(with_values(document, {_ACTIVATIONS: 1.0}))).memory.needed_bytes


def _fraction(activation_bytes: int, *, room_bytes: float, num_layers: int, score: Score) -> Fields | str:
    if activation_bytes <= room_bytes:
        return "The activations fit the GPU without it"
    chain = chain_of([activation_bytes / num_layers] * num_layers)
    swapped = swapped_out(chain, room_bytes=room_bytes, score=score)
    if swapped is None:
        return "The state leaves the GPU no room for the activations of one layer"
    return {_ACTIVATIONS: len(swapped) / num_layers}


def _num_layers(found: SizedLayout) -> int:
    """Layers of the fullest stage."""
    stage = found.memory.fullest_stage or 0
    spans = {cell.span.stages: cell.span.num_layers for cell in found.laid_out.cells}
    return max(1, next(layers for stages, layers in spans.items() if stage in stages))


def state_on(optimizer: Place | None, weights: Place | None) -> Asks:
    """Parts of the state in a place off the GPU; where the framework moves both at once, both on the host."""

    def asked(scenario: Scenario) -> Fields | str:
        both = OFFLOAD_RULES[scenario.training.framework].is_joint
        other = optimizer or weights
        places = {_OPTIMIZER: other if both else optimizer, _WEIGHTS: other if both else weights}
        fields: Fields = {path: place for path, place in places.items() if place is not None}
        if scenario.training.framework == "deepspeed":
            least = ZERO_STAGE_OF_GRADIENTS if weights is None and optimizer == "host" else ZERO_STAGE_OF_WEIGHTS
            fields["parallelism.zero_stage"] = max(least, zero_stage_of(scenario.parallelism))
        return fields

    return asked


def weights_and_activations(score: Score) -> Asks:
    """SwapAdvisor: weights off the GPU, and of the activations what then has no room."""

    def asked(scenario: Scenario) -> Fields | str:
        weights, activations = state_on(None, "host")(scenario), activations_by(score)(scenario)
        if isinstance(weights, str):
            return weights
        return weights if isinstance(activations, str) else weights | activations

    return asked
