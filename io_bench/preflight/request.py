"""What is asked of a check: the flags of `ckpt-bench check`, validated."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from io_bench.options import LEAST_BYTES_PER_RANK, MOST_BYTES_PER_RANK
from io_bench.placement import placement_in
from sizing.errors import explain
from sizing.units import parse_bytes

MOST_RANKS = 10_000_000


class CheckRequest(BaseModel):
    """A target, and the checkpoint that it is to hold. Fields are read under the names of their flags."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: Annotated[str, Field(alias="--target")]
    bytes_per_rank: Annotated[
        int,
        Field(alias="--bytes-per-rank", ge=LEAST_BYTES_PER_RANK, le=MOST_BYTES_PER_RANK),
        BeforeValidator(parse_bytes),
    ]
    num_ranks: Annotated[int, Field(alias="--ranks", ge=1, le=MOST_RANKS)]

    @classmethod
    def of(cls, flags: Mapping[str, object]) -> Self:
        """The request that the flags spell. Raises InvalidInput, with one Problem per flag."""
        try:
            return cls.model_validate(flags)
        except ValidationError as error:
            raise explain(error, cls) from error

    @property
    def total_bytes(self) -> int:
        """One checkpoint of all ranks, without containers."""
        return self.num_ranks * self.bytes_per_rank


def num_launched_ranks() -> int:
    """The ranks that the launcher has started; 1 where there is none. Raises InvalidInput."""
    return placement_in(os.environ).num_ranks
