"""How long the ranks of a distributed checkpoint take to agree on who writes what, and whether training waits."""

from __future__ import annotations

from dataclasses import dataclass

from sizing.layout.containers import OF_DCP, WITH_PLANS, Metadata
from sizing.ranges import plausible_range

_RANGE = plausible_range("storage.profile.planning_seconds_per_rank")
_EVERY_TENSOR_SECONDS_PER_RANK = 90 / 256
"""pytorch/pytorch#149785. The same grows with ranks: 200 s on 1,024 and over 600 s on 2,048, 0.2 and 0.3 s for each, of
the validation alone (pytorch/pytorch#163548); 436 less 67 s on 1,856, 0.2 s for each (PyTorch and Crusoe 2025)."""
_SHARE_SECONDS_PER_RANK = 62 / 8960
"""Of ByteCheckpoint's planner, which gathers plans on one rank as PyTorch's does, for a model of 405B trained by
Megatron-LM (arXiv 2407.20143, section 4.1). At second hand: three summaries of the paper agree on the figures, its own
text was not read. By one of them all of a stall of Megatron-LM's own save took 4.70 s on 4,800 ranks (table 4), 0.001 s
for each, which the range holds."""


@dataclass(frozen=True, slots=True)
class Planning:
    """How a format plans a save.

    `uncached_seconds_per_rank`: what each rank adds without cached plans.
    `is_in_background`: asynchronous saves plan after the copy, while training goes on; else training waits for it.
    `metadata`: what the plans leave in `.metadata`.
    `source`: where both were read.
    """

    uncached_seconds_per_rank: float
    is_in_background: bool
    metadata: Metadata
    source: str

    @property
    def seconds_per_rank(self) -> float:
        """What each rank adds where `storage.profile.planning_seconds_per_rank` does not say it."""
        return _RANGE.midpoint * self.uncached_seconds_per_rank


OF_EVERY_TENSOR = Planning(
    uncached_seconds_per_rank=_EVERY_TENSOR_SECONDS_PER_RANK,
    is_in_background=True,
    metadata=OF_DCP,
    source="the plan of each rank lists every tensor: over 90 s for 256 ranks without cached plans "
    "(pytorch/pytorch#149785); torch.distributed.checkpoint.async_save copies first and plans in the background",
)
"""PyTorch's distributed checkpoint by itself: each rank plans its rows of every tensor."""

OF_A_SHARE = Planning(
    uncached_seconds_per_rank=_SHARE_SECONDS_PER_RANK,
    is_in_background=False,
    metadata=WITH_PLANS,
    source="the plan of each rank lists its share alone: 62 s for 8,960 ranks of Megatron-LM without cached plans "
    "(ByteCheckpoint, arXiv 2407.20143, section 4.1, at second hand); save_state_dict_async_plan gathers them on "
    "rank 0 in every save before anything is handed to the background",
)
"""Megatron's distributed checkpoint: each tensor stands in the plan of one rank."""
