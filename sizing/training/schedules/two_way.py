"""Schedules whose microbatches run through the stages in both directions: device i has stages i and p - 1 - i."""

from __future__ import annotations

from abc import abstractmethod

from sizing.training.schedules.base import Pipeline, PipelineSchedule

WRITTEN_ONCE = "of the two equal copies of a stage the one on its own device is written: device i writes stage i"
"""Source: `consistency` of these schedules: after the flush both copies are equal, so either tells all."""


class TwoWay(PipelineSchedule):
    """What a device holds is the sum over both of its stages: they hold their max at the same moment."""

    @abstractmethod
    def held_one_way(self, num_stages: int, chunk: int) -> int:
        """Microbatches of one direction that stage `chunk` of it holds at once."""

    def chunks_on(self, pipeline: Pipeline, stage: int) -> tuple[int, ...]:
        """One of each direction."""
        return stage, pipeline.num_stages - 1 - stage

    def held_passes(self, pipeline: Pipeline, stage: int) -> float:
        """Of both stages."""
        return float(sum(self.held_one_way(pipeline.num_stages, chunk) for chunk in self.chunks_on(pipeline, stage)))

    def held_of_stage(self, pipeline: Pipeline, stage: int) -> float:
        """Of one of them."""
        return float(self.held_one_way(pipeline.num_stages, stage))
