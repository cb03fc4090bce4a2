"""Techniques that balance GPUs of several kinds: what `stages` finds, as fields and as figures that they move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from sizing.errors import InvalidInput
from sizing.explore.stages.stages import stages_of
from sizing.explore.stages.stages_report import Pipeline, StagesReport
from sizing.explore.stages.stages_request import StagesRequest
from sizing.explore.stages.workers import worker_training
from sizing.explore.techniques.changes import Fields
from sizing.scenario import Scenario

_ONE_KIND = "It balances GPUs of several kinds: give them as cluster.nodes, 4 x dgx-a100 and 4 x dgx-h100"


class Balanced(NamedTuple):
    """Fields that apply a technique, and figures with their values before and after."""

    fields: Fields
    moved: list[tuple[str, float, float]]


@dataclass(frozen=True, slots=True)
class UnlikeTechnique:
    """A technique of the catalog, by its name there, and what it makes of a report on stages."""

    name: str
    made: Callable[[StagesReport, Scenario], Balanced | str]

    def balanced(self, scenario: Scenario) -> Balanced | str:
        """What it makes of the scenario, or a sentence that says why nothing."""
        if len({kind.model_copy(update={"count": None}) for kind in scenario.cluster.nodes or ()}) < 2:
            return _ONE_KIND
        try:
            return self.made(stages_of(StagesRequest(scenario=scenario)), scenario)
        except InvalidInput as error:
            return str(error)


def balanced_stages(report: StagesReport, _: Scenario) -> Balanced | str:
    """Pipe-torch: the layers that each kind of node runs in the same time."""
    if not report.change:
        return "The scenario has it already"
    before, after = report.as_given, report.balanced
    moved = [
        ("stages.step_seconds", before.step_seconds, after.step_seconds),
        ("stages.tokens_per_second", before.tokens_per_second, after.tokens_per_second),
        ("stages.max_gpu_bytes", _max_gpu_bytes(before), _max_gpu_bytes(after)),
    ]
    return Balanced(report.change, moved)


def fastest_workers(report: StagesReport, scenario: Scenario) -> Balanced | str:
    """HetPipe: the policy whose virtual workers train on the most tokens."""
    able = [each for each in report.virtual_workers if each.workers]
    if not able:
        return "; ".join(f"{each.policy}: {each.reason}" for each in report.virtual_workers)
    best = max(able, key=lambda each: each.tokens_per_second or 0.0)
    fields: Fields = worker_training(scenario)
    if len(best.workers) == 1:
        fields["parallelism.layers_per_stage"] = [*best.workers[0].layers_per_stage]
    largest = max(worker.max_gpu_bytes for worker in best.workers)
    moved = [
        ("stages.tokens_per_second", report.as_given.tokens_per_second, best.tokens_per_second or 0.0),
        ("stages.max_gpu_bytes", _max_gpu_bytes(report.as_given), largest),
        ("stages.undrained_bytes", report.written_bytes, best.undrained_bytes or 0),
    ]
    return Balanced(fields, moved)


def _max_gpu_bytes(pipeline: Pipeline) -> int:
    return max(stage.gpu_bytes for stage in pipeline.stages)
