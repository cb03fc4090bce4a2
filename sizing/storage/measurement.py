"""What the agent measured: one JSON document per run, owned here, written by `io_bench`.

A Measurement keeps every sample of every rank, so that whoever reads it years later can judge it anew.
"""

from __future__ import annotations

import math
import statistics
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, model_validator

from sizing.errors import broken_rule
from sizing.units import MOST_BYTES

Operation = Literal["write", "restore"]

CachePolicy = Literal[
    "buffered-fsync", "o-direct", "other-node", "fadvise-dontneed", "drop-caches", "object-store", "cached"
]
"""How the page cache was kept out of the figure.

`buffered-fsync`: written through the page cache, timed until fsync of file and directory returned.
`o-direct`: the page cache was bypassed. `other-node`: each rank read what another node wrote.
`fadvise-dontneed`, `drop-caches`: cached pages were dropped before the read. `object-store`: the client keeps no
cache, and written means that the store has acknowledged the complete object. `cached`: pages may have come from
memory, so the figure is not one of storage.
"""

LimitedBy = Literal["storage", "client", "generator"]
"""What the rate was limited by.

`storage`: the client alone, writing to nowhere, is faster by far. `client`: it is not, so the storage may be faster
than measured; or another engine got more out of it. `generator`: writers waited for the bytes that they were to write.
"""

_RankCount = Annotated[int, Field(ge=1, le=1_000_000)]
_Sample = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0)]
_Rate = Annotated[float, Field(gt=0)]
_Name = Annotated[str, Field(max_length=200)]


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
    What is None was not measured. Times that are not lists are medians over the repetitions.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    engine: str = Field(min_length=1, max_length=64)
    operation: Operation
    num_nodes: _RankCount
    num_ranks: _RankCount
    bytes_per_rank: int = Field(ge=1, le=MOST_BYTES, description="on disk, mean over the ranks, rounded")
    total_bytes: int = Field(ge=1, le=MOST_BYTES, description="on disk, over all ranks")
    seconds: list[_Sample] = Field(min_length=1)
    bytes_per_second: float = Field(gt=0, description="total_bytes over the median of seconds")
    first_done_seconds: list[_Sample] = Field(min_length=1)
    rank_seconds: list[list[_Sample]] = Field(min_length=1)
    cache_policy: CachePolicy
    verified: bool = Field(description="what was restored has the checksum of what was written")

    payload_bytes_per_rank: int | None = Field(None, ge=1, description="as asked for; null where a scenario said it")
    num_files: int | None = Field(None, ge=0, description="files of the checkpoint, over all ranks")
    block_bytes: int | None = Field(None, ge=1, description="of one request to the file system")
    threads_per_rank: int | None = Field(None, ge=1, description="that move data")
    rank_bytes: list[Annotated[int, Field(ge=0)]] | None = Field(None, description="on disk, of each rank")

    warm_up_seconds: _Seconds | None = Field(None, description="of the slowest rank, in the repetition not counted")
    start_spread_seconds: list[_Seconds] | None = Field(None, description="first to last start of a rank")
    phase_seconds: dict[_Name, _Seconds] | None = Field(None, description="of the slowest rank in each phase")
    snapshot_seconds: _Seconds | None = Field(None, description="from device to host memory, slowest rank")
    stall_seconds: _Seconds | None = Field(None, description="asynchronous save: training waits, slowest rank")
    drain_seconds: _Seconds | None = Field(None, description="asynchronous save: from the stall's end to durable")

    rate_interval_bytes_per_second: tuple[_Rate, _Rate] | None = Field(
        None, description="95 % bootstrap interval of bytes_per_second over the repetitions"
    )
    drift_fraction: float | None = Field(None, description="longer (or less) that the later half took")
    p50_rank_seconds: _Sample | None = Field(None, description="over all ranks and repetitions")
    p95_rank_seconds: _Sample | None = Field(None, description="over all ranks and repetitions")
    straggler_ratio: Annotated[float, Field(ge=1)] | None = Field(None, description="slowest rank over median rank")
    stragglers: list[_Name] | None = Field(None, description="ranks that are late beyond the spread of the others")

    limited_by: LimitedBy | None = None
    null_sink_bytes_per_second: _Rate | None = Field(None, description="the same path with the writes discarded")
    generator_wait_fraction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="of the writing time, waited for bytes to write"
    )
    client_cpu_fraction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="CPU time of the ranks over the time of the CPUs that they may use, on the busiest node"
    )
    software_tax_fraction: Annotated[float, Field(lt=1)] | None = Field(
        None, description="1 - rate / rate of the engine direct in the same document"
    )
    resident_pages: int | None = Field(
        None, ge=0, description="in the page cache: after a direct write, before a restore; most of any repetition"
    )
    counted_bytes: dict[_Name, Annotated[int, Field(ge=0)]] | None = Field(
        None, description="that the kernel counted beside the agent, by counter, on all nodes together"
    )
    equivalent_commands: dict[_Name, str] | None = Field(None, description="command lines of other tools, by tool")

    @property
    def is_of_storage(self) -> bool:
        """Whether all of it came from storage, or went there; else its rate may be one of memory."""
        return self.cache_policy != "cached"

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        lengths = {len(self.seconds), len(self.first_done_seconds), len(self.rank_seconds)}
        if len(lengths) != 1 or {len(ranks) for ranks in self.rank_seconds} != {self.num_ranks}:
            raise broken_rule(
                "must have one entry per repetition, and in rank_seconds one per rank",
                "take the document as the agent wrote it",
            )
        if self.rank_bytes is not None and (len(self.rank_bytes), sum(self.rank_bytes)) != (
            self.num_ranks,
            self.total_bytes,
        ):
            raise broken_rule(
                "must have one entry per rank in rank_bytes, with the sum total_bytes",
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
    started_at: AwareDatetime | None = None
    command: list[str]
    environment: dict[str, JsonValue] = Field(description="versions, host, kernel, mount, hardware")
    warnings: list[str]
    measurements: list[Measurement] = Field(min_length=1)
