"""What happened inside writes and restores, as result documents keep it: latencies, rates over time, wrong bytes."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

from pydantic import ConfigDict, Field

from sizing.strict_model import MeasuredModel

_Item = TypeVar("_Item")

MeasuredList: TypeAlias = Annotated[list[_Item], Field(fail_fast=True)]
"""A list of which the first wrong item alone is named: a program wrote it, so the others are wrong alike.

To keep the faults of 15 MB of wrong items takes more than 3 GB.
"""

CHANGE_RATIO = 1.25
"""Between rates before and after a change. A choice: above the noise of storage, below what any cache is worth."""

DIRECTORY = "."
"""The name under which requests to the checkpoint's directory are noted."""

_Seconds = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(max_length=4_096)]

_Hex = Annotated[str, Field(pattern=r"^[0-9a-f]*$", max_length=64)]


class _Block(MeasuredModel):
    model_config = ConfigDict(allow_inf_nan=False)


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


LATE_RATIO = 1.5
"""A repetition is late from this ratio to the median. A choice: storage that others use too varies by less, and a hang
of seconds in a write of ten is beyond it."""


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


class Corruption(MeasuredModel):
    """One tensor that was restored with other bytes than were written, or files that could not be read back."""

    repetition: _Count = Field(description="Repetition, counted from 1; 0 is the warm-up.")
    rank: _Count = Field(description="Rank that restored the data.")
    title: _Name = Field(description="That rank in words: its number, its host, and its node where hosts share a name.")
    files: MeasuredList[_Name] = Field(description="Files that it restored from; they are kept where they are.")
    problem: str | None = Field(
        None, description="Error that reading them gave. Null when they could be read and only bytes differ."
    )
    tensor: _Name | None = Field(None, description="Tensor with wrong bytes. Null when none could be told.")
    tensor_bytes: _Count | None = Field(None, description="Bytes of that tensor. Null when none could be told.")
    first_byte: _Count | None = Field(
        None, description="Offset in bytes of the first wrong byte in the tensor. Null when none could be told."
    )
    last_byte: _Count | None = Field(
        None, description="Offset in bytes of the last wrong byte in the tensor. Null when none could be told."
    )
    num_wrong_bytes: _Count | None = Field(
        None, description="Number of wrong bytes in the tensor. Null when none could be told."
    )
    expected: _Hex | None = Field(
        None, description="Bytes that were written, in hexadecimal, from the first wrong one on. Null when not known."
    )
    found: _Hex | None = Field(
        None, description="Bytes that were restored, in hexadecimal, from the first wrong one on. Null when not known."
    )

    @property
    def sentence(self) -> str:
        """What happened, where, and what became of the files."""
        when = f"in repetition {self.repetition}" if self.repetition else "in the warm-up"
        where = ", ".join(self.files)
        kept = f"Kept as evidence: {where}."
        details = ""
        if self.tensor:
            details = (
                f": {self.num_wrong_bytes:,} wrong byte(s) in {self.tensor}, from byte {self.first_byte:,} to "
                f"{self.last_byte:,} of {self.tensor_bytes:,}, {self.expected} expected and {self.found} found"
            )
        if self.problem:
            return f"{self.problem.rstrip('.')}, as {self.title} found {when}{details}. {kept}"
        return (
            f"Verification failed: the data that rank {self.rank} restored from {where} differs from the data written, "
            f"as {self.title} found {when}{details}. Do not use this storage for checkpoints. {kept}"
        )
