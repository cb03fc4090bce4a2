"""Best layout of a scenario that says on how many GPUs it runs, and leaves open how they share the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sizing.cluster.cluster import resolve_node
from sizing.errors import InvalidInput
from sizing.layout.degrees import SEARCHED_DEGREES, SearchedDegree, degrees_text
from sizing.layout.formats import format_of
from sizing.layout.trained_model import resolved_model
from sizing.provenance import CHOSEN, LAYOUT, Assumption
from sizing.questions.layouts.answer import answer_layouts, refuse
from sizing.questions.layouts.report import FoundLayout, MinMemory
from sizing.questions.layouts.request import LayoutsRequest, Objective
from sizing.questions.layouts.search import scenario_with
from sizing.report import ScenarioWithLayout
from sizing.scenario import INTERVAL, Scenario, open_degrees, scenario_from
from sizing.sized_layout import size_layout
from sizing.state import Training
from sizing.training.activations import uncounted_activations
from sizing.units import counted_text, seconds_text

ASSUMED_MICRO_BATCH = 1
ASSUMED_SEQUENCE_LENGTH = 8192
"""Where nobody says how long sequences are: Llama 3 on most of its tokens, arXiv 2407.21783, section 3.4.1."""


def lay_out_document(document: Mapping[str, Any]) -> ScenarioWithLayout:
    """Lay out the Scenario of a parsed document in the best layout where it leaves that open.

    It leaves it open where it gives `cluster.num_gpus` and no `parallelism.data`. The degrees that it gives stay.
    Where nothing fits, the layout is the one that needs least memory, and the assumption says so. An interval in steps
    gets the time that these take, as computed.
    Raises InvalidInput where a field breaks a rule or no degrees multiply to the GPUs.
    """
    return _time_interval(_lay_out_document(document))


def _lay_out_document(document: Mapping[str, Any]) -> ScenarioWithLayout:
    degrees, num_gpus = open_degrees(document)
    if num_gpus is None:
        return ScenarioWithLayout(scenario_from(document), [])
    try:
        # With data ranks enough for the groups of experts and of shards, which must divide them.
        scenario = scenario_from({**document, "parallelism": degrees | {"data": num_gpus}})
    except InvalidInput as beside_data:
        try:
            return ScenarioWithLayout(scenario_from(document), [])
        except InvalidInput as alone:  # which also refuses degrees that one data rank does not hold
            raise min(beside_data, alone, key=lambda error: len(error.problems)) from None
    if scenario.parallelism.model_parallel_size * scenario.parallelism.context == scenario.cluster.num_gpus:
        return ScenarioWithLayout(scenario_from(document), [])
    return _choose_layout(scenario, kept=tuple(name for name in SEARCHED_DEGREES if name in degrees))


def lay_out_scenario(scenario: Scenario) -> ScenarioWithLayout:
    """Lay out a Scenario in the best layout, or as it is where it leaves nothing open."""
    if not scenario.leaves_degrees_open:
        return _time_interval(ScenarioWithLayout(scenario, []))
    given = scenario.parallelism.model_fields_set
    return _time_interval(_choose_layout(scenario, kept=tuple(name for name in SEARCHED_DEGREES if name in given)))


def _time_interval(laid_out: ScenarioWithLayout) -> ScenarioWithLayout:
    """Put the time of an interval that is given in steps, from the computed time of a step where that is known."""
    scenario = laid_out.scenario
    if not scenario.leaves_interval_open:
        return laid_out
    step = size_layout(scenario).memory.step
    if step is None:
        return laid_out
    steps = scenario.checkpoint.interval_steps or 1
    checkpoint = scenario.checkpoint.model_copy(update={"interval_seconds": steps * step.seconds})
    reason = f"{steps:,} steps of {seconds_text(step.seconds)}, as computed; give training.step_seconds if measured"
    assumption = Assumption(field=INTERVAL, value=steps * step.seconds, reason=reason)
    timed = scenario.model_copy(update={"checkpoint": checkpoint})
    return ScenarioWithLayout(timed, [*laid_out.assumed, assumption], laid_out.nothing_fits)


def _choose_layout(scenario: Scenario, *, kept: tuple[SearchedDegree, ...]) -> ScenarioWithLayout:
    """Choose the best layout that keeps these degrees; where nothing fits, the one that needs the least memory."""
    judged, given = scenario.model_copy(update={"training": _assume_batch(scenario)}), scenario.parallelism
    request = LayoutsRequest(
        scenario=judged,
        objective=_choose_objective(scenario),
        micro_batches=None if judged.training.micro_batch_size is None else (judged.training.micro_batch_size,),
        virtual_pipelines=(given.virtual_pipeline,) if "virtual_pipeline" in given.model_fields_set else None,
        partial_recomputation=False,
        offload=None if judged.training.moves_off_gpu else False,
        expert_tensors=(),
        kept_degrees=kept if _searches_shard_groups(scenario) else (*kept, "shard_group"),
        max_layouts=1,
    )
    report = answer_layouts(request)
    best = report.layouts[0] if report.layouts else report.least_memory
    if best is None:
        remedy = report.warnings[-1].rstrip(".")
        raise InvalidInput.of("cluster.num_gpus", "leaves no layout", value=report.num_gpus, remedy=remedy)
    recomputation = None if scenario.training.micro_batch_size is None else best.recomputation
    chosen = scenario_with(scenario, best.parallelism, recomputation)
    divides = isinstance(best, FoundLayout) and best.distributed_optimizer
    if divides:
        divided = chosen.training.model_copy(update={"distributed_optimizer": True})
        chosen = chosen.model_copy(update={"training": divided})
    gpus, layouts = counted_text(report.num_gpus, "GPU"), counted_text(report.num_fitting, "layout")
    reason = f"{CHOSEN}: nothing fits {gpus}, and this comes nearest"
    if report.layouts:
        reason = f"{CHOSEN}: {_describe_best(scenario, report.objective)} of {layouts} that fit {gpus}"
    value = degrees_text(best.parallelism, without=(given.model_fields_set - set(SEARCHED_DEGREES)) | set(kept))
    assumption = Assumption(field=LAYOUT, value=value, reason=reason)
    return ScenarioWithLayout(
        scenario=chosen,
        assumed=[
            assumption,
            *_list_assumptions(
                scenario.training, judged.training, best.recomputation, distributed_optimizer=divides or None
            ),
        ],
        nothing_fits=refuse(request, best) if isinstance(best, MinMemory) else None,
    )


FIRST_VERSION_BY_TIME = 3
"""Version of the scenario's defaults: before it the layout with the fewest model-parallel GPUs was taken, FSDP's shard
group among them."""

_WORDS: dict[Objective, str] = {
    "model-parallel-gpus": "has the fewest model-parallel GPUs",
    "step-time": "has the shortest step",
}


def _choose_objective(scenario: Scenario) -> Objective:
    """Choose the time of a step as objective where it is known, else the fewest model-parallel GPUs."""
    is_known = scenario.training.global_batch_size and resolve_node(scenario.cluster).spec.gpu
    return "step-time" if is_known and scenario.schema_version >= FIRST_VERSION_BY_TIME else "model-parallel-gpus"


def _searches_shard_groups(scenario: Scenario) -> bool:
    """Whether shard groups are searched. Frameworks that shard over data ranks take all, unless told a group."""
    return scenario.schema_version < FIRST_VERSION_BY_TIME


def _assume_batch(scenario: Scenario) -> Training:
    """Assume a batch of the training, so that activations count, where the model's architecture is known."""
    training = scenario.training
    model = resolved_model(scenario.model, training, scenario.parallelism)
    if training.micro_batch_size is not None or uncounted_activations(model):
        return training
    longest = (model.architecture.max_positions if model.architecture else None) or ASSUMED_SEQUENCE_LENGTH
    batch = {
        "micro_batch_size": ASSUMED_MICRO_BATCH,
        "sequence_length": min(ASSUMED_SEQUENCE_LENGTH, longest),
    }
    return training.model_copy(update=batch)


def _describe_best(scenario: Scenario, objective: Objective) -> str:
    """Say what is best of the layout that is taken. All that share tensors over data ranks have as many GPUs a copy."""
    shards = "shard_group" in format_of(scenario.checkpoint.format, scenario.training.framework).takes
    if objective == "model-parallel-gpus" and shards and not _searches_shard_groups(scenario):
        return "has the fewest pipeline, tensor and expert ranks"
    return _WORDS[objective]


def _list_assumptions(
    given: Training, judged: Training, recomputation: str | None, *, distributed_optimizer: bool | None
) -> Iterator[Assumption]:
    """List what was assumed to judge which layouts fit, and what is part of the layout that is best."""
    if distributed_optimizer:
        reason = f"not given: part of the layout {CHOSEN}, with a shorter step and less memory"
        yield Assumption(field="training.distributed_optimizer", value=True, reason=reason)
    values: dict[str, Any] = {
        "micro_batch_size": judged.micro_batch_size,
        "sequence_length": judged.sequence_length,
        "recomputation": recomputation,
    }
    for name, value in values.items():
        if getattr(given, name) is None and value is not None:
            yield Assumption(field=f"training.{name}", value=value, reason="not given: to judge which layouts fit")
