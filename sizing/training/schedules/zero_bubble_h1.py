"""ZB-H1: zero bubble within the memory of 1F1B."""

from __future__ import annotations

from sizing.training.schedules.passes import PassTimes
from sizing.training.schedules.zero_bubble import ZeroBubble


class ZeroBubbleH1(ZeroBubble):
    """Depth p - i."""

    def depth(self, num_stages: int, stage: int) -> int:
        """As 1F1B."""
        return num_stages - stage


ZERO_BUBBLE_H1 = ZeroBubbleH1(
    name="zb-h1",
    title="zero bubble H1",
    flushes=True,
    splits_backward=True,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="one version of the weights: every step ends with a flush",
    source="Qi et al. 2023, arXiv 2401.10241, section 2.1",
)
