"""The command lines that a result gives for comparison do what they say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench.results.measurements import equivalent_commands
from sizing.storage.measurement import BenchmarkResult, Operation

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench

MB = 1 << 20
FILE_BYTES = {True: 3 * MB + 4096, False: 3 * MB + 1}
"""Of 3 MiB and a byte: O_DIRECT moves whole pages."""


def command(operation: Operation, directory: Path, *, is_direct: bool, tool: str = "fio", **counts: int) -> list[str]:
    of_rank = {"bytes_per_rank": 3 * MB + 1, "files_per_rank": 1, "requests_per_rank": 4, "threads_per_rank": 4}
    lines = equivalent_commands(
        operation, directory=str(directory), num_ranks=2, is_direct=is_direct, **of_rank | counts
    )
    return shlex.split(lines[tool])


def tracing(log: Path) -> list[str]:
    """The command that writes another's calls to files, those of each thread to a file of its own."""
    calls = "--trace=write,pwrite64,pwritev,pwritev2,fsync"
    return ["strace", "--follow-forks", "--output-separately", "--decode-fds=path", f"--output={log}", calls]


def calls_on_files(log: Path, directory: Path) -> list[tuple[str, str, int]]:
    """Name, file in the directory and result of each call, thread by thread."""
    lines = (line for part in sorted(log.parent.glob(f"{log.name}.*")) for line in part.read_text().splitlines())
    pattern = re.compile(rf"(\w+)\(\d+<{re.escape(str(directory))}/([^>]+)>.* = (\d+)$")
    return [(call[1], call[2], int(call[3])) for line in lines if (call := pattern.match(line))]


@pytest.mark.usefixtures("fio")
@pytest.mark.parametrize("is_direct", [True, False])
def test_the_fio_lines_write_a_file_per_rank_and_read_them_back(is_direct: bool, tmp_path: Path) -> None:
    directory = tmp_path / "a place"
    directory.mkdir()
    operations: tuple[Operation, ...] = ("write", "restore")
    for operation in operations:
        line = [*command(operation, directory, is_direct=is_direct), "--output-format=json"]
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
        (job,) = json.loads(done.stdout)["jobs"]
        moved = job["write" if operation == "write" else "read"]
        assert moved["total_ios"] == 2 * 4
        assert moved["io_bytes"] == pytest.approx(2 * FILE_BYTES[is_direct], abs=2 * 4 * (4096 if is_direct else 1))
    sizes = [file.stat().st_size for file in directory.iterdir()]
    assert sizes == [pytest.approx(FILE_BYTES[is_direct], abs=4 * (4096 if is_direct else 1))] * 2


@pytest.mark.usefixtures("fio", "strace")
def test_the_fio_line_of_many_files_makes_each_durable_before_the_next(tmp_path: Path) -> None:
    directory = tmp_path / "place"
    directory.mkdir()
    counts = {"bytes_per_rank": 40_000, "files_per_rank": 5, "requests_per_rank": 10, "threads_per_rank": 1}
    line = command("write", directory, is_direct=False, tool="fio", **counts)
    subprocess.run([*tracing(tmp_path / "log"), *line], capture_output=True, check=True)
    assert sorted(file.stat().st_size for file in directory.iterdir()) == [8_000] * 10
    calls = calls_on_files(tmp_path / "log", directory)
    of_first = [(name, file) for name, file, _ in calls if file.startswith("ckpt.0.")]
    until_last = of_first[: 4 * 3]  # after the last file fio goes through all once more
    assert until_last == [
        (name, f"ckpt.0.{number}") for number in range(4) for name in ("pwrite64", "pwrite64", "fsync")
    ]


@pytest.mark.long
@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize(
    ("engine", "threads"),
    [
        pytest.param("torch-save", 1, marks=pytest.mark.long),
        ("direct", 4),
        ("dcp", 2),
        pytest.param("tensor-files", 2, marks=pytest.mark.long),
    ],
)
def test_the_lines_have_the_load_that_the_engine_has_by_strace(
    engine: str, threads: int, bench: Bench, target: Path, tmp_path: Path
) -> None:
    """Files with tensors, their bytes, the calls that move these, and fsync of each file; in two writes."""
    flags = (
        "--engine",
        engine,
        "--bytes-per-rank",
        "16MiB",
        "--tensors-per-rank",
        "16",
        "--repetitions",
        "1",
        "--output",
        "r.json",
    )
    given = ("--threads", str(threads)) if threads > 1 else ()
    run = bench.command("run", "--target", str(target), *flags, *given)
    done = bench.finish(bench.start([*tracing(tmp_path / "log"), *run]))
    assert done.returncode == 0, done.stderr
    result = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text())
    write = next(each for each in result.measurements if each.operation == "write")
    assert write.equivalent_commands is not None
    line = dict(each.split("=", 1) for each in shlex.split(write.equivalent_commands["fio"]) if "=" in each)
    num_files, blocks = int(line["--nrfiles"]) * int(line["--numjobs"]), int(line["--filesize"]) / int(line["--bs"])
    calls = [
        (name, file, moved)
        for name, file, moved in calls_on_files(tmp_path / "log", target)
        if "/" in file and not file.endswith((".json", ".metadata.tmp"))
    ]
    large = [file for name, file, moved in calls if name != "fsync" and moved >= 1 << 16]
    assert len(set(large)) == num_files
    assert len(large) == 2 * num_files * blocks
    assert sum(name == "fsync" for name, *_ in calls) == 2 * num_files
    assert int(line["--size"]) * int(line["--numjobs"]) == pytest.approx(write.total_bytes, rel=0.01)
    assert line["--direct"] == str(int(write.cache_policy == "o-direct"))


def test_the_elbencho_lines_have_the_same_load() -> None:
    line = command("restore", Path("/mnt/x"), is_direct=False, tool="elbencho")
    assert line[:2] == ["elbencho", "--read"]
    assert ("--dropcache" in line, line[-1]) == (True, "/mnt/x")
    assert 0 <= int(line[line.index("--size") + 1]) - (3 * MB + 1) < 4
    counts = {"files_per_rank": 148, "requests_per_rank": 148, "threads_per_rank": 2}
    write = command("write", Path("/mnt/x"), is_direct=False, tool="elbencho", **counts)
    assert [write[write.index(flag) + 1] for flag in ("--files", "--threads", "--iodepth")] == ["74", "4", "1"]
    assert write[write.index("--size") + 1] == write[write.index("--block") + 1]
    direct = command("write", Path("/mnt/x"), is_direct=True, tool="elbencho")
    assert direct[-3:] == ["--direct", "--sync", "/mnt/x"]
    assert [direct[direct.index(flag) + 1] for flag in ("--files", "--threads", "--iodepth")] == ["1", "2", "4"]
