"""Zero bubble schedules of one chunk per stage: gradients of weights wait, and fill what would be idle."""

from __future__ import annotations

from abc import abstractmethod

from sizing.training.schedules import checks
from sizing.training.schedules.base import Pipeline, PipelineSchedule
from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work, alone


class ZeroBubble(PipelineSchedule):
    """After `depth(stage)` forward passes one gradient of inputs, one of weights and one forward pass in turn.

    Weight gradients begin so much later that each stage holds as many microbatches as the first one.
    """

    @abstractmethod
    def depth(self, num_stages: int, stage: int) -> int:
        """Forward passes of a stage before its first backward pass."""

    def check(self, pipeline: Pipeline) -> None:
        """One chunk per stage."""
        checks.chunks_per_stage(self, pipeline)

    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """F to the depth; then I, W of a former microbatch, F in turn; at last the weight gradients that are left."""
        m = pipeline.num_microbatches or 0
        depth, held = self.depth(pipeline.num_stages, stage), self.depth(pipeline.num_stages, 0)
        forward, input_gradient, weight_gradient = (
            [Pass(work, stage, number) for number in range(m)]
            for work in (Work.FORWARD, Work.INPUT_GRADIENT, Work.WEIGHT_GRADIENT)
        )
        passes, late = forward[:depth], held - depth
        for number in range(m):
            passes.append(input_gradient[number])
            passes += weight_gradient[number - late : number - late + 1] if number >= late else []
            passes += forward[depth + number : depth + number + 1]
        return alone([*passes, *weight_gradient[max(0, m - late) :]])

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """(p - 1)(F + I) - (min(m, d) - 1) min(F, I, W), d the depth of the first stage.

        With m >= d and W the shortest pass these are the published (p - 1)(F + I - W) of H1, whose d is p, and
        (p - 1)(F + I - 2W) of H2, whose d is 2 p - 1. H2's optimizer steps begin on each stage when it is done there.
        Source: Qi et al. 2023, arXiv 2401.10241, section 2.3 and table 2; fewer microbatches and longer W by
        simulation.simulated.
        """
        p = pipeline.num_stages
        filled = min(pipeline.limit, self.depth(p, 0)) - 1
        return (p - 1) * (times.forward + times.input_gradient) - filled * times.shortest

    def held_passes(self, pipeline: Pipeline, stage: int) -> float:
        """min(d, m), what waits for its weight gradients counted whole: the paper has 32 of its 34 s b h left then."""
        return min(float(self.depth(pipeline.num_stages, 0)), pipeline.limit)
