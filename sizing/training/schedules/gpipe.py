"""GPipe: all forward passes of a step, then all backward passes."""

from __future__ import annotations

from sizing.training.schedules import checks
from sizing.training.schedules.base import Pipeline, PipelineSchedule
from sizing.training.schedules.closed_forms import flush_idle
from sizing.training.schedules.passes import Pass, PassTimes, Slot, Work, alone


class GPipe(PipelineSchedule):
    """Keeps every microbatch of a step."""

    def check(self, pipeline: Pipeline) -> None:
        """A known number of microbatches."""
        checks.chunks_per_stage(self, pipeline)
        checks.given_microbatches(self, pipeline, "which keeps every microbatch of a step")

    def order(self, pipeline: Pipeline, stage: int) -> list[Slot]:
        """F of all, B of all."""
        numbers = range(pipeline.num_microbatches or 0)
        works = (Work.FORWARD, Work.BACKWARD)
        return alone(Pass(work, stage, number) for work in works for number in numbers)

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """(p - 1)(F + B)."""
        return flush_idle(pipeline, times)

    def held_passes(self, pipeline: Pipeline, stage: int) -> float:
        """All m."""
        return pipeline.limit


GPIPE = GPipe(
    name="gpipe",
    title="GPipe",
    flushes=True,
    splits_backward=False,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="one version of the weights: every step ends with a flush",
    source="Huang et al. 2019, arXiv 1811.06965, section 2.3",
)
