"""What the GPUs of a stage hold under a pipeline schedule: versions of weights, and the stages of both directions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sizing.layout.cells import Cell
from sizing.layout.gradient_errors import GradientErrors
from sizing.layout.stages import StageSpan
from sizing.training.execution import Execution
from sizing.training.memory.moments import Moments
from sizing.training.memory.state_memory import StateRule


@dataclass(frozen=True, slots=True)
class Hosted:
    """Ranks that hold alike: those of a cell, on its first stage."""

    cell: Cell
    state_bytes: float
    moments: Moments

    @property
    def total_bytes(self) -> float:
        """State, and the fullest moment beside it."""
        return self.state_bytes + self.moments.max_bytes


def hosted(
    cells: Sequence[Cell],
    rule: StateRule,
    execution: Execution | None,
    moments: Callable[[StageSpan], Moments],
    errors: GradientErrors | None = None,
) -> Iterator[Hosted]:
    """What each kind of rank holds; `moments` are those of the first stage of a span.

    State + (versions - 1) x bytes of the trained weights; with a schedule that runs both ways the sum over
    stages i and p - 1 - i. Each has the `errors` of its compressed gradients as well.
    Source: PipelineSchedule.weight_versions and is_two_way.
    """
    if execution is not None and execution.rules.is_two_way:
        yield from _both_ways(cells, rule, execution, moments, errors)
        return
    spans = {cell.span.stages.start: cell.span for cell in cells}
    of_first = {stage: moments(span) for stage, span in spans.items()}
    for cell in cells:
        yield Hosted(cell, _state_bytes(cell, rule, execution, errors), of_first[cell.span.stages.start])


def _state_bytes(cell: Cell, rule: StateRule, execution: Execution | None, errors: GradientErrors | None) -> float:
    state = rule.rank_bytes(cell.dense, cell.expert) + (errors.kept_bytes(cell) if errors else 0)
    if execution is None:
        return state
    versions = execution.rules.weight_versions(execution.pipeline, cell.span.stages.start)
    return state + (versions - 1) * rule.version_bytes(cell.dense, cell.expert)


def _both_ways(
    cells: Sequence[Cell],
    rule: StateRule,
    execution: Execution,
    moments: Callable[[StageSpan], Moments],
    errors: GradientErrors | None,
) -> Iterator[Hosted]:
    """Of every stage of the first half with its counterpart; ranks of the same number stand together."""
    by_stage = {stage: [cell for cell in cells if stage in cell.span.stages] for stage in range(execution.num_stages)}
    for stage in range(execution.num_stages // 2):
        other = execution.num_stages - 1 - stage
        one, back = (moments(replace(by_stage[each][0].span, stages=range(each, each + 1))) for each in (stage, other))
        for left in by_stage[stage]:
            for right in by_stage[other]:
                if set(left.tensor_ranks) & set(right.tensor_ranks):
                    state = sum(_state_bytes(cell, rule, execution, errors) for cell in (left, right))
                    span = replace(left.span, stages=range(stage, stage + 1))
                    yield Hosted(replace(left, span=span), state, one + back)
