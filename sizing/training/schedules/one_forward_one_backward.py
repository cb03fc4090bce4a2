"""1F1B with a flush (DAPPLE, PipeDream-Flush): a stage goes back as soon as it can, then alternates."""

from __future__ import annotations

from sizing.training.schedules import checks
from sizing.training.schedules.base import Pipeline, PipelineSchedule
from sizing.training.schedules.closed_forms import flush_idle
from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work, alone


class OneForwardOneBackward(PipelineSchedule):
    """p - i - 1 forward passes to warm up, then one of each in turn."""

    def check(self, pipeline: Pipeline) -> None:
        """One chunk per stage."""
        checks.chunks_per_stage(self, pipeline)

    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """Warm up, alternate, run empty."""
        numbers = range(pipeline.num_microbatches or 0)
        forward = [Pass(Work.FORWARD, stage, number) for number in numbers]
        warm, rest = forward[: pipeline.num_stages - stage - 1], forward[pipeline.num_stages - stage - 1 :]
        steady = [
            each for number in numbers for each in (*rest[number : number + 1], Pass(Work.BACKWARD, stage, number))
        ]
        return alone([*warm, *steady])

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """(p - 1)(F + B)."""
        return flush_idle(pipeline, times)

    def held_passes(self, pipeline: Pipeline, stage: int) -> float:
        """min(p - i, m)."""
        return min(float(pipeline.num_stages - stage), pipeline.limit)


ONE_FORWARD_ONE_BACKWARD = OneForwardOneBackward(
    name="1f1b",
    title="1F1B, DAPPLE, PipeDream-Flush",
    flushes=True,
    splits_backward=False,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="one version of the weights: every step ends with a flush",
    source="Fan et al. 2021, DAPPLE, arXiv 2007.01045; Narayanan et al. 2021, arXiv 2104.04473, section 2.2.1",
)
