"""How long the ranks of a distributed checkpoint take to agree on who writes what, and whether training waits."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.ranges import plausible_range

_RANGE = plausible_range("storage.profile.planning_seconds_per_rank")


@dataclass(frozen=True, slots=True)
class Planning:
    """How a format plans a save.

    `seconds_per_rank`: what each rank adds where `storage.profile.planning_seconds_per_rank` does not say it.
    `is_in_background`: asynchronous saves plan after the copy, while training goes on; else training waits for it.
    `source`: where both were read.
    """

    seconds_per_rank: float
    is_in_background: bool
    source: str


OF_EVERY_TENSOR = Planning(
    seconds_per_rank=_RANGE.midpoint,
    is_in_background=True,
    source="the plan of each rank lists every tensor, and plans are cached only where DefaultSavePlanner's "
    "enable_plan_caching asks for it (pytorch/pytorch#147343); torch.distributed.checkpoint.async_save copies first "
    "and plans in the background",
)
"""PyTorch's distributed checkpoint by itself: each rank plans its rows of every tensor."""

OF_A_SHARE = Planning(
    seconds_per_rank=_RANGE.low,
    is_in_background=False,
    source="the plan of each rank lists its share alone, and ranks do not wait for a global one: Megatron-LM, "
    "dist_checkpointing, fully parallel save, on by default, and can_run_decentralized_global_plan; "
    "save_state_dict_async_plan plans before anything is handed to the background",
)
"""Megatron's distributed checkpoint: each tensor stands in the plan of one rank."""
