"""What each published technique would change in a scenario, and what the answer then is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from sizing.errors import InvalidInput, explain
from sizing.explore.techniques.changes import Change
from sizing.explore.techniques.planning import Planned, PlannedTechnique
from sizing.explore.techniques.registry import SCENARIO_TECHNIQUES
from sizing.explore.techniques.unlike import UnlikeTechnique
from sizing.report import SizingReport, answer
from sizing.scenario import Scenario
from sizing.training.techniques.catalog import Kind, Technique, techniques

REFERENCE_TECHNIQUES: dict[str, Any] = {
    "scenario": {
        "model": {"preset": "llama-3.1-70b"},
        "training": {
            "framework": "megatron",
            "distributed_optimizer": True,
            "sequence_length": 8192,
            "micro_batch_size": 1,
            "global_batch_size": 512,
        },
        "parallelism": {"tensor": 8, "pipeline": 4, "data": 16},
        "checkpoint": {"format": "torch-dist", "mode": "async", "interval_seconds": "30min"},
        "cluster": {"node": "dgx-h100", "num_gpus": 512},
        "storage": {"profile": {"write_bytes_per_second": "200 GB/s", "read_bytes_per_second": "200 GB/s"}},
    }
}
"""A run of 70B on 512 GPUs."""

FIGURES = (
    "training.gpu_state_bytes",
    "training.activation_bytes",
    "training.total_bytes",
    "training.fits",
    "training.bubble_fraction",
    "training.step.seconds",
    "host_memory.offloaded_bytes",
    "host_memory.fits",
    "offload.nvme_bytes",
    "gradient_compression.sent_bytes",
    "checkpoint.total_bytes",
    "layout.max_rank_bytes",
    "write.seconds",
    "write.stall_seconds",
    "restore.seconds",
    "shares.useful_fraction",
    "run_length.num_steps",
    "run_length.num_checkpoints",
    "run_length.wall_seconds",
)
"""What a technique may move of a report, by dotted path: memory, the step, the checkpoint, the stall, the run."""


class TechniquesRequest(BaseModel):
    """A scenario, and which techniques to try on it."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [REFERENCE_TECHNIQUES]})

    scenario: Scenario = Field(description="Scenario that each technique is tried on, one at a time.")
    kinds: tuple[Kind, ...] = Field(
        (), max_length=20, description="Kinds of techniques to try. Default: all of the catalog."
    )


class FigureChange(BaseModel):
    """A figure of the report without and with the technique."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    figure: str = Field(description="Dotted path of the figure in the report, whose name ends with its unit.")
    before: float | None = Field(description="Figure of the scenario as it is. Null when it is not known or not there.")
    after: float | None = Field(description="Figure with the technique. Null when it is not known or not there.")


class TechniqueEffect(BaseModel):
    """One technique on the scenario."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="What its paper calls it, as the catalog lists it.")
    kind: Kind = Field(description="What the technique changes, as in the catalog.")
    source: str = Field(description="Paper or documentation of the technique.")
    change: dict[str, JsonValue] = Field(
        description="Values of the scenario's fields that apply it, by dotted path. "
        "Empty where it does not apply, or is a plan by layers."
    )
    plan: str | None = Field(
        None,
        description="Plan by layers of that name in the answer of `rematerialize`, which lists the layers. "
        "Null when fields of the scenario apply it, or nothing does.",
    )
    reason: str | None = Field(description="Why it does not apply to this scenario. Null when it does.")
    effects: list[FigureChange] = Field(
        description="Figures that differ between the two answers. Empty where it does not apply or moves none of them."
    )


class TechniquesReport(BaseModel):
    """Each technique of the catalog on one scenario, in the order of the catalog."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="What is trained: a preset, a config, or what the model was described by.")
    num_gpus: int = Field(description="World size of the scenario as it is.")
    techniques: list[TechniqueEffect] = Field(description="Each technique: what applies it, or why it does not apply.")


def techniques_request_from(document: object) -> TechniquesRequest:
    """The TechniquesRequest of a parsed document, which may be the scenario alone.

    Raises InvalidInput with one problem for each field that breaks a rule.
    """
    if isinstance(document, dict) and "scenario" not in document:
        document = {"scenario": document}
    try:
        return TechniquesRequest.model_validate(document)
    except ValidationError as error:
        raise explain(error, TechniquesRequest) from None


def techniques_of(request: TechniquesRequest) -> TechniquesReport:
    """The TechniquesReport of a request: of each technique the difference of two answers.

    Raises InvalidInput where the scenario itself has no answer.

    >>> found = techniques_of(techniques_request_from(REFERENCE_TECHNIQUES | {"kinds": ["low-precision-optimizer"]}))
    >>> [(each.name, each.change) for each in found.techniques if each.reason is None][0]
    ('8-bit Adam', {'training.optimizer': 'adam-8bit'})
    """
    before = answer(request.scenario)
    asked = (row for row in techniques() if not request.kinds or row.kind in request.kinds)
    return TechniquesReport(
        model=before.model.name,
        num_gpus=before.layout.num_gpus,
        techniques=[_effect(row, request.scenario, before) for row in asked],
    )


def _effect(row: Technique, scenario: Scenario, before: SizingReport) -> TechniqueEffect:
    technique = SCENARIO_TECHNIQUES[row.name]
    if isinstance(technique, PlannedTechnique):
        return _planned(row, technique, scenario, before)
    if isinstance(technique, UnlikeTechnique):
        return _balanced(row, technique, scenario)
    change = technique.applied(scenario)
    after = _answered(change) if isinstance(change, Change) else change
    does_apply = isinstance(change, Change) and isinstance(after, SizingReport)
    return TechniqueEffect(
        name=row.name,
        kind=row.kind,
        source=row.source,
        change=change.fields if isinstance(change, Change) and does_apply else {},
        reason=after if isinstance(after, str) else None,
        effects=list(_differences(before, after)) if isinstance(after, SizingReport) else [],
    )


def _planned(row: Technique, technique: PlannedTechnique, scenario: Scenario, before: SizingReport) -> TechniqueEffect:
    try:
        plan = technique.planned(scenario)
    except InvalidInput as error:
        plan = str(error)
    return TechniqueEffect(
        name=row.name,
        kind=row.kind,
        source=row.source,
        change={},
        plan=None if isinstance(plan, str) else technique.plan,
        reason=plan if isinstance(plan, str) else None,
        effects=[] if isinstance(plan, str) else list(_planned_changes(plan, before)),
    )


def _balanced(row: Technique, technique: UnlikeTechnique, scenario: Scenario) -> TechniqueEffect:
    found = technique.balanced(scenario)
    fields, moved = ({}, []) if isinstance(found, str) else found
    return TechniqueEffect(
        name=row.name,
        kind=row.kind,
        source=row.source,
        change=fields,
        reason=found if isinstance(found, str) else None,
        effects=[FigureChange(figure=figure, before=before, after=after) for figure, before, after in moved],
    )


def _planned_changes(plan: Planned, before: SizingReport) -> Iterator[FigureChange]:
    total = before.training.total_bytes
    yield FigureChange(figure="training.total_bytes", before=total, after=plan.total_bytes)
    extra = plan.extra_compute_fraction
    yield FigureChange(figure="rematerialization.extra_compute_fraction", before=plan.extra_before, after=extra)


def _answered(change: Change) -> SizingReport | str:
    try:
        return answer(change.scenario)
    except InvalidInput as error:
        return str(error)


def _differences(before: SizingReport, after: SizingReport) -> Iterator[FigureChange]:
    documents = before.model_dump(), after.model_dump()
    for figure in FIGURES:
        values = [_at(document, figure) for document in documents]
        # What is not there and what is nothing look alike to a reader.
        if (values[0] or 0.0) != (values[1] or 0.0):
            yield FigureChange(figure=figure, before=values[0], after=values[1])


def _at(document: dict[str, Any], path: str) -> float | None:
    found: Any = document
    for name in path.split("."):
        found = None if found is None else found.get(name)
    return None if found is None else float(found)
