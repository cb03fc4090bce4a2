"""ZB-H2: no bubble where the passes take as long as each other, for twice the activations."""

from __future__ import annotations

from sizing.training.schedules.passes import PassTimes
from sizing.training.schedules.zero_bubble import ZeroBubble


class ZeroBubbleH2(ZeroBubble):
    """Depth 2 (p - i) - 1."""

    def depth(self, num_stages: int, stage: int) -> int:
        """What comes back late finds more to do."""
        return 2 * (num_stages - stage) - 1


ZERO_BUBBLE_H2 = ZeroBubbleH2(
    name="zb-h2",
    title="zero bubble H2",
    flushes=True,
    splits_backward=True,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="one version, once an update that its later validation rolls back is out of the way",
    source="Qi et al. 2023, arXiv 2401.10241, sections 2.2 and 4",
)
