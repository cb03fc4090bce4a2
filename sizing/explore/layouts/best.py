"""The best layout of a scenario that says on how many GPUs it runs, and leaves open how they share the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sizing.cluster.cluster import resolve_node
from sizing.errors import InvalidInput
from sizing.explore.layouts.layouts_report import LayoutsReport, MinMemory
from sizing.explore.layouts.layouts_request import LayoutsRequest, Objective
from sizing.explore.layouts.ranking import layouts_of, nothing_fits
from sizing.explore.layouts.search import Search, scenario_with
from sizing.layout.degrees import SEARCHED_DEGREES, SearchedDegree, degrees_text
from sizing.layout.formats import format_of
from sizing.layout.resolved import resolved_model
from sizing.provenance import Assumption
from sizing.scenario import Scenario, open_degrees, scenario_from
from sizing.state import Training
from sizing.training.memory.activations import uncounted_activations
from sizing.training.memory.nearest import CannotRun
from sizing.units import counted_text

ASSUMED_MICRO_BATCH = 1
ASSUMED_SEQUENCE_LENGTH = 8192
"""Where nobody says how long sequences are: Llama 3 on most of its tokens, arXiv 2407.21783, section 3.4.1."""


class LaidOutScenario(NamedTuple):
    """A scenario with all its degrees, and how they were found where it left them open."""

    scenario: Scenario
    assumed: list[Assumption]
    """The layout and what it was judged by; empty where nothing was left open."""
    nothing_fits: CannotRun | None = None
    """Set where no layout fits, and the scenario has the one that needs least memory."""

    @property
    def warnings(self) -> list[str]:
        """What was found, for a report that has no assumptions."""
        return [*self._misfit, *_sentences(self.assumed)]

    @property
    def judged_by(self) -> list[str]:
        """The same but for the layout itself, for a report that shows it."""
        return [*self._misfit, *_sentences(each for each in self.assumed if each.field != "parallelism")]

    @property
    def _misfit(self) -> list[str]:
        return [self.nothing_fits.sentence] if self.nothing_fits else []


def laid_out_document(document: Mapping[str, Any]) -> LaidOutScenario:
    """The Scenario of a parsed document, in the best layout where it leaves that open.

    It leaves it open where it gives `cluster.num_gpus` and no `parallelism.data`. The degrees that it gives stay.
    Where nothing fits, the layout is the one that needs least memory, and the assumption says so.
    Raises InvalidInput where a field breaks a rule or no degrees multiply to the GPUs.
    """
    degrees, num_gpus = open_degrees(document)
    if num_gpus is None:
        return LaidOutScenario(scenario_from(document), [])
    try:
        # With data ranks enough for the groups of experts and of shards, which must divide them.
        asked = scenario_from({**document, "parallelism": degrees | {"data": num_gpus}})
    except InvalidInput:
        return LaidOutScenario(scenario_from(document), [])
    if asked.parallelism.model_parallel_size * asked.parallelism.context == asked.cluster.num_gpus:
        return LaidOutScenario(scenario_from(document), [])
    return _in_best_layout(asked, kept=tuple(name for name in SEARCHED_DEGREES if name in degrees))


def laid_out_scenario(scenario: Scenario) -> LaidOutScenario:
    """The same of a Scenario, as it is where it leaves nothing open."""
    if not scenario.leaves_degrees_open:
        return LaidOutScenario(scenario, [])
    given = scenario.parallelism.model_fields_set
    return _in_best_layout(scenario, kept=tuple(name for name in SEARCHED_DEGREES if name in given))


def _sentences(assumed: Iterable[Assumption]) -> Iterator[str]:
    return (f"Assumed: {assumption.sentence}" for assumption in assumed)


def _in_best_layout(asked: Scenario, *, kept: tuple[SearchedDegree, ...]) -> LaidOutScenario:
    judged = asked.model_copy(update={"training": _with_batch(asked)})
    request = LayoutsRequest(
        scenario=judged,
        objective=_objective(asked),
        micro_batches=None if judged.training.micro_batch_size is None else (judged.training.micro_batch_size,),
        virtual_pipelines=(judged.parallelism.virtual_pipeline,),
        partial_recomputation=False,
        offload=None if judged.training.moves_off_gpu else False,
        expert_tensors=(),
        kept_degrees=kept if _searches_shard_groups(asked) else (*kept, "shard_group"),
        max_layouts=1,
    )
    try:
        report = layouts_of(request)
    except InvalidInput as error:
        raise error.outside("scenario") from None
    best = report.layouts[0] if report.layouts else report.least_memory
    if best is None:
        raise _no_layout(report)
    recomputation = None if asked.training.micro_batch_size is None else best.recomputation
    laid_out = scenario_with(asked, best.parallelism, recomputation)
    reason = _reason(report, _words(asked, report.objective))
    assumption = Assumption(field="parallelism", value=degrees_text(best.parallelism), reason=reason)
    return LaidOutScenario(
        scenario=laid_out,
        assumed=[assumption, *_judged_by(asked.training, judged.training, best.recomputation)],
        nothing_fits=nothing_fits(Search(request), best) if isinstance(best, MinMemory) else None,
    )


FIRST_VERSION_BY_TIME = 3
"""Of the scenario's defaults: before it the layout with the fewest model-parallel GPUs was taken, FSDP's shard group
among them."""

_WORDS: dict[Objective, str] = {
    "model-parallel-gpus": "has the fewest model-parallel GPUs",
    "step-time": "has the shortest step",
}


def _objective(scenario: Scenario) -> Objective:
    """The time of a step, where it is known."""
    is_known = scenario.training.global_batch_size and resolve_node(scenario.cluster).spec.gpu
    return "step-time" if is_known and scenario.schema_version >= FIRST_VERSION_BY_TIME else "model-parallel-gpus"


def _searches_shard_groups(scenario: Scenario) -> bool:
    """Frameworks that shard over data ranks do so over all of them, unless somebody says a group."""
    return scenario.schema_version < FIRST_VERSION_BY_TIME


def _with_batch(scenario: Scenario) -> Training:
    """The training with a batch, so that activations count, where the model's architecture is known."""
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


def _words(asked: Scenario, objective: Objective) -> str:
    """What is best of the layout that is taken. All that share tensors over data ranks have as many GPUs a copy."""
    shards = "shard_group" in format_of(asked.checkpoint.format, asked.training.framework).takes
    if objective == "model-parallel-gpus" and shards and not _searches_shard_groups(asked):
        return "has the fewest pipeline, tensor and expert ranks"
    return _WORDS[objective]


def _reason(report: LayoutsReport, words: str) -> str:
    gpus = counted_text(report.num_gpus, "GPU")
    if report.layouts:
        layouts = counted_text(report.num_fitting, "layout")
        return f"left open: {words} of {layouts} found to fit {gpus}"
    return f"left open, and NOTHING FITS {gpus}: this comes nearest"


def _judged_by(given: Training, judged: Training, recomputation: str | None) -> Iterator[Assumption]:
    """What was assumed to judge which layouts fit; the answer itself does not use it."""
    values: dict[str, Any] = {
        "micro_batch_size": judged.micro_batch_size,
        "sequence_length": judged.sequence_length,
        "recomputation": recomputation,
    }
    for name, value in values.items():
        if getattr(given, name) is None and value is not None:
            yield Assumption(field=f"training.{name}", value=value, reason="not given: to judge which layouts fit")


def _no_layout(report: LayoutsReport) -> InvalidInput:
    remedy = report.warnings[-1].rstrip(".")
    return InvalidInput.of("cluster.num_gpus", "leaves no layout", value=report.num_gpus, remedy=remedy)
