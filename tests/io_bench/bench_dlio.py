"""`ckpt-bench mlperf` beside DLIO, the benchmark that MLPerf Storage runs: both write and read on one slow disk."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from io_bench.commands.mlperf.summary import MlperfFigures
from io_bench.target import page_cache
from tests.testbed.file_systems import Disk, disk, slow_device
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Bench

PROGRAMS = Path(__file__).parents[2] / ".venv-dlio" / "bin"
"""Made by `scripts/test benchmark` where DLIO's repository can be reached: what is published as a package is too old."""
GIBIBYTE = 1024**3
NUM_PROCESSES, NUM_CHECKPOINTS = 2, 4
DISK_BYTES_PER_SECOND = 25_000_000
"""Slow enough for the disk to set the pace beside other work: a save takes six seconds, of them 0.2 on a processor."""
SHAPE = {
    "hidden_size": 512,
    "ffn_hidden_size": 1408,
    "vocab_size": 2000,
    "num_attention_heads": 8,
    "num_kv_heads": 4,
    "num_layers": 3,
    "tensor_parallel": 1,
}
RUN_DLIO = """
from dlio_benchmark.main import main
from dlio_benchmark.utils.config import ConfigArguments
ConfigArguments.checkpoint_fsync = True
main()
"""
"""Its setting `checkpoint.fsync` goes into a field that nothing reads (utils/config.py: `checkpoint_sync`), so that a
save would end in the page cache."""
DEGREES = {
    "ZeRO 3": {"pipeline_parallel": 1, "data_parallel": 2, "zero_stage": 3},
    "a pipeline": {"pipeline_parallel": 2, "data_parallel": 1, "zero_stage": 1},
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a program wrote, and the best of its rates by the slowest process: what else runs here only slows it."""

    tensor_bytes: float
    disk_bytes: int
    write_bytes_per_second: float
    read_bytes_per_second: float


@pytest.mark.benchmark
@pytest.mark.parametrize("degrees", DEGREES.values(), ids=DEGREES)
def test_bytes_are_those_of_the_benchmark_and_rates_beside_its_own(
    degrees: dict[str, int], bench: Bench, tmp_path: Path, testbed: Testbed
) -> None:
    if not (PROGRAMS / "dlio_benchmark").exists():
        pytest.skip(
            "DLIO is not installed: scripts/test benchmark takes it from its repository, which it could not reach"
        )
    slow = testbed(disk(tmp_path, num_bytes=2 * GIBIBYTE))
    testbed(slow_device(slow, bytes_per_second=DISK_BYTES_PER_SECOND))
    theirs, ours = of_dlio(slow, SHAPE | degrees), of_bench(bench, slow, SHAPE | degrees)
    print(f"\n{theirs}\n{ours}")
    assert ours.tensor_bytes == theirs.tensor_bytes
    assert ours.disk_bytes == pytest.approx(theirs.disk_bytes, rel=1e-4)
    write = ours.write_bytes_per_second / theirs.write_bytes_per_second
    read = ours.read_bytes_per_second / theirs.read_bytes_per_second
    print(f"ckpt-bench over DLIO, slowest process: write {write:.3f} x, read {read:.3f} x")


def of_dlio(disk: Disk, shape: Mapping[str, int]) -> Found:
    """As MLPerf Storage does: all saves, the page cache dropped, all restores in a second run."""
    folder = disk.path / "dlio"
    saved = dlio_summary(disk.path / "saved", folder, shape, write=NUM_CHECKPOINTS, read=0)
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        with path.open("rb") as file:
            assert page_cache.drop(file.fileno()) == 0
    dlio_summary(disk.path / "loaded", folder, shape, write=0, read=NUM_CHECKPOINTS)
    num_bytes = saved["metric"]["checkpoint_size_GB"] * GIBIBYTE
    return Found(
        tensor_bytes=num_bytes,
        disk_bytes=sum(path.stat().st_size for path in files) // NUM_CHECKPOINTS,
        write_bytes_per_second=num_bytes / min(slowest(disk.path / "saved", "save")),
        read_bytes_per_second=num_bytes / min(slowest(disk.path / "loaded", "load")),
    )


def dlio_summary(output: Path, folder: Path, shape: Mapping[str, int], *, write: int, read: int) -> dict[str, Any]:
    """One run of DLIO, and what it sums up."""
    transformer = {key: shape[key] for key in SHAPE if key not in ("num_layers", "tensor_parallel")}
    settings = {
        "workload.model.num_layers": shape["num_layers"],
        "workload.model.parallelism.tensor": shape["tensor_parallel"],
        "workload.model.parallelism.pipeline": shape["pipeline_parallel"],
        "workload.model.parallelism.zero_stage": shape["zero_stage"],
        "workload.checkpoint.checkpoint_folder": folder,
        "workload.checkpoint.num_checkpoints_write": write,
        "workload.checkpoint.num_checkpoints_read": read,
        "workload.checkpoint.time_between_checkpoints": 0,
        "workload.output.folder": output,
        "hydra.run.dir": output,
    } | {f"workload.model.transformer.{key}": value for key, value in transformer.items()}
    done = subprocess.run(
        [
            *(PROGRAMS / "mpirun", "--oversubscribe", "-n", str(NUM_PROCESSES)),
            *(PROGRAMS / "python", "-c", RUN_DLIO, "workload=llama_8b_zero3"),
            *(f"++{name}={value}" for name, value in settings.items()),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_UNTIL_STUCK,
        cwd=folder.parent,
        env=os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((output / "summary.json").read_text())
    return found


def slowest(output: Path, operation: str) -> Iterator[float]:
    """Seconds of each save or load from the first process's begin to the last one's end."""
    ranks = [json.loads((output / f"{rank}_per_epoch_stats.json").read_text())["1"] for rank in range(NUM_PROCESSES)]
    for number in range(1, NUM_CHECKPOINTS + 1):
        spans = [rank[f"{operation}_ckpt{number}"] for rank in ranks]
        begin, end = (
            pick(datetime.datetime.fromisoformat(span[key]) for span in spans)
            for pick, key in ((min, "start"), (max, "end"))
        )
        yield (end - begin).total_seconds()


def of_bench(bench: Bench, disk: Disk, shape: Mapping[str, int]) -> Found:
    """The agent on the same shape, which is none of the benchmark's own."""
    prelude = f"import io_bench.commands.mlperf.workload as w; w.shape_of = lambda _: w.Shape(**{dict(shape)!r})"
    numbers = ("--ranks", str(NUM_PROCESSES), "--checkpoints", str(NUM_CHECKPOINTS))
    command = ("mlperf", "--target", str(disk.path), "--model", "8b", *numbers, "--output", "out")
    done = bench.run(*command, prelude=prelude)
    assert done.returncode == 0, done.stderr
    figures = MlperfFigures.model_validate_json((bench.directory / "out" / "figures.json").read_text())
    return Found(
        tensor_bytes=figures.checkpoint_bytes,
        disk_bytes=figures.disk_bytes,
        write_bytes_per_second=figures.checkpoint_bytes / figures.write.min_seconds,
        read_bytes_per_second=figures.checkpoint_bytes / figures.read.min_seconds,
    )
