"""Figures of a run as MLPerf Storage has them, and by the slowest process; the files that its reporting tool reads.

Source: mlcommons/storage, mlpstorage/rules.py (BenchmarkResult, BenchmarkRun), and DLIO's utils/statscounter.py, which
writes `summary.json`. What they call GB is 2^30 bytes.
"""

from __future__ import annotations

import datetime
import json
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field
from rich import box
from rich.table import Table

from io_bench.commands.mlperf.rounds import MlperfRounds
from io_bench.commands.mlperf.workload import MlperfWorkload, num_checkpoints_of_rules, subset_processes
from io_bench.measure.stopwatch import OperationSample
from sizing.strict_model import StrictModel
from sizing.units import BYTES_PER_GIBIBYTE, bytes_text, counted_text, rate_text, seconds_text

_PROGRAM = "ckpt-bench mlperf"
SUMMARY, FIGURES = "summary.json", "figures.json"
_TIME = "%Y-%m-%dT%H:%M:%S.%f"


def summary_of(
    figures: MlperfFigures,
    *,
    nodes: Mapping[str, Any],
    started_at: datetime.datetime,
    ended_at: datetime.datetime,
) -> dict[str, Any]:
    """The content of `summary.json`: the benchmark's names by its own clock, and the slowest process's beside them."""
    return {
        "start": f"{started_at:{_TIME}}",
        "end": f"{ended_at:{_TIME}}",
        "num_accelerators": figures.num_processes,
        "num_hosts": len(nodes),
        "hostname": platform.node(),
        "host_memory_GB": [node["memory_bytes"] / BYTES_PER_GIBIBYTE for node in nodes.values()],
        "host_cpu_count": [node["num_cpus"] for node in nodes.values()],
        "written_by": _PROGRAM,
        "comparable": figures.is_comparable,
        "differences": list(figures.differences),
        "metric": {
            **_metric("save", figures.write, figures.checkpoint_bytes),
            **_metric("load", figures.read, figures.checkpoint_bytes),
            "checkpoint_size_GB": figures.checkpoint_bytes / BYTES_PER_GIBIBYTE,
        },
    }


def _metric(operation: str, figures: MlperfOperation, num_bytes: int) -> dict[str, float]:
    by_clock = {"": figures.process_0_seconds, "slowest_process_": figures.seconds}
    metrics: dict[str, float] = {}
    for whose, seconds in by_clock.items():
        rates = [num_bytes / BYTES_PER_GIBIBYTE / each for each in seconds]
        metrics |= _mean_and_deviation(f"{operation}_checkpoint_{whose}io", "GB_per_second", rates)
        metrics |= _mean_and_deviation(f"{operation}_checkpoint_{whose}duration", "seconds", seconds)
        metrics |= {
            f"{operation}_checkpoint_{whose}duration_min_seconds": min(seconds),
            f"{operation}_checkpoint_{whose}duration_max_seconds": max(seconds),
        }
    return metrics


def _mean_and_deviation(name: str, unit: str, values: Sequence[float]) -> dict[str, float]:
    """Mean and deviation as the benchmark has them, that of all values and not of a sample."""
    return {f"{name}_mean_{unit}": statistics.mean(values), f"{name}_stdev_{unit}": statistics.pstdev(values)}


def write_files(folder: Path, summary: Mapping[str, Any], figures: MlperfFigures, workload: MlperfWorkload) -> None:
    """Fill a folder as the reporting tool takes it. Raises OSError.

    The tool takes every folder with metadata for a closed run, so that only a comparable run gets any.
    """
    (folder / SUMMARY).write_text(json.dumps(summary, indent=4) + "\n")
    (folder / FIGURES).write_text(figures.model_dump_json(indent=2) + "\n")
    if not figures.is_comparable:
        return
    metadata = {
        "benchmark_type": "checkpointing",
        "model": f"llama3-{workload.name}",
        "written_by": _PROGRAM,
    }
    (folder / "ckpt-bench_metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")
    config = folder / "dlio_config"
    config.mkdir()
    (config / "config.yaml").write_text(yaml.safe_dump({"workload": _workload(workload, figures)}))


def _workload(workload: MlperfWorkload, figures: MlperfFigures) -> dict[str, Any]:
    shape = workload.shape
    return {
        "model": {
            "name": f"llama_{workload.name}",
            "type": "transformer",
            "num_layers": shape.num_layers,
            "model_datatype": "fp16",
            "optimizer_datatype": "fp32",
            "parallelism": {
                "tensor": shape.tensor_parallel,
                "pipeline": shape.pipeline_parallel,
                "data": shape.data_parallel,
                "zero_stage": shape.zero_stage,
            },
        },
        "workflow": {"generate_data": False, "train": False, "checkpoint": True},
        "checkpoint": {
            "mode": "default" if figures.num_processes == shape.num_processes else "subset",
            "num_checkpoints_write": len(figures.write.seconds),
            "num_checkpoints_read": len(figures.read.seconds),
            "fsync": True,
        },
    }


class MlperfOperation(StrictModel):
    """The saves, or the restores, of a run."""

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
    def of(cls, samples: Sequence[OperationSample], *, num_bytes: int) -> MlperfOperation:
        """Sum up timed operations that moved `num_bytes` each."""
        seconds = [each.seconds for each in samples]
        first = [each.ranks[0].seconds for each in samples]
        return cls(
            seconds=tuple(seconds),
            min_seconds=min(seconds),
            max_seconds=max(seconds),
            mean_seconds=statistics.mean(seconds),
            mean_bytes_per_second=statistics.mean(num_bytes / each for each in seconds),
            process_0_seconds=tuple(first),
            process_0_mean_bytes_per_second=statistics.mean(num_bytes / each for each in first),
        )


class MlperfFigures(StrictModel):
    """A workload of MLPerf Storage as this agent ran it. Comparable, never valid: that is the benchmark's to say."""

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


def figures_of(rounds: MlperfRounds, workload: MlperfWorkload, *, num_processes: int) -> MlperfFigures:
    """Sum up the rounds of a workload in the benchmark's figures."""
    num_bytes = workload.size(num_processes).total_bytes
    return MlperfFigures(
        model=workload.name,
        num_processes=num_processes,
        num_processes_of_all=workload.shape.num_processes,
        scale=workload.scale,
        checkpoint_bytes=num_bytes,
        disk_bytes=rounds.disk_bytes,
        write=MlperfOperation.of(rounds.writes, num_bytes=num_bytes),
        read=MlperfOperation.of(rounds.restores, num_bytes=num_bytes),
        differences=tuple(differences(rounds, workload, num_processes=num_processes)),
    )


def differences(rounds: MlperfRounds, workload: MlperfWorkload, *, num_processes: int) -> Iterator[str]:
    """Name where a run departs from the rules of a closed one.

    Source: mlcommons/storage, Submission_guidelines.md, section 2.2, and mlpstorage/config.py.
    """
    allowed = (subset_processes(), workload.shape.num_processes)
    if num_processes not in allowed:
        choice = " or ".join(map(str, dict.fromkeys(allowed)))
        yield f"{num_processes} of {choice} processes wrote"
    if workload.scale != 1:
        yield f"tensors were scaled by {workload.scale:g}"
    if len(rounds.writes) != num_checkpoints_of_rules():
        yield f"{len(rounds.writes)} of {num_checkpoints_of_rules()} checkpoints were written and read"
    if rounds.resident_pages:
        yield f"{counted_text(rounds.resident_pages, 'page')} stayed in the page cache, and was read from there"


def mlperf_table(figures: MlperfFigures) -> Table:
    """Times and rates of saves and restores."""
    count = len(figures.write.seconds)
    title = f"MLPerf Storage, {figures.model}: {count} saves, then {count} restores, {figures.num_processes} processes"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("operation")
    for column in ("min", "mean", "max", "by slowest process", "by process 0, as in the benchmark"):
        table.add_column(column, justify="right")
    for name, operation in (("write", figures.write), ("read", figures.read)):
        theirs = operation.process_0_mean_bytes_per_second
        table.add_row(
            name,
            *map(seconds_text, (operation.min_seconds, operation.mean_seconds, operation.max_seconds)),
            rate_text(operation.mean_bytes_per_second),
            f"{rate_text(theirs)} ({theirs / BYTES_PER_GIBIBYTE:.4g} GiB/s)",
        )
    return table


def mlperf_sentences(figures: MlperfFigures) -> Iterator[str]:
    """Say how a run compares with one of the benchmark."""
    size = bytes_text(figures.checkpoint_bytes)
    yield f"One checkpoint has {size} of tensors, in files of {bytes_text(figures.disk_bytes)}."
    if figures.is_comparable:
        yield "Comparable with the benchmark's own figures. No result is valid that the benchmark itself did not make."
    else:
        yield f"Not comparable with the benchmark's own figures: {'; '.join(figures.differences)}."
