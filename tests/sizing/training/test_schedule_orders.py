"""What each device runs one pass after the other, held against the schedules that torch ships."""

from typing import Any

import pytest
from torch.distributed.pipelining.schedules import Schedule1F1B, ScheduleInterleaved1F1B, ScheduleZBVZeroBubble

from sizing.state.training import Schedule
from sizing.training.schedules import SCHEDULES
from sizing.training.schedules.schedule import PipelineShape

PASSES = {"F", "B", "I", "W"}
"""Beside them torch lists when gradients are reduced."""


def bare(kind: type, **fields: Any) -> Any:
    """A schedule of torch without modules and process groups: its order needs neither."""
    made: Any = object.__new__(kind)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def torch_order(name: str, p: int, m: int, v: int, rank: int) -> list[Any]:
    if name == "1f1b":
        return list(bare(Schedule1F1B, _num_stages=p, _n_microbatches=m)._get_pipeline_order()[rank])
    fields = {"pp_group_size": p, "_n_microbatches": m, "n_local_stages": v, "num_stages": p * v}
    if name == "interleaved":
        made = bare(ScheduleInterleaved1F1B, **fields, microbatches_per_round=p)
    else:
        made = bare(ScheduleZBVZeroBubble, **fields)
    return list(made._calculate_single_rank_operations(rank))


@pytest.mark.parametrize(
    ("name", "p", "m", "v"),
    [
        *[("1f1b", p, m, 1) for p in (2, 5) for m in (5, 8)],
        *[("interleaved", p, groups * p, v) for p in (2, 4) for groups in (1, 3) for v in (2, 3)],
        *[("zb-v", p, m, 2) for p in (1, 2, 5) for m in (1, 4, 9, 16)],
    ],
)
def test_passes_come_in_the_order_of_torch(name: Schedule, p: int, m: int, v: int) -> None:
    # torch numbers the forward passes of the last rank of 1f1b from 1: a slip, as it runs without this list.
    for rank in range(p - 1 if name == "1f1b" else p):
        theirs = [
            (action.computation_type.value, action.stage_index, action.microbatch_index)
            for action in torch_order(name, p, m, v, rank)
            if action is not None and action.computation_type.value in PASSES
        ]
        ours = SCHEDULES[name].order(PipelineShape(p, m, v), rank)
        assert [(each.kind.value, each.chunk, each.microbatch) for (each,) in ours] == theirs
