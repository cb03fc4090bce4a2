"""Every pipeline schedule by name: the one list that a new schedule is added to."""

from __future__ import annotations

from sizing.state.training import Schedule
from sizing.training.schedules.base import PipelineSchedule
from sizing.training.schedules.chimera import CHIMERA
from sizing.training.schedules.dualpipe import DUALPIPE
from sizing.training.schedules.gpipe import GPIPE
from sizing.training.schedules.interleaved import INTERLEAVED
from sizing.training.schedules.one_forward_one_backward import ONE_FORWARD_ONE_BACKWARD
from sizing.training.schedules.pipedream import PIPEDREAM
from sizing.training.schedules.pipedream_2bw import PIPEDREAM_2BW
from sizing.training.schedules.pipemare import PIPEMARE
from sizing.training.schedules.zero_bubble_h1 import ZERO_BUBBLE_H1
from sizing.training.schedules.zero_bubble_h2 import ZERO_BUBBLE_H2
from sizing.training.schedules.zero_bubble_v import ZERO_BUBBLE_V

SCHEDULES: dict[Schedule, PipelineSchedule] = {
    each.name: each
    for each in (
        GPIPE,
        ONE_FORWARD_ONE_BACKWARD,
        INTERLEAVED,
        PIPEDREAM,
        PIPEDREAM_2BW,
        PIPEMARE,
        CHIMERA,
        ZERO_BUBBLE_H1,
        ZERO_BUBBLE_H2,
        ZERO_BUBBLE_V,
        DUALPIPE,
    )
}


def default_schedule(*, num_chunks: int) -> Schedule:
    """What runs where a scenario names none: interleaved with several chunks per stage."""
    return INTERLEAVED.name if num_chunks > 1 else ONE_FORWARD_ONE_BACKWARD.name
