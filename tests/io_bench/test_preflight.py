"""`ckpt-bench check` on real file systems: what it finds, how it ends, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench.checks import preflight_checks
from io_bench.checks.preflight_checks import check_direct_io, check_space, probe_in, smallest_alignment_bytes
from io_bench.interruption import Interrupted
from io_bench.target.directory import DirectoryTarget
from sizing.scenario import scenario_from
from sizing.sized_layout import manifest_of
from sizing.units import bytes_text
from tests.testbed.file_systems import Disk, disk, memory_disk
from tests.testbed.seaweedfs import seaweedfs

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Bench, Tree

MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path, testbed: Testbed) -> Disk:
    return testbed(disk(tmp_path, num_bytes=64 * MIB))


def verdicts(stdout: str) -> dict[str, str]:
    """The last word of each row of the table, by its first words."""
    rows = [line.strip().split("  ") for line in stdout.splitlines()[3:] if line.strip()]
    return {row[0].strip(): row[-1].strip() for row in rows if len(row) > 2}


def test_a_disk_with_room_is_fine_and_left_as_it_was(
    bench: Bench, small_disk: Disk, tree: Callable[[Path], Tree]
) -> None:
    before = tree(small_disk.path)
    done = bench.run_here("check", "--target", str(small_disk.path), "--bytes-per-rank", "10MiB", "--ranks", "4")
    assert (done.returncode, done.stderr) == (0, "")
    assert set(verdicts(done.stdout).values()) == {"fine"}
    assert "ext4 on" in done.stdout
    block = Path(f"/sys/block/{small_disk.device.name}/queue/logical_block_size").read_text().strip()
    assert f"works, aligned to {block}.0 B" in done.stdout or f"works, aligned to {block} B" in done.stdout
    assert tree(small_disk.path) == before


def test_direct_io_is_aligned_as_the_device_says(small_disk: Disk) -> None:
    block = Path(f"/sys/block/{small_disk.device.name}/queue/logical_block_size").read_text()
    assert smallest_alignment_bytes(small_disk.path / "file") == int(block)


def test_a_checkpoint_that_does_not_fit_is_a_problem(bench: Bench, small_disk: Disk) -> None:
    done = bench.run_here("check", "--target", str(small_disk.path), "--bytes-per-rank", "40MiB", "--ranks", "2")
    assert done.returncode == 2
    assert verdicts(done.stdout)["space"] == "problem"
    assert "error: space: --target has " in done.stderr


def test_a_check_needs_as_much_as_the_run_does(bench: Bench, small_disk: Disk) -> None:
    """The files of the default engine, whose tensors lie at pages, and not their payload alone."""
    flags = ("--target", str(small_disk.path), "--bytes-per-rank", "1GiB")
    checked, ran = bench.run_here("check", *flags), bench.run_here("run", *flags)
    assert (checked.returncode, ran.returncode) == (2, 2)
    need = re.search("reserve need [^)]*", " ".join(ran.stderr.split()))
    assert need is not None
    assert need[0] in " ".join(checked.stderr.split())


def test_several_targets_are_each_checked_for_what_is_spread_to_them(
    bench: Bench, small_disk: Disk, target: Path
) -> None:
    """40 MiB of two ranks are too many for the disk, and half of them are not."""
    both, size = f"{small_disk.path},{target}", ("--bytes-per-rank", "40MiB")
    assert bench.run_here("check", "--target", str(small_disk.path), *size, "--ranks", "2").returncode == 2
    done = bench.run_here("check", "--target", both, *size, "--ranks", "2")
    assert done.returncode < 2, done.stderr
    assert re.findall("^(/.*) seen from", done.stdout, re.MULTILINE) == both.split(",")
    done = bench.run_here("check", "--target", both, *size, "--ranks", "4")
    assert f"error: {small_disk.path}: space: " in done.stderr
    mounts = [small_disk.path / name for name in ("one", "two")]
    for mount in mounts:
        mount.mkdir()
    done = bench.run_here("check", "--target", ",".join(map(str, mounts)), *size, "--ranks", "2")
    assert done.returncode == 2, "one file system holds all that is spread to its mounts"


def test_a_file_longer_than_the_file_system_takes_is_a_problem(bench: Bench, small_disk: Disk) -> None:
    done = bench.run_here("check", "--target", str(small_disk.path), "--bytes-per-rank", "16TiB")
    assert done.returncode == 2
    assert verdicts(done.stdout)["largest file"] == "problem"
    assert "error: largest file: The file system does not allow files of this size. Start more ranks" in done.stderr


def test_the_checkpoint_of_a_scenario_is_what_is_looked_for(bench: Bench, small_disk: Disk) -> None:
    model = {"preset": "gpt2"}
    scenario = scenario_from({"model": model, "parallelism": {"tensor": 2, "pipeline": 3}})
    (bench.directory / "s.json").write_text(json.dumps(scenario.model_dump(mode="json", exclude_unset=True)))
    flags = ("--target", str(small_disk.path), "--scenario", "s.json", "--scale", "0.01", "--ranks", "4")
    done = bench.run_here("check", *flags)
    assert done.returncode == 0, done.stderr
    of_rank = [round(0.01 * row.tensor_bytes) for row in sorted(manifest_of(scenario), key=lambda row: row.rank)][:4]
    size = f"{bytes_text(sum(of_rank))} from 4 ranks, max {bytes_text(max(of_rank))}:"
    assert size in done.stdout.replace("\n", " ")
    assert bench.run_here("check", *flags[:4], "--ranks", "4").returncode == 2


def test_files_that_have_no_names_left_are_a_problem(small_disk: Disk) -> None:
    target = DirectoryTarget.checked(str(small_disk.path))
    assert check_space(target, needed_bytes=MIB, num_files=1000).severity == "fine"
    assert check_space(target, needed_bytes=MIB, num_files=10**9).severity == "problem"


def test_a_file_system_in_memory_is_a_warning(bench: Bench, tmp_path: Path, testbed: Testbed) -> None:
    target = testbed(memory_disk(tmp_path, num_bytes=64 * MIB))
    done = bench.run_here("check", "--target", str(target), "--bytes-per-rank", "1MiB")
    assert done.returncode == 1
    assert verdicts(done.stdout)["file system"] == "warning"
    assert "warning: file system: This file system is in memory" in done.stderr
    assert list(target.iterdir()) == []


def test_a_read_only_target_is_refused(bench: Bench, small_disk: Disk) -> None:
    small_disk.remount("ro")
    done = bench.run_here("check", "--target", str(small_disk.path), "--bytes-per-rank", "1MiB")
    assert done.returncode == 2
    assert "--target must be writable (Read-only file system)" in done.stderr


@pytest.mark.parametrize(
    ("limit", "subject", "code"),
    [
        ("RLIMIT_FSIZE, (2_000_000, -1)", "largest file", 2),
        ("RLIMIT_NOFILE, (64, 64)", "open files", 1),
        ("RLIMIT_NOFILE, (256, 4_500)", "open files", 1),
        ("RLIMIT_NOFILE, (256, 4_600)", "open files", 0),
    ],
)
def test_limits_of_the_process_are_found(limit: str, subject: str, code: int, bench: Bench, target: Path) -> None:
    """1,000 ranks with four connections each to the one through which they meet."""
    prelude = f"import resource as r; r.setrlimit(r.{limit})"
    flags = ("--bytes-per-rank", "4MiB", "--ranks", "1000")
    done = bench.run("check", "--target", str(target), *flags, prelude=prelude)
    assert done.returncode == code
    assert verdicts(done.stdout)[subject] == ("note", "warning", "problem")[code]


def test_direct_io_that_engine_direct_cannot_keep_to_is_a_warning(
    small_disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on hosts whose pages are of 64 KiB, for an agent that knew only smaller ones."""
    monkeypatch.setattr(preflight_checks, "ALIGNMENT_BYTES", 256)
    result = check_direct_io(small_disk.path)
    assert (result.severity, "aligns to 256 B and fails here" in result.advice) == ("warning", True)
    monkeypatch.setattr(preflight_checks, "smallest_alignment_bytes", lambda _path: None)
    assert check_direct_io(small_disk.path).answer == "accepted, but every request fails"


def test_nothing_stays_of_a_check_that_is_interrupted(target: Path, tree: Callable[[Path], Tree]) -> None:
    def interrupted() -> None:
        with probe_in(DirectoryTarget.checked(str(target)), names=["half"]) as probe:
            probe.create("half").close()
            raise Interrupted(2)

    before = tree(target)
    with pytest.raises(Interrupted):
        interrupted()
    assert tree(target) == before


def test_the_ranks_that_were_launched_are_those_that_need_room(bench: Bench, target: Path) -> None:
    step = {"SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_STEP_NODELIST": "n1"}
    done = bench.run_here("check", "--target", str(target), environment=step)
    assert "for 3 x 268.4 MB (256.0 MiB):" in done.stdout


@pytest.mark.long
def test_an_object_store_is_tried_and_left_as_it_was(bench: Bench, tmp_path: Path, testbed: Testbed) -> None:
    server = testbed(seaweedfs(tmp_path))
    make = "import s3fs; s3fs.S3FileSystem().mkdir('bucket')"
    subprocess.run([sys.executable, "-c", make], env=os.environ | server.environment, check=True)
    command = bench.command("check", "--target", "s3://bucket/prefix")
    done = bench.finish(bench.start(command, environment=server.environment))
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdicts(done.stdout)
    assert found.pop("space") == "note"
    assert {"put and get", "parts and ranges", "listing", "removal"} < set(found)
    assert set(found.values()) == {"fine"}
    look = "import s3fs; print(s3fs.S3FileSystem().find('bucket'))"
    left = subprocess.run(
        [sys.executable, "-c", look], env=os.environ | server.environment, capture_output=True, text=True, check=True
    )
    assert left.stdout == "[]\n"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--ranks", "0"], "--ranks must be at least 1"),
        (["--ranks", "all"], "--ranks must be a whole number"),
        (["--bytes-per-rank", "1B"], "--bytes-per-rank must be from 1.000 MiB to 16.00 TiB"),
        (["--scale", "0.5"], "--scale needs --scenario"),
        (["--scenario", "none.json"], "--scenario must be a scenario"),
        (["--scenario", "none.json", "--bytes-per-rank", "1GiB"], "must not be combined with --scenario"),
        (["--target", "/nowhere"], "--target must be a directory that exists"),
    ],
)
def test_wrong_flags_are_explained(flags: list[str], words: str, bench: Bench, target: Path) -> None:
    done = bench.run_here("check", "--target", str(target), *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr
