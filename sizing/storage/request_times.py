"""What happened inside writes and restores, as result documents keep it: latencies, rates over time, hangs."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sizing.storage.measured_list import MeasuredList

CHANGE_RATIO = 1.25
"""Between rates before and after a change. A choice: above the noise of storage, below what any cache is worth."""

DIRECTORY = "."
"""The name under which requests to the checkpoint's directory are noted."""

_Seconds = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(max_length=4_096)]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RequestPlace(_Block):
    """One request to the storage, and where it went."""

    repetition: int = Field(ge=1, description="Repetition, counted from 1 without the warm-up.")
    rank: _Count = Field(description="Number of the rank that made the request, from 0.")
    node: _Name = Field(description="Node on which that rank runs, as the launcher names it.")
    title: _Name = Field(description="That rank in words: its number, its host, and its node where hosts share a name.")
    phase: _Name = Field(description="Phase of the operation, such as write, read or fsync.")
    file: _Name = Field(description="Name of the file within the checkpoint that was moved.")
    offset_bytes: _Count = Field(description="Bytes of the file before the request.")
    seconds: _Seconds = Field(description="Seconds from its call until the system returned.")

    @property
    def where(self) -> str:
        """Its place within the checkpoint, in words: a file and a byte of it, or the directory itself."""
        return "of the directory" if self.file == DIRECTORY else f"at byte {self.offset_bytes:,} of {self.file}"


class RequestLatency(_Block):
    """How long the requests that moved data took: all ranks, all repetitions. Quantiles are within 1 %."""

    num_requests: _Count = Field(description="Number of requests that moved data.")
    p50_seconds: _Seconds = Field(description="Median seconds of a request, within 1 %.")
    p99_seconds: _Seconds = Field(description="Seconds that 99 % of the requests did not exceed, within 1 %.")
    p999_seconds: _Seconds = Field(description="Seconds that 99.9 % of the requests did not exceed, within 1 %.")
    max_seconds: _Seconds = Field(description="Seconds of the slowest request that moved data.")
    slowest: RequestPlace = Field(description="Request of any phase, fsync included, that took the most time.")
    bucket_counts: MeasuredList[tuple[int, int]] = Field(
        description="Histogram as pairs: bucket i, and the number of requests that took from g^(i-1) to g^i seconds, "
        "where g is 1.01 / 0.99."
    )


class LateRepetition(_Block):
    """A repetition that took much longer than the others, and the rank and the request that it waited for."""

    repetition: int = Field(ge=1, description="Repetition, counted from 1 without the warm-up.")
    seconds: _Seconds = Field(description="Seconds from the common start until its slowest rank was done.")
    ratio: float = Field(ge=1, description="Ratio of its time to the median time of the repetitions.")
    rank: _Count = Field(description="Rank that was done last.")
    node: _Name = Field(description="Node on which that rank runs, as the launcher names it.")
    title: _Name = Field(description="That rank in words: its number, its host, and its node where hosts share a name.")
    phase: _Name | None = Field(
        None, description="Phase in which that rank lost the most time. Null when the engine reports no phases."
    )
    lost_seconds: _Seconds | None = Field(
        None, description="Seconds lost in that phase, against the rank's median. Null when there is no phase."
    )
    slowest: RequestPlace | None = Field(
        None, description="Slowest request of that rank in that phase. Null when the phase made no request."
    )


class RateChange(_Block):
    """Where the rate of a run went from one level to another, as where a cache is full."""

    after_bytes: _Count = Field(
        description="Bytes that all ranks had moved in this operation when the rate changed, warm-up included."
    )
    before_bytes_per_second: float = Field(
        gt=0, description="Rate in bytes per second until then, median of its pieces."
    )
    after_bytes_per_second: float = Field(
        gt=0, description="Rate in bytes per second from there on, median of its pieces."
    )


class RatesOverTime(_Block):
    """Bytes per second of each rank while it wrote or restored."""

    bin_seconds: float = Field(gt=0, description="Seconds of one bin; the first begins with the operation.")
    rank_bytes_per_second: MeasuredList[MeasuredList[MeasuredList[_Count]]] = Field(
        description="Rates in bytes per second, by repetition, rank and bin, up to the rank's last bin with data."
    )
