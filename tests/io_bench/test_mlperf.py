"""`ckpt-bench mlperf` writes what MLPerf Storage writes, file by file, and reports in the benchmark's own names."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import yaml

from io_bench.commands.mlperf.rounds import MlperfRounds, PartFiles
from io_bench.commands.mlperf.summary import MlperfFigures, differences, figures_of, write_files
from io_bench.commands.mlperf.workload import NAMES, MlperfWorkload, Shape, recorded_bytes
from io_bench.engines import EngineOptions
from io_bench.measure.stopwatch import OperationSample, RankSample
from io_bench.payload.device import Device
from sizing.published import published

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench

DLIO = json.loads(Path(__file__).with_name("dlio_files.json").read_text())
GIBIBYTE = 1024**3


def as_dlio_ran(run: dict[str, Any]) -> MlperfWorkload:
    return MlperfWorkload("tiny", Shape.model_validate(DLIO["shape"] | run))


@pytest.mark.parametrize("name", DLIO["runs"])
def test_every_file_holds_the_tensors_that_dlio_wrote(name: str) -> None:
    run = DLIO["runs"][name]
    workload = as_dlio_ran(run)
    lengths: dict[str, list[int]] = {}
    for index in range(run["num_processes"]):
        for tensor in workload.inventory(index).tensors:
            lengths.setdefault(f"{tensor.part}.pt", []).extend(tensor.shape)
    assert lengths == {file: row["lengths"] for file, row in run["files"].items()}
    assert workload.size(run["num_processes"]).total_bytes == run["checkpoint_size_GB"] * GIBIBYTE


@pytest.mark.parametrize("name", ["70b", "405b"])
def test_the_bytes_of_whole_checkpoints_are_those_that_published_runs_recorded(name: Any) -> None:
    workload = MlperfWorkload.named(name)
    total = workload.size(workload.shape.num_processes).total_bytes
    assert total == recorded_bytes(name)
    assert workload.shape.num_parameters == published("mlperf_storage_checkpoint")["workloads"][name]["num_parameters"]


@pytest.mark.parametrize(("name", "num_processes"), [("8b", 8), ("70b", 64), ("405b", 512), ("1t", 1024)])
def test_a_closed_run_has_as_many_processes_as_the_rules_say(name: Any, num_processes: int) -> None:
    assert MlperfWorkload.named(name).max_writers == num_processes


def test_nominal_sizes_stand_beside_workloads_of_which_no_run_was_found() -> None:
    rows = published("mlperf_storage_checkpoint")["unpublished_workloads"]
    assert recorded_bytes("8b") is None
    eight = MlperfWorkload.named("8b").size(8).total_bytes
    assert eight == pytest.approx(rows["8b"]["nominal_gigabytes"] * GIBIBYTE, rel=0.01)


def test_a_scaled_workload_has_as_many_tensors_and_its_part_of_the_bytes() -> None:
    whole, part = MlperfWorkload.named("70b"), MlperfWorkload.named("70b", scale=0.001)
    assert part.inventory(3).num_tensors == whole.inventory(3).num_tensors
    assert part.inventory(3).num_bytes == pytest.approx(whole.inventory(3).num_bytes / 1000, rel=1e-3)


def test_the_files_take_as_many_bytes_as_those_of_dlio_to_within_their_headers() -> None:
    """DLIO nests the tensors of a layer, which makes another pickle of the same tensors."""
    run = DLIO["runs"]["subset"]
    workload, engine = as_dlio_ran(run), PartFiles(EngineOptions())
    for index in range(run["num_processes"]):
        inventory = workload.inventory(index)
        plan = engine.plan(inventory, rank=index, device=Device("cpu"))
        theirs = sum(run["files"][file]["num_bytes"] for file in plan.files)
        assert inventory.num_bytes < theirs <= plan.max_disk_bytes


def test_ten_saves_and_ten_restores_are_summed_up_in_the_words_of_the_benchmark(bench: Bench, target: Path) -> None:
    arguments = ("--model", "70b", "--ranks", "1", "--scale", "0.00005", "--output", "out", "--keep")
    done = bench.run_here("mlperf", "--target", str(target), *arguments)
    assert done.returncode == 0, done.stderr
    figures = MlperfFigures.model_validate_json((bench.directory / "out" / "figures.json").read_text())
    assert len(figures.write.seconds) == len(figures.read.seconds) == 10
    assert (figures.num_processes, figures.num_processes_of_all) == (1, 64)
    workload = MlperfWorkload.named("70b", scale=0.00005)
    assert figures.checkpoint_bytes == workload.size(1).total_bytes
    assert figures.differences == ("1 of 8 or 64 processes wrote", "tensors were scaled by 5e-05")
    assert "Not comparable with the benchmark's own figures" in done.stdout
    assert "valid" not in done.stdout
    summary = json.loads((bench.directory / "out" / "summary.json").read_text())
    assert summary["num_accelerators"] == 1
    assert len(summary["host_memory_GB"]) == len(summary["host_cpu_count"]) == summary["num_hosts"] == 1
    metric, write = summary["metric"], figures.write
    assert metric["checkpoint_size_GB"] * GIBIBYTE == figures.checkpoint_bytes
    assert metric["save_checkpoint_duration_mean_seconds"] == statistics.mean(write.process_0_seconds)
    assert metric["save_checkpoint_slowest_process_duration_max_seconds"] == write.max_seconds
    rates = [metric["checkpoint_size_GB"] / seconds for seconds in figures.read.process_0_seconds]
    assert metric["load_checkpoint_io_mean_GB_per_second"] == pytest.approx(statistics.mean(rates))
    assert list((bench.directory / "out").glob("*_metadata.json")) == []
    (kept,) = target.glob("ckpt-bench-*")
    saved = sorted(kept.glob("*.pt"))
    assert len(saved) == 10 * 2
    assert sum(file.stat().st_size for file in saved) == 10 * figures.disk_bytes
    loaded = torch.load(kept / "9.zero_pp_rank_0_mp_rank_0_optim_states.pt", weights_only=True)
    assert [tensor.dtype for tensor in loaded.values()] == 6 * [torch.float32]


def test_a_comparable_run_has_what_the_reporting_tool_looks_for(tmp_path: Path) -> None:
    """Its `BenchmarkRun` takes type, model and processes from these files."""
    workload, ten = MlperfWorkload.named("70b"), tuple(timing(1.0, 2.0) for _ in range(10))
    figures = figures_of(MlperfRounds(ten, ten, disk_bytes=1, resident_pages=0), workload, num_processes=8)
    write_files(tmp_path, {"num_accelerators": 8}, figures, workload)
    (metadata,) = tmp_path.glob("*_metadata.json")
    assert json.loads(metadata.read_text())["model"] == "llama3-70b"
    assert json.loads((tmp_path / "summary.json").read_text()) == {"num_accelerators": 8}
    config = yaml.safe_load((tmp_path / "dlio_config" / "config.yaml").read_text())["workload"]
    assert config["workflow"] == {"generate_data": False, "train": False, "checkpoint": True}
    assert (config["model"]["name"], config["checkpoint"]["mode"]) == ("llama_70b", "subset")


@pytest.mark.long
def test_the_subset_of_a_pipeline_is_written_by_eight_processes(bench: Bench, target: Path) -> None:
    arguments = ("--model", "405b", "--scale", "0.00002", "--checkpoints", "2", "--output", "out")
    done = bench.run("mlperf", "--target", str(target), *arguments)
    assert done.returncode == 0, done.stderr
    figures = MlperfFigures.model_validate_json((bench.directory / "out" / "figures.json").read_text())
    assert (figures.num_processes, figures.num_processes_of_all) == (8, 512)
    assert figures.checkpoint_bytes == MlperfWorkload.named("405b", scale=0.00002).size(8).total_bytes
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]


def timing(*rank_seconds: float) -> OperationSample:
    return OperationSample(tuple(map(RankSample, rank_seconds)))


def test_a_run_by_the_rules_is_comparable_and_departures_are_named() -> None:
    ten = tuple(timing(1.0, 2.0) for _ in range(10))
    by_rules = MlperfRounds(ten, ten, disk_bytes=1, resident_pages=0)
    workload = MlperfWorkload.named("70b")
    assert [list(differences(by_rules, workload, num_processes=count)) for count in (8, 64)] == [[], []]
    cached = MlperfRounds(ten[:9], ten[:9], disk_bytes=1, resident_pages=3)
    assert list(differences(cached, MlperfWorkload.named("8b"), num_processes=4)) == [
        "4 of 8 processes wrote",
        "9 of 10 checkpoints were written and read",
        "3 pages stayed in the page cache, and was read from there",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--model", "13b"), "--model must be one of '8b', '70b', '405b' or '1t'"),
        (("--model", "8b", "--scale", "2"), "--scale must be at most 1"),
        (("--model", "8b", "--output", "."), "--output must be a folder that can be made (File exists)"),
        (("--model", "1t", "--ranks", "1"), "available, but its ranks need"),
    ],
)
def test_what_cannot_be_run_is_refused(bench: Bench, target: Path, arguments: tuple[str, ...], sentence: str) -> None:
    done = bench.run_here("mlperf", "--target", str(target), "--ranks", "1", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_every_workload_is_offered() -> None:
    assert NAMES == ("8b", "70b", "405b", "1t")
