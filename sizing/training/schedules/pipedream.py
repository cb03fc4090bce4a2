"""PipeDream: 1F1B without a flush. Each stage keeps the weights that the microbatches in flight went forward with."""

from __future__ import annotations

from sizing.training.schedules.base import Pipeline
from sizing.training.schedules.one_forward_one_backward import OneForwardOneBackward
from sizing.training.schedules.passes import PassTimes


class WithoutFlush(OneForwardOneBackward):
    """Steps follow each other without a gap; what a stage holds is as with a flush."""

    def idle(self, pipeline: Pipeline, times: PassTimes) -> float:
        """0 once the pipeline is full."""
        return 0.0


class PipeDream(WithoutFlush):
    """An update after each microbatch."""

    def weight_versions(self, pipeline: Pipeline, stage: int) -> int:
        """One for each microbatch in flight: p - i."""
        return pipeline.num_stages - stage


PIPEDREAM = PipeDream(
    name="pipedream",
    title="PipeDream",
    flushes=False,
    splits_backward=False,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="drained, one version; else stage i saves all p - i that it keeps",
    source="Narayanan et al. 2019, PipeDream, SOSP, sections 3.2 and 3.3; arXiv 1806.03377",
)
