"""What is asked of a check: the flags of `ckpt-bench check`, validated."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import Field

from io_bench.payload.workload import Size, workload_of
from io_bench.ranks.placement import placement_in
from io_bench.request.agreed_request import scenario_document
from io_bench.request.options import DEFAULT_BYTES_PER_RANK, PayloadBytes, TargetOptions
from sizing.scenario import scenario_from
from sizing.units import parse_bytes

MAX_RANKS = 10_000_000
"""A hundred times the largest published training: a number above is a typing error."""


class CheckOptions(TargetOptions):
    """A target, and the checkpoint that it is to hold. Fields are read under the names of their flags."""

    bytes_per_rank: Annotated[PayloadBytes | None, Field(alias="--bytes-per-rank")] = None
    num_ranks: Annotated[int | None, Field(alias="--ranks", ge=1, le=MAX_RANKS)] = None

    def size(self) -> Size:
        """One checkpoint of all ranks: those asked for, or those that were launched. Raises InvalidInput."""
        num_ranks = placement_in(os.environ).num_ranks if self.num_ranks is None else self.num_ranks
        scenario = None if self.scenario is None else scenario_from(scenario_document(self.scenario))
        bytes_per_rank = self.bytes_per_rank or parse_bytes(DEFAULT_BYTES_PER_RANK)
        return workload_of(scenario, scale=self.scale, bytes_per_rank=bytes_per_rank).size(num_ranks)
