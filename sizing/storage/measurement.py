"""What the agent measured: one JSON document per run, owned here, written by `io_bench`.

A Measurement keeps every sample of every rank, so that whoever reads it years later can judge it anew.
"""

from __future__ import annotations

import math
import statistics
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from sizing.errors import broken_rule

Operation = Literal["write", "restore"]

CachePolicy = Literal["buffered-fsync", "o-direct", "fadvise-dontneed", "drop-caches", "cached"]
"""How the page cache was kept out of the figure.

`buffered-fsync`: written through the page cache, timed until fsync of file and directory returned.
`o-direct`: the page cache was bypassed. `fadvise-dontneed`, `drop-caches`: cached pages were dropped
before the read. `cached`: pages may have come from memory, so the figure is not one of storage.
"""

_RankCount = Annotated[int, Field(ge=1, le=1_000_000)]
_Sample = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def median_bytes_per_second(total_bytes: int, seconds: list[float]) -> float:
    """The rate of a measurement: total bytes over the median time of its repetitions.

    Args: `total_bytes` moved by one repetition; `seconds`, one entry per repetition.
    Source: definition; a mean of rates would favour the fast repetitions.

    >>> median_bytes_per_second(100, [1.0, 2.0, 50.0])
    50.0
    """
    return total_bytes / statistics.median(seconds)


class Measurement(BaseModel):
    """One operation of one configuration, repeated.

    `seconds[i]` is repetition i from the common start to its slowest rank, `first_done_seconds[i]` to
    its fastest, `rank_seconds[i][r]` to the end of rank r. `total_bytes` is what one repetition moved.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    engine: str = Field(min_length=1, max_length=64)
    operation: Operation
    num_nodes: _RankCount
    num_ranks: _RankCount
    bytes_per_rank: int = Field(ge=1, description="on disk, mean over the ranks, rounded")
    total_bytes: int = Field(ge=1, description="on disk, over all ranks")
    seconds: list[_Sample] = Field(min_length=1)
    bytes_per_second: float = Field(gt=0, description="total_bytes over the median of seconds")
    first_done_seconds: list[_Sample] = Field(min_length=1)
    rank_seconds: list[list[_Sample]] = Field(min_length=1)
    cache_policy: CachePolicy
    verified: bool = Field(description="what was restored has the checksum of what was written")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        lengths = {len(self.seconds), len(self.first_done_seconds), len(self.rank_seconds)}
        if len(lengths) != 1 or {len(ranks) for ranks in self.rank_seconds} != {self.num_ranks}:
            raise broken_rule(
                "must have one entry per repetition, and in rank_seconds one per rank",
                "take the document as the agent wrote it",
            )
        rate = median_bytes_per_second(self.total_bytes, self.seconds)
        if not math.isclose(rate, self.bytes_per_second, rel_tol=1e-6):
            raise broken_rule(
                f"has bytes_per_second {self.bytes_per_second:.6g} where its samples say {rate:.6g}",
                "take the document as the agent wrote it",
            )
        return self


class BenchmarkResult(BaseModel):
    """The agent's result document: what ran, where, and every measurement of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    run_id: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    command: list[str]
    environment: dict[str, JsonValue] = Field(description="versions, host, kernel, mount, hardware")
    warnings: list[str]
    measurements: list[Measurement] = Field(min_length=1)
