"""The command lines that a result gives for comparison do what they say."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from io_bench.results.measurements import equivalent_commands
from sizing.storage.measurement import Operation

MB = 1 << 20


def command(operation: Operation, directory: Path, *, is_direct: bool, tool: str = "fio") -> list[str]:
    lines = equivalent_commands(
        operation,
        directory=str(directory),
        num_ranks=2,
        bytes_per_rank=3 * MB + 1,
        block_bytes=MB,
        threads_per_rank=4,
        is_direct=is_direct,
    )
    return shlex.split(lines[tool])


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
        assert moved["io_bytes"] == 2 * 4 * MB  # whole blocks
        assert moved["total_ios"] == 2 * 4
    assert sorted(file.stat().st_size for file in directory.iterdir()) == [4 * MB] * 2


def test_the_elbencho_lines_have_the_same_load() -> None:
    line = command("restore", Path("/mnt/x"), is_direct=False, tool="elbencho")
    assert line[:2] == ["elbencho", "--read"]
    assert ("--dropcache" in line, line[-1]) == (True, "/mnt/x")
    assert line[line.index("--size") + 1] == str(4 * MB)
