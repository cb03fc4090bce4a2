"""What the agent measured: one JSON document per run, owned here, written by `io_bench`.

A Measurement keeps every sample of every rank, so that whoever reads it years later can judge it anew. The JSON Schema
of the document is published in `docs/benchmark-result.schema.json`.
"""

from __future__ import annotations

import math
import statistics
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from sizing.errors import broken_rule
from sizing.storage.run_events import (
    CHANGE_RATIO,
    LATE_RATIO,
    Corruption,
    LateRepetition,
    MeasuredList,
    RateChange,
    RatesOverTime,
    RequestLatency,
)
from sizing.storage.workload_shape import WorkloadShape
from sizing.strict_model import MeasuredModel
from sizing.units import MAX_BYTES
from sizing.units.inputs import Moment

RAW_ENGINE = "direct"
"""Moves the bytes and little else: it shows the storage, the other engines what they make of it."""
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

Suspect = Literal["storage", "client", "network", "generator"]
"""What may limit a rate.

`storage`: none of the others, so it is what is behind the network adapters of the nodes. `client`: a thread needed a
CPU for most of the time, or all CPUs were busy, or writes that are discarded take most of the time too; or another
engine got more out of the storage. `network`: an adapter of a node was at the rate of its link. `generator`: writers
waited for the bytes that they were to write.
"""
LimitedBy = Literal[Suspect, "not-told-apart"]
"""What the rate was limited by; `not-told-apart` where none is probable enough."""


_RankCount = Annotated[int, Field(ge=1, le=1_000_000)]
_Sample = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Seconds = Annotated[float, Field(ge=0)]
_Rate = Annotated[float, Field(gt=0)]
_Fraction = Annotated[float, Field(ge=0, le=1)]
_Name = Annotated[str, Field(max_length=200)]

_ROUNDING = 1e-3
"""Fraction by which figures may differ that are rounded one by one: seconds of ranks have six digits."""
_ROUNDED_SECONDS = 1e-6
"""Last digit of the seconds of each rank, as the agent writes them."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def median_bytes_per_second(total_bytes: int, seconds: list[float]) -> float:
    """The rate of a measurement: total bytes over the median time of its repetitions.

    Args: `total_bytes` moved by one repetition; `seconds`, one entry per repetition.
    Source: definition; a mean of rates would favour the fast repetitions.

    >>> median_bytes_per_second(100, [1.0, 2.0, 50.0])
    50.0
    """
    return total_bytes / statistics.median(seconds)


SHORT_SECONDS = 5.0
"""Seconds below which a write or a restore says little of storage. A choice: caches of drives and controllers hold a
few seconds of writes, and starting takes a tenth of one."""


class Measurement(MeasuredModel):
    """One operation of one configuration, repeated.

    `seconds[i]` is repetition i, `rank_seconds[i][r]` rank r in it. Times that are not lists are medians over the
    repetitions.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    engine: str = Field(
        min_length=1, max_length=64, description="Engine that wrote the checkpoint, such as direct or torch-save."
    )
    operation: Operation = Field(description="What was timed: writing the checkpoint or restoring it into memory.")
    num_nodes: _RankCount = Field(description="Nodes whose ranks took part.")
    num_ranks: _RankCount = Field(description="Ranks that took part at once.")
    bytes_per_rank: int = Field(
        ge=1, le=MAX_BYTES, description="Bytes on disk of one rank: the mean over the ranks, rounded."
    )
    total_bytes: int = Field(ge=1, le=MAX_BYTES, description="Bytes on disk of all ranks, moved by one repetition.")
    seconds: MeasuredList[_Sample] = Field(
        min_length=1, description="Seconds of each repetition, from the common start until the slowest rank is done."
    )
    bytes_per_second: float = Field(
        gt=0, description="Rate in bytes per second: total_bytes over the median of seconds."
    )
    first_done_seconds: MeasuredList[_Sample] = Field(
        min_length=1, description="Seconds of each repetition, from the common start until the fastest rank is done."
    )
    rank_seconds: MeasuredList[MeasuredList[_Sample]] = Field(
        min_length=1,
        description="Seconds of each repetition and in it of each rank, from the common start until that rank is done.",
    )
    cache_policy: CachePolicy = Field(
        description="How the page cache was kept out of the figure; cached means that it was not, so the figure is "
        "not one of storage."
    )
    verified: bool = Field(description="Whether what was restored has the checksums of what was written.")
    shape: WorkloadShape | None = Field(
        None,
        description="How the workload departs from writing one checkpoint and reading it back, with nothing beside. "
        "Null when it does not.",
    )

    payload_bytes_per_rank: int | None = Field(
        None, ge=1, description="Bytes of tensors asked for per rank. Null when a scenario said what to write."
    )
    num_files: int | None = Field(
        None, ge=0, description="Files of the checkpoint over all ranks. Null when not recorded."
    )
    block_bytes: int | None = Field(
        None, ge=1, description="Bytes of one request to the file system. Null when the engine decides."
    )
    threads_per_rank: int | None = Field(
        None, ge=1, description="Threads of one rank that move data. Null when not recorded."
    )
    stripe_count: int | None = Field(
        None,
        ge=-1,
        description="Storage targets over which each file was striped, as set for the run; -1 for all. "
        "Null for the layout of the target directory.",
    )
    stripe_bytes: int | None = Field(
        None,
        ge=1,
        description="Bytes of a stripe on one storage target, as set for the run. "
        "Null for the layout of the target directory.",
    )
    rank_bytes: MeasuredList[Annotated[int, Field(ge=0)]] | None = Field(
        None, description="Bytes on disk of each rank. Null when not recorded."
    )

    warm_up_seconds: _Seconds | None = Field(
        None,
        description="Seconds of the slowest rank in the first repetition, which does not count. "
        "Null when not recorded.",
    )
    start_spread_seconds: MeasuredList[_Seconds] | None = Field(
        None,
        description="Seconds of each repetition between the first and the last start of a rank. "
        "Null when not recorded.",
    )
    clock_error_seconds: _Seconds | None = Field(
        None,
        description="Max seconds by which the clock of a node may have been off that of rank 0 at a start; 0 on one "
        "node. Null when not recorded.",
    )
    phase_seconds: dict[_Name, _Seconds] | None = Field(
        None,
        description="Median seconds of the slowest rank by phase, such as serialize, write, fsync. "
        "Null when not recorded.",
    )
    snapshot_seconds: _Seconds | None = Field(
        None,
        description="Median seconds of the slowest rank's copy from device to host memory. "
        "Null when nothing was copied.",
    )
    stall_seconds: _Seconds | None = Field(
        None,
        description="Median seconds for which training would wait at an asynchronous save, slowest rank. "
        "Null for other engines.",
    )
    drain_seconds: _Seconds | None = Field(
        None,
        description="Median seconds of an asynchronous save from the stall's end until the bytes are durable. "
        "Null for other engines.",
    )

    rate_interval_bytes_per_second: tuple[_Rate, _Rate] | None = Field(
        None,
        description="95 % bootstrap interval of the rate over the repetitions, in bytes per second. "
        "Null when not recorded.",
    )
    drift_fraction: float | None = Field(
        None,
        description="Fraction by which the later half of the repetitions took longer; negative when it took less, 0 "
        "with fewer than four. Null when not recorded.",
    )
    p50_rank_seconds: _Sample | None = Field(
        None, description="Median seconds over all ranks and repetitions. Null when not recorded."
    )
    p95_rank_seconds: _Sample | None = Field(
        None, description="95th percentile of seconds over all ranks and repetitions. Null when not recorded."
    )
    straggler_ratio: Annotated[float, Field(ge=1)] | None = Field(
        None,
        description="Time of the slowest rank over that of the median rank, median of the repetitions. "
        "Null when not recorded.",
    )
    stragglers: MeasuredList[_Name] | None = Field(
        None, description="Ranks that are late beyond the spread of the others. Null when not looked for."
    )

    request_latency: RequestLatency | None = Field(
        None, description="How long single requests took, up to the slowest. Null when not recorded."
    )
    late_repetitions: MeasuredList[LateRepetition] | None = Field(
        None,
        description=f"Repetitions that took over {LATE_RATIO:g} times the median, each with the rank, file and phase "
        "that it waited for. Null when not looked for.",
    )
    rate_changes: MeasuredList[RateChange] | None = Field(
        None,
        description="Changes of the rate over the bytes that the run moved while all ranks did, as where a cache "
        "fills. "
        "Null when not looked for.",
    )
    sustained_bytes_per_second: _Rate | None = Field(
        None,
        description="Rate in bytes per second after the last change while all ranks move data, median of the "
        "repetitions that had it: what the storage keeps up. Null when not looked for.",
    )
    is_steady: bool | None = Field(
        None,
        description="Whether the rate was kept for long enough at the end, without a trend; if not, a longer run would "
        "have found another. Null when not judged.",
    )
    rates_over_time: RatesOverTime | None = Field(
        None,
        description="Bytes per second of each rank over time. Null when not recorded, and with more than 8,192 "
        "ranks times repetitions, for which a document has no room.",
    )

    limited_by: LimitedBy | None = Field(
        None,
        description="What limited the rate: storage, client, network or the generator of the payload; not-told-apart "
        "when none has a probability of 0.9. Null when not judged.",
    )
    limit_probabilities: dict[Suspect, _Fraction] | None = Field(
        None,
        description="Probability of each possible limit of the rate, in sum 1. Null when not judged, and when the "
        "comparison with another engine decided.",
    )
    null_sink_bytes_per_second: _Rate | None = Field(
        None, description="Rate of the same path with writes discarded, in bytes per second. Null when not measured."
    )
    generator_wait_fraction: _Fraction | None = Field(
        None, description="Fraction of the writing time spent waiting for bytes to write. Null without a generator."
    )
    client_cpu_fraction: _Fraction | None = Field(
        None,
        description="CPU time of the ranks as a fraction of what the CPUs that they may use have, on the busiest "
        "node. Null when not recorded.",
    )
    rank_cpu_seconds: MeasuredList[_Seconds] | None = Field(
        None, description="CPU seconds of each rank, median of the repetitions. Null when not recorded."
    )
    busy_thread_fraction: _Fraction | None = Field(
        None,
        description="Fraction of its time in which the busiest thread of the slowest rank ran or waited for a CPU. "
        "Null when the kernel does not count it.",
    )
    run_delay_fraction: _Fraction | None = Field(
        None,
        description="Fraction of the time for which the busiest thread of a rank was ready and had no CPU: the worst "
        "rank. Null when the kernel does not count it.",
    )
    throttled_fraction: _Fraction | None = Field(
        None,
        description="Fraction of the time in periods in which a control group had used up its CPU time, of the worst "
        "rank; 0 without a limit. Null when not recorded.",
    )
    link_fraction: _Fraction | None = Field(
        None,
        description="Fraction of its link's rate that the busiest network adapter of a node carried. "
        "Null when no adapter says its rate.",
    )
    software_tax_fraction: Annotated[float, Field(lt=1)] | None = Field(
        None,
        description="Fraction of the raw rate that the format loses: 1 - rate / rate of the engine direct. "
        "Null when direct was not measured with it.",
    )
    resident_pages: int | None = Field(
        None,
        ge=0,
        description="Max of pages in the page cache after a direct write or before a restore, 0 as proof that they "
        "were kept out. Null when it cannot be seen.",
    )
    counted_bytes: dict[_Name, Annotated[int, Field(ge=0)]] | None = Field(
        None,
        description="Bytes that the kernel counted on all nodes, by counter, as a second opinion: median of the "
        "repetitions. Null when not recorded.",
    )
    equivalent_commands: dict[_Name, str] | None = Field(
        None,
        description="Command lines of fio and other tools that move the same bytes, by tool. Null for object stores "
        "and several targets.",
    )

    @property
    def headline_bytes_per_second(self) -> float:
        """The rate to reckon with: what the storage keeps up, where that is less than it began with."""
        if self.fall is None or self.sustained_bytes_per_second is None:
            return self.bytes_per_second
        return min(self.bytes_per_second, self.sustained_bytes_per_second)

    @property
    def fall(self) -> RateChange | None:
        """Where writes first fell to the rate that goes on, as where a cache is full; None where they never did.

        None also where that rate is above the median of whole repetitions by more than noise, the ratio that makes a
        change: changes are found while all ranks move data, and the median holds what the last ranks move alone.
        Restores fill no cache that takes writes at its own rate.
        """
        sustained = self.sustained_bytes_per_second
        if self.operation != "write" or sustained is None or sustained > CHANGE_RATIO * self.bytes_per_second:
            return None
        low, high = sustained / CHANGE_RATIO, sustained * CHANGE_RATIO
        falls = (each for each in self.rate_changes or [] if each.after_bytes_per_second < each.before_bytes_per_second)
        return next((each for each in falls if low < each.after_bytes_per_second < high), None)

    @property
    def is_of_storage(self) -> bool:
        """Whether all of it came from storage, or went there; else its rate may be one of memory."""
        return self.cache_policy != "cached"

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        if self.num_nodes > self.num_ranks:
            raise broken_rule(
                f"has num_nodes {self.num_nodes:,} above num_ranks {self.num_ranks:,}: a node takes part by its ranks",
                "take the document as the agent wrote it",
            )
        lengths = [len(self.seconds), len(self.first_done_seconds), len(self.rank_seconds)]
        if len(set(lengths)) != 1:
            raise broken_rule(
                "must have one entry per repetition in seconds, first_done_seconds and rank_seconds, "
                f"and has {', '.join(map(str, lengths))}",
                "take the document as the agent wrote it",
            )
        wrong = [len(ranks) for ranks in self.rank_seconds if len(ranks) != self.num_ranks]
        if wrong:
            raise broken_rule(
                f"has num_ranks {self.num_ranks:,} and a repetition with {wrong[0]:,} entries in rank_seconds",
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
        late = (
            max(*first_and_ranks)
            for first_and_ranks in zip(self.first_done_seconds, map(max, self.rank_seconds), strict=True)
        )
        if any(
            done > seconds * (1 + _ROUNDING) + _ROUNDED_SECONDS
            for done, seconds in zip(late, self.seconds, strict=True)
        ):
            raise broken_rule(
                "must have no first_done_seconds or rank_seconds above the seconds of their repetition",
                "take the document as the agent wrote it",
            )
        mean_bytes = self.total_bytes / self.num_ranks
        if abs(self.bytes_per_rank - mean_bytes) > max(1.0, mean_bytes * _ROUNDING):
            raise broken_rule(
                f"has bytes_per_rank {self.bytes_per_rank:,} where total_bytes over num_ranks is {mean_bytes:,.0f}",
                "take the document as the agent wrote it",
            )
        rate = median_bytes_per_second(self.total_bytes, self.seconds)
        if not math.isclose(rate, self.bytes_per_second, rel_tol=1e-6):
            raise broken_rule(
                f"has bytes_per_second {self.bytes_per_second:.6g} where its samples say {rate:.6g}",
                "take the document as the agent wrote it",
            )
        return self


class BenchmarkResult(MeasuredModel):
    """The agent's result document: what ran, where, and every measurement of it."""

    schema_version: Literal[1] = Field(1, description="Version of this form of document.")
    run_id: str = Field(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="Id of the run: time of its start and random characters.",
    )
    started_at: Moment | None = Field(
        None, description="Moment at which the run began. Null in documents of older agents."
    )
    command: MeasuredList[str] = Field(description="Command line of the run, word by word.")
    environment: dict[str, JsonValue] = Field(description="Versions, host, kernel, mount and hardware of each node.")
    warnings: MeasuredList[str] = Field(description="What a reader must know before believing the figures.")
    corruption: MeasuredList[Corruption] | None = Field(
        None,
        description="Data that came back other than it was written, which ended the run as failed. "
        "Null when there was none.",
    )
    measurements: MeasuredList[Measurement] = Field(min_length=1, description="Every operation of every configuration.")

    @property
    def warnings_by_kind(self) -> list[str]:
        """The warnings, with those of several late repetitions in one sentence."""
        late = [(each, found) for found in self.measurements for each in found.late_repetitions or []]
        begins = {f"Repetition {each.repetition} of the {found.operation} took " for each, found in late}
        others = [warning for warning in self.warnings if not any(begin in warning for begin in begins)]
        if len(self.warnings) - len(others) < 2:
            return self.warnings
        worst, found = max(late, key=lambda pair: pair[0].ratio)
        return [
            *others,
            f"{len(late)} repetitions took over {LATE_RATIO:g} times the median of their measurement: at worst "
            f"repetition {worst.repetition} of the {found.operation}, {worst.ratio:.1f} times. It waited for "
            f"{worst.title}. Bandwidths are medians and do not show them.",
        ]


def result_schema() -> dict[str, Any]:
    """What a result document may hold; its `schema_version` is 1.

    >>> result_schema()["properties"]["schema_version"]["const"], result_schema()["$schema"]
    (1, 'https://json-schema.org/draft/2020-12/schema')
    """
    return {"$schema": DIALECT, **BenchmarkResult.model_json_schema()}
