"""What the saves and restores of a workload come to: the benchmark's figures, and those of the slowest process."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict, Field

from io_bench.mlperf.rounds import Rounds
from io_bench.mlperf.workload import MlperfWorkload, num_checkpoints_of_rules, subset_processes
from io_bench.repetition.stopwatch import Timing
from sizing.units import counted_text


class MlperfOperation(BaseModel):
    """The saves, or the restores, of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds: tuple[float, ...] = Field(description="Seconds of each, until the slowest process was done.")
    min_seconds: float = Field(description="Seconds of the fastest one.")
    max_seconds: float = Field(description="Seconds of the slowest one.")
    mean_seconds: float = Field(description="Mean seconds of all of them.")
    mean_bytes_per_second: float = Field(
        description="Mean of their rates by the slowest process, in bytes per second of tensors."
    )
    process_0_seconds: tuple[float, ...] = Field(
        description="Seconds of each until process 0 was done, which is the clock of the benchmark."
    )
    process_0_mean_bytes_per_second: float = Field(
        description="Mean of their rates by that clock, in bytes per second of tensors: the benchmark's own figure."
    )

    @classmethod
    def of(cls, timings: Sequence[Timing], *, num_bytes: int) -> MlperfOperation:
        """The figures of timed operations that moved so many bytes each."""
        seconds = [timing.seconds for timing in timings]
        first = [timing.rank_seconds[0] for timing in timings]
        return cls(
            seconds=tuple(seconds),
            min_seconds=min(seconds),
            max_seconds=max(seconds),
            mean_seconds=statistics.mean(seconds),
            mean_bytes_per_second=statistics.mean(num_bytes / each for each in seconds),
            process_0_seconds=tuple(first),
            process_0_mean_bytes_per_second=statistics.mean(num_bytes / each for each in first),
        )


class MlperfFigures(BaseModel):
    """A workload of MLPerf Storage as this agent ran it. Comparable, never valid: that is the benchmark's to say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(description="Workload, by the size of its model.")
    num_processes: int = Field(description="Processes that wrote and read.")
    num_processes_of_all: int = Field(description="Processes that the whole checkpoint takes.")
    scale: float = Field(description="Part of each tensor that was written.")
    checkpoint_bytes: int = Field(description="Bytes of tensors of one checkpoint, as the benchmark counts them.")
    disk_bytes: int = Field(description="Bytes of its files.")
    write: MlperfOperation = Field(description="All saves, one after another.")
    read: MlperfOperation = Field(description="All restores, once every save was done and out of the page cache.")
    differences: tuple[str, ...] = Field(
        description="Where the run departs from the rules of a closed one. Empty where it is comparable."
    )

    @property
    def is_comparable(self) -> bool:
        """Whether the benchmark's own figures may stand beside these."""
        return not self.differences


def figures_of(found: Rounds, workload: MlperfWorkload, *, num_processes: int) -> MlperfFigures:
    """What a run comes to."""
    num_bytes = workload.size(num_processes).total_bytes
    return MlperfFigures(
        model=workload.name,
        num_processes=num_processes,
        num_processes_of_all=workload.shape.num_processes,
        scale=workload.scale,
        checkpoint_bytes=num_bytes,
        disk_bytes=found.disk_bytes,
        write=MlperfOperation.of(found.writes, num_bytes=num_bytes),
        read=MlperfOperation.of(found.restores, num_bytes=num_bytes),
        differences=tuple(differences(found, workload, num_processes=num_processes)),
    )


def differences(found: Rounds, workload: MlperfWorkload, *, num_processes: int) -> Iterator[str]:
    """What the rules of a closed run ask for and this run has not.

    Source: mlcommons/storage, Submission_guidelines.md, section 2.2, and mlpstorage/config.py.
    """
    allowed = (subset_processes(), workload.shape.num_processes)
    if num_processes not in allowed:
        choice = " or ".join(map(str, dict.fromkeys(allowed)))
        yield f"{num_processes} of {choice} processes wrote"
    if workload.scale != 1:
        yield f"tensors were scaled by {workload.scale:g}"
    if len(found.writes) != num_checkpoints_of_rules():
        yield f"{len(found.writes)} of {num_checkpoints_of_rules()} checkpoints were written and read"
    if found.resident_pages:
        yield f"{counted_text(found.resident_pages, 'page')} stayed in the page cache, and was read from there"
