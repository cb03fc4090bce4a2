"""PipeMare: one version of the weights, and a buffer that tells how fast they move, to correct for what is late."""

from __future__ import annotations

from sizing.training.schedules.passes import PassTimes
from sizing.training.schedules.pipedream import WithoutFlush


class PipeMare(WithoutFlush):
    """Backward passes use weights extrapolated to those of the forward pass, by `moments`."""


PIPEMARE = PipeMare(
    name="pipemare",
    title="PipeMare",
    flushes=False,
    splits_backward=False,
    is_two_way=False,
    published_times=PassTimes(),
    consistency="one version and the correction buffer",
    source="Yang et al. 2021, arXiv 1910.05124, section 3.2",
)
