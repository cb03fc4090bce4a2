"""Pipeline schedules: how many microbatches a stage holds at once, and how long it idles; every schedule by name."""

from __future__ import annotations

from sizing.state.training import Schedule
from sizing.training.schedules.one_way import (
    GPIPE,
    INTERLEAVED,
    ONE_FORWARD_ONE_BACKWARD,
    PIPEDREAM,
    PIPEDREAM_2BW,
    PIPEMARE,
)
from sizing.training.schedules.schedule import PipelineSchedule
from sizing.training.schedules.two_way import CHIMERA, DUALPIPE
from sizing.training.schedules.zero_bubble import ZERO_BUBBLE_H1, ZERO_BUBBLE_H2, ZERO_BUBBLE_V

__all__ = ["SCHEDULES", "default_schedule"]

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
"""The one list that a new schedule is added to."""


def default_schedule(*, num_chunks: int) -> Schedule:
    """Return the default schedule: interleaved with several chunks per stage, else 1F1B."""
    return INTERLEAVED.name if num_chunks > 1 else ONE_FORWARD_ONE_BACKWARD.name
