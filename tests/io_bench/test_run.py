"""A whole run of one rank, as a process and, where a part is made to misbehave, in this one."""

from __future__ import annotations

import json
import mmap
import os
import re
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch

from io_bench.commands import campaign
from io_bench.commands.main import main
from io_bench.engines import ENGINES, Engine, EngineOptions, EnginePlan, IoReport, Restored
from io_bench.engines.torch_save import TorchSave
from io_bench.measure import plan
from io_bench.payload.device import Device
from io_bench.payload.inventory import inventory_of
from io_bench.payload.payload import Payload
from io_bench.results.outputs import ResultFile
from io_bench.target import page_cache
from io_bench.target.directory import RunDirectory
from io_bench.target.places import MANIFEST
from io_bench.target.target import RunFiles
from sizing.errors import InvalidInput
from sizing.storage.measurement import BenchmarkResult
from tests.io_bench.conftest import STEP_DONE, Bench

if TYPE_CHECKING:
    from tests.io_bench.conftest import Tree

SMALL = ("--engine", "torch-save", "--bytes-per-rank", "4MiB", "--repetitions", "2")


@pytest.fixture
def run_here(
    target: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[type[TorchSave]], tuple[int, Path]]:
    """Run the command line in this process with an engine in torch-save's place: exit code, result."""

    def run(engine: type[TorchSave]) -> tuple[int, Path]:
        monkeypatch.setitem(cast(dict[str, Callable[[EngineOptions], Engine]], ENGINES), "torch-save", engine)
        output = tmp_path / "result.json"
        with pytest.raises(SystemExit) as end:
            main(["run", "--target", str(target), *SMALL, "--output", str(output)])
        return int(end.value.code or 0), output

    return run


@dataclass(frozen=True)
class Finished:
    """A run that went well, and what stood in target and working directory before and after."""

    done: subprocess.CompletedProcess[str]
    target: Path
    target_trees: tuple[Tree, Tree]
    files: list[Path]

    @property
    def result(self) -> BenchmarkResult:
        return BenchmarkResult.model_validate_json(self.files[0].read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tree: Callable[[Path], Tree]) -> Finished:
    bench, target = Bench(tmp_path_factory.mktemp("working-directory")), tmp_path_factory.mktemp("target")
    (target / "not-ours.bin").write_bytes(b"precious")
    before = tree(target)
    done = bench.run("run", "--target", str(target), *SMALL, "--seed", "7")
    assert done.returncode == 0, done.stderr
    return Finished(done, target, (before, tree(target)), list(bench.directory.iterdir()))


def test_a_run_writes_a_valid_result_and_leaves_the_target_as_it_was(finished: Finished) -> None:
    before, after = finished.target_trees
    assert after == before
    (file,) = finished.files
    assert file.name == f"ckpt-bench-{finished.result.run_id}.json"
    assert str(file) in finished.done.stdout
    write, restore = finished.result.measurements
    assert (write.operation, write.cache_policy) == ("write", "buffered-fsync")
    assert (restore.operation, restore.cache_policy) == ("restore", "fadvise-dontneed")
    for measurement in (write, restore):
        median = statistics.median(measurement.seconds)
        assert measurement.verified
        assert len(measurement.seconds) == 2
        assert measurement.bytes_per_second == measurement.total_bytes / median
        assert 4 << 20 < measurement.total_bytes < 5 << 20


def test_a_run_says_where_and_with_what_it_was_measured_what_it_needed_and_found(finished: Finished) -> None:
    result = finished.result
    environment: dict[str, Any] = result.environment
    assert environment["seed"] == 7
    assert environment["versions"]["torch"] == torch.__version__
    (node,) = environment["nodes"].values()
    assert node["kernel"] == os.uname().release
    assert node["mount"]["type"]
    assert environment["rank_nodes"] == list(environment["nodes"])
    assert environment["page_cache_probe"] in ("cachestat+mincore", "mincore")
    assert len(result.measurements[0].start_spread_seconds or []) == 2
    assert result.command[-len(SMALL) - 2 :] == [*SMALL, "--seed", "7"]
    assert not any(variable in finished.files[0].read_text() for variable in ("PYTHONPATH", "COLUMNS"))
    assert finished.done.stderr.startswith("Each rank needs 13.19 MB (12.58 MiB) of memory")
    assert "less than 5.00 s" in finished.done.stderr


def test_without_a_terminal_each_step_is_a_line(finished: Finished) -> None:
    steps = re.findall(STEP_DONE, finished.done.stderr)
    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert [doing for _, _, doing in steps[:2]] == ["writing", "restoring"]
    assert steps[-1][0] == steps[-1][1], "the last step completes the plan"
    assert "1 rank on 1 node wrote 4." in finished.done.stdout
    assert "1 rank on 1 node restored 4." in finished.done.stdout


def test_a_result_that_cannot_be_written_is_shown_all_the_same(
    run_here: Callable[[type[TorchSave]], tuple[int, Path]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_file: ResultFile, _content: object) -> None:
        raise InvalidInput.of("--output", "must be a file that can be written (No space left)", value="r", remedy="")

    monkeypatch.setattr(ResultFile, "write", full)
    assert run_here(TorchSave)[0] == 2
    shown = capsys.readouterr()
    assert "1 rank on 1 node wrote 4." in shown.out
    assert "written to" not in shown.out
    assert "(No space left)" in shown.err


def test_without_a_size_a_first_write_finds_the_one_that_takes_long_enough(
    bench: Bench, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SHORT_SECONDS", 0.5)
    monkeypatch.setattr(campaign, "DEFAULT_BYTES_PER_RANK", "1MiB")
    flags = ("--target", str(target), "--engine", "torch-save", "--repetitions", "1", "--output", "r.json")
    done = bench.run_here("run", *flags)
    assert done.returncode == 0, done.stderr
    write, _ = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements
    assert write.payload_bytes_per_rank is not None
    assert write.payload_bytes_per_rank > 2 << 20
    assert "A first write and restore set the size." in done.stderr

    done = bench.run_here("run", *flags, "--max-bytes", "6MiB")
    assert done.returncode == 0, done.stderr
    write, _ = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements
    assert write.payload_bytes_per_rank == 1 << 20


def test_a_kept_checkpoint_loads_and_is_the_only_thing_left(bench: Bench, target: Path) -> None:
    done = bench.run_here("run", "--target", str(target), *SMALL, "--keep")
    assert done.returncode == 0, done.stderr
    (directory,) = target.glob("ckpt-bench-*")
    assert f"kept in {directory}" in done.stderr
    assert {file.name for file in directory.iterdir()} == {MANIFEST, "rank-00000.pt"}
    state = torch.load(directory / "rank-00000.pt", weights_only=True)
    assert state["model"].keys() == state["exp_avg"].keys()
    assert json.loads((directory / MANIFEST).read_text())["run_id"] in directory.name


def test_a_target_behind_a_symbolic_link_is_measured_and_named(bench: Bench, target: Path) -> None:
    link = target.parent / "link"
    link.symlink_to(target)
    done = bench.run_here("run", "--target", str(link), *SMALL)
    assert done.returncode == 0, done.stderr
    assert f"{link} is a symbolic link to {target}." in done.stderr


def test_a_result_replaces_an_older_one_at_once(bench: Bench, target: Path) -> None:
    output = bench.directory / "r.json"
    output.write_text("old")
    done = bench.run_here("run", "--target", str(target / "missing"), "--output", "r.json")
    assert (done.returncode, output.read_text()) == (2, "old")
    done = bench.run_here("run", "--target", str(target), *SMALL, "--output", "r.json")
    assert done.returncode == 0, done.stderr
    assert BenchmarkResult.model_validate_json(output.read_text())
    assert [path.name for path in bench.directory.iterdir()] == ["r.json"]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["torch-save", "async-dcp"])
def test_memory_grows_with_the_payload_as_the_plan_says(engine: str, bench: Bench, target: Path) -> None:
    # Not ru_maxrss: a process inherits that from the one that started it.
    # Nor atexit: the program ends without Python's own last steps.
    prelude = """
import os
leave = os._exit
def tell(code):
    print(open("/proc/self/status").read(), flush=True)
    leave(code)
os._exit = tell
"""

    def most_resident_bytes(size: str) -> int:
        flags = ("--engine", engine, "--bytes-per-rank", size, "--repetitions", "1", "--output", "r.json")
        done = bench.run("run", "--target", str(target), *flags, prelude=prelude)
        assert done.returncode == 0, done.stderr
        return int(done.stdout.partition("VmHWM:")[2].split()[0]) * 1024

    def planned_bytes(size: int) -> int:
        inventory = inventory_of(size)
        plan = ENGINES[engine](EngineOptions()).plan(inventory, rank=0, device=Device("cpu"))
        return inventory.num_bytes + plan.host_bytes

    measured = most_resident_bytes("264MiB") - most_resident_bytes("8MiB")
    planned = planned_bytes(264 << 20) - planned_bytes(8 << 20)
    assert 0.95 < measured / planned < 1.05


class Watching(TorchSave):
    """Notes how many pages are in memory before and after each restore."""

    resident: list[tuple[int, int]]

    def restore(self, files: RunFiles, plan: EnginePlan, device: Device) -> Restored:
        with files.open(plan.files[0]) as file:
            before = page_cache.num_resident_pages(file.fileno())
            restored = super().restore(files, plan, device)
            self.resident.append((before, page_cache.num_resident_pages(file.fileno())))
        return restored


def test_every_restore_begins_with_no_page_in_memory(
    run_here: Callable[[type[TorchSave]], tuple[int, Path]],
) -> None:
    Watching.resident = []
    code, _ = run_here(Watching)
    assert code == 0
    assert [before for before, _ in Watching.resident] == [0, 0, 0]
    assert all(after * mmap.PAGESIZE > 4 << 20 for _, after in Watching.resident)


class Locking(TorchSave):
    """Another process, so to speak, that holds a page of every file in memory."""

    mappings: list[mmap.mmap]

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        report = super().write(payload, files, plan)
        with files.open(plan.files[0]) as file:
            mapping = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ)
        assert mapping[0:1]
        self.mappings.append(mapping)
        return report


def test_a_restore_from_pages_that_cannot_be_dropped_is_called_cached(
    run_here: Callable[[type[TorchSave]], tuple[int, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    Locking.mappings = []
    code, output = run_here(Locking)
    for mapping in Locking.mappings:
        mapping.close()
    assert code == 0
    result = BenchmarkResult.model_validate_json(output.read_text())
    assert result.measurements[1].cache_policy == "cached"
    assert any("read from the page cache" in warning for warning in result.warnings)
    assert "read from the page cache" in capsys.readouterr().err


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a tmpfs")  # noqa: S108 - to be read back
def test_a_target_in_memory_is_called_cached(bench: Bench) -> None:
    done = bench.run_here("run", "--target", "/dev/shm", *SMALL, "--output", "r.json")  # noqa: S108 - as above
    assert done.returncode == 0, done.stderr
    result = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text())
    assert result.measurements[1].cache_policy == "cached"


class Visited(TorchSave):
    """Somebody else puts a file into the run's directory."""

    def write(self, payload: Payload, files: RunFiles, plan: EnginePlan) -> IoReport:
        report = super().write(payload, files, plan)
        Path(files.location("diary.txt")).write_text("dear diary")
        return report


def test_a_foreign_file_in_the_run_directory_is_left_and_said(
    run_here: Callable[[type[TorchSave]], tuple[int, Path]], target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = run_here(Visited)
    assert code == 0
    (directory,) = target.glob("ckpt-bench-*")
    assert {file.name for file in directory.iterdir()} == {MANIFEST, "diary.txt"}
    sentence = f"{directory} was not removed: it holds diary.txt, which this run did not create."
    assert sentence in capsys.readouterr().err
    assert sentence in json.loads(output.read_text())["warnings"]


def test_a_run_directory_behind_a_symbolic_link_is_not_followed(target: Path) -> None:
    elsewhere = target.parent / "elsewhere"
    elsewhere.mkdir()
    (target / "run").symlink_to(elsewhere)
    with pytest.raises(OSError, match="run"):
        RunDirectory(target / "run")
