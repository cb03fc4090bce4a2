"""Every technique of the catalog as what it is to a scenario: one object each, by its name there."""

from __future__ import annotations

from collections.abc import Mapping

from sizing.explore.techniques.changes import Asks, Fields, ScenarioTechnique, always, never, with_degree
from sizing.explore.techniques.offloading import activations_by, all_activations, state_on, weights_and_activations
from sizing.explore.techniques.planning import PlannedTechnique
from sizing.explore.techniques.unlike import UnlikeTechnique, balanced_stages, fastest_workers
from sizing.scenario import Scenario
from sizing.training.offload.swapping import area_of_absence, duration_of_absence

_SMALL_GRAPHS = (
    "It plans graphs of up to 16 operations, as those inside a layer; of the layers of a stage, which are a chain, "
    "Rotor has the plan of least time"
)


def _schedule(name: str, *, chunks: int = 1) -> Asks:
    """A schedule of so many chunks per stage."""

    def asked(scenario: Scenario) -> Fields | str:
        fields: Fields = {"training.schedule": name}
        if scenario.parallelism.virtual_pipeline != chunks:
            fields["parallelism.virtual_pipeline"] = chunks
        return fields

    return with_degree("pipeline", asked)


def _interleaved(scenario: Scenario) -> Fields | str:
    """Two chunks per stage, where the scenario has not more already."""
    chunks = max(2, scenario.parallelism.virtual_pipeline)
    return {"training.schedule": "interleaved", "parallelism.virtual_pipeline": chunks}


def _larger_batch(scenario: Scenario) -> Fields | str:
    """Twice the batch on twice the replicas, in the same time per step; the learning rate doubles with it."""
    batch, data = scenario.training.global_batch_size, scenario.parallelism.data
    if batch is None:
        return "It needs training.global_batch_size, which it doubles"
    fields: Fields = {"training.global_batch_size": 2 * batch, "parallelism.data": 2 * data}
    if scenario.cluster.num_gpus is not None:
        fields["cluster.num_gpus"] = 2 * scenario.cluster.num_gpus
    return fields


def _compressed(method: str) -> Asks:
    """A method with its defaults."""
    return lambda _: {"training.gradient_compression.method": method}


_ASKED: dict[str, Asks] = {
    "gpipe": _schedule("gpipe"),
    "1f1b / dapple": _schedule("1f1b"),
    "interleaved 1f1b": with_degree("pipeline", _interleaved),
    "zb-v": _schedule("zb-v", chunks=2),
    "none": always(recomputation="none"),
    "tensor": with_degree("tensor", always(recomputation="none", sequence_parallel=False)),
    "tensor sequence": with_degree("tensor", always(recomputation="none", sequence_parallel=True)),
    "tensor selective": with_degree("tensor", always(recomputation="selective", sequence_parallel=False)),
    "tensor sequence selective": with_degree("tensor", always(recomputation="selective", sequence_parallel=True)),
    "full recompute": always(recomputation="full"),
    "Checkmate": never(_SMALL_GRAPHS),
    "vDNN": all_activations,
    "TFLMS": activations_by(duration_of_absence),
    "AutoSwap": activations_by(area_of_absence),
    "ZeRO-Offload": state_on("host", None),
    "ZeRO-Infinity": state_on("nvme", "host"),
    "TFLMS, AutoSwap for weights": state_on(None, "host"),
    "SwapAdvisor": weights_and_activations(area_of_absence),
    "top-k sparsification": _compressed("top-k"),
    "8-bit Adam": always(optimizer="adam-8bit"),
    "4-bit training": always(precision="nvfp4-mixed"),
    "4-bit Adam": always(optimizer="adam-4bit"),
    "linear learning-rate scaling": _larger_batch,
}

_SCHEDULES = ("pipedream", "pipedream-2bw", "pipemare", "chimera", "zb-h1", "zb-h2", "dualpipe")
_METHODS = ("QSGD", "PowerSGD", "1-bit Adam")
"""Techniques that are called as their value of a field is."""

PLANNED = {"sqrt(n) checkpoints": "sqrt(n)", "Revolve": "revolve", "Rotor": "rotor"}
"""Techniques that plan layers, and what `rematerialize` calls them."""

BALANCED = {"Pipe-torch": balanced_stages, "HetPipe": fastest_workers}
"""Techniques for nodes of several kinds, and what they make of the answer of `stages`."""

SCENARIO_TECHNIQUES: Mapping[str, ScenarioTechnique | PlannedTechnique | UnlikeTechnique] = {
    name: ScenarioTechnique(name, asks)
    for name, asks in (
        _ASKED
        | {name: _schedule(name) for name in _SCHEDULES}
        | {name: _compressed(name.lower().replace(" ", "-")) for name in _METHODS}
    ).items()
} | {
    **{name: PlannedTechnique(name, plan) for name, plan in PLANNED.items()},
    **{name: UnlikeTechnique(name, made) for name, made in BALANCED.items()},
}
"""Each technique by its name in the catalog."""
