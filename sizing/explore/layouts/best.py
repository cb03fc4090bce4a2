"""The best layout of a scenario that says on how many GPUs it runs, and leaves open how they share the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sizing.errors import InvalidInput
from sizing.explore.layouts.layouts_report import FoundLayout, LayoutsReport, MinMemory
from sizing.explore.layouts.layouts_request import LayoutsRequest
from sizing.explore.layouts.ranking import layouts_of
from sizing.explore.layouts.search import scenario_with
from sizing.layout.degrees import SEARCHED_DEGREES, SearchedDegree, degrees_text
from sizing.layout.resolved import resolved_model
from sizing.provenance import Assumption
from sizing.scenario import Scenario, scenario_from
from sizing.state import Training
from sizing.training.activations import uncounted_activations
from sizing.units import counted_text, decimal_bytes_text

ASSUMED_MICRO_BATCH = 1
ASSUMED_SEQUENCE_LENGTH = 8192
"""Where nobody says how long sequences are: Llama 3 on most of its tokens, arXiv 2407.21783, section 3.4.1."""


def laid_out_scenario(document: Mapping[str, Any]) -> tuple[Scenario, list[Assumption]]:
    """The Scenario of a parsed document, in the best layout where it leaves that open, and what was assumed to find it.

    It leaves it open where it gives `cluster.num_gpus` and no `parallelism.data`. The degrees that it gives stay.
    Where nothing fits, the layout is the one that needs least memory, and the assumption says so.
    Raises InvalidInput where a field breaks a rule or no degrees multiply to the GPUs.
    """
    degrees, num_gpus = _open_degrees(document)
    if num_gpus is None:
        return scenario_from(document), []
    try:
        # With data ranks enough for the groups of experts and of shards, which must divide them.
        asked = scenario_from({**document, "parallelism": degrees | {"data": num_gpus}})
    except InvalidInput:
        return scenario_from(document), []
    if asked.parallelism.model_parallel_size * asked.parallelism.context == asked.cluster.num_gpus:
        return scenario_from(document), []
    return _in_best_layout(asked, kept=tuple(name for name in SEARCHED_DEGREES if name in degrees))


def _open_degrees(document: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The degrees that a document gives, and its GPUs; None where it leaves nothing open."""
    degrees, cluster = document.get("parallelism", {}), document.get("cluster")
    if not isinstance(degrees, dict) or not isinstance(cluster, dict) or "data" in degrees:
        return {}, None
    return degrees, cluster.get("num_gpus")


def _in_best_layout(asked: Scenario, *, kept: tuple[SearchedDegree, ...]) -> tuple[Scenario, list[Assumption]]:
    judged = asked.model_copy(update={"training": _with_batch(asked)})
    try:
        report = layouts_of(LayoutsRequest(scenario=judged, kept_degrees=kept, max_layouts=1))
    except InvalidInput as error:
        raise error.outside("scenario") from None
    best = report.layouts[0] if report.layouts else report.least_memory
    if best is None:
        raise _no_layout(report, {name: getattr(asked.parallelism, name) for name in kept})
    recomputation = None if asked.training.micro_batch_size is None else best.recomputation
    laid_out = scenario_with(asked, best.parallelism, recomputation)
    assumption = Assumption(field="parallelism", value=degrees_text(best.parallelism), reason=_reason(report, best))
    return laid_out, [assumption, *_judged_by(asked.training, judged.training, best.recomputation)]


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


def _reason(report: LayoutsReport, best: FoundLayout | MinMemory) -> str:
    gpus = counted_text(report.num_gpus, "GPU")
    if report.layouts:
        layouts = counted_text(report.num_fitting, "layout")
        return f"left open: has the fewest model-parallel GPUs of {layouts} found to fit {gpus}"
    needed, room = decimal_bytes_text(best.gpu_bytes), decimal_bytes_text(report.room_bytes)
    return f"left open, and NOTHING FITS {gpus}: this comes nearest and needs {needed} of {room}"


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


def _no_layout(report: LayoutsReport, kept: Mapping[str, int]) -> InvalidInput:
    if report.num_candidates:
        rule, remedy = "leaves no layout", report.warnings[-1].rstrip(".")
    else:
        given = " x ".join(f"{name} {degree}" for name, degree in kept.items())
        rule, remedy = f"must be a multiple of {given}", "change it or a degree"
    return InvalidInput.of("cluster.num_gpus", rule, value=report.num_gpus, remedy=remedy)
