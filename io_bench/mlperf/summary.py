"""The files that MLPerf Storage's reporting tool reads of a run, and our own figures beside them.

Source: mlcommons/storage, mlpstorage/rules.py (BenchmarkResult, BenchmarkRun), and DLIO's utils/statscounter.py, which
writes `summary.json`. What they call GB is 2^30 bytes.
"""

from __future__ import annotations

import datetime
import json
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from io_bench.mlperf.figures import MlperfFigures, MlperfOperation
from io_bench.mlperf.workload import MlperfWorkload
from sizing.units import BYTES_PER_GIBIBYTE

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


def _metric(operation: str, found: MlperfOperation, num_bytes: int) -> dict[str, float]:
    by_clock = {"": found.process_0_seconds, "slowest_process_": found.seconds}
    metrics: dict[str, float] = {}
    for whose, seconds in by_clock.items():
        rates = [num_bytes / BYTES_PER_GIBIBYTE / each for each in seconds]
        metrics |= _moments(f"{operation}_checkpoint_{whose}io", "GB_per_second", rates)
        metrics |= _moments(f"{operation}_checkpoint_{whose}duration", "seconds", seconds)
        metrics |= {
            f"{operation}_checkpoint_{whose}duration_min_seconds": min(seconds),
            f"{operation}_checkpoint_{whose}duration_max_seconds": max(seconds),
        }
    return metrics


def _moments(name: str, unit: str, values: Sequence[float]) -> dict[str, float]:
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
