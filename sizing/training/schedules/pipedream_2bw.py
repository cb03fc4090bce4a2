"""PipeDream-2BW: gradients of m >= p microbatches make one update, so that two versions of the weights do."""

from __future__ import annotations

from sizing.training.schedules import checks
from sizing.training.schedules.base import Pipeline
from sizing.training.schedules.passes import PassTimes
from sizing.training.schedules.pipedream import WithoutFlush


class PipeDream2BW(WithoutFlush):
    """Double-buffered weights: those that microbatches in flight began with, and the newest."""

    def check(self, pipeline: Pipeline) -> None:
        """As many microbatches as stages, or a third version would be needed."""
        super().check(pipeline)
        checks.enough_microbatches(self, pipeline, pipeline.num_stages)

    def weight_versions(self, pipeline: Pipeline, stage: int) -> int:
        """2 on each stage."""
        return 2


PIPEDREAM_2BW = PipeDream2BW(
    name="pipedream-2bw",
    title="PipeDream-2BW",
    flushes=False,
    splits_backward=False,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="drained, one version; else both",
    source="Narayanan et al. 2021, arXiv 2006.09503, section 3.1",
)
