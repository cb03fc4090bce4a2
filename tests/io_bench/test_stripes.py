"""Stripes of Lustre: what `lfs` prints, and what it is told. No Lustre is here, so a program stands in for `lfs`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench.target import directory
from io_bench.target.directory import DirectoryTarget
from io_bench.target.stripes import parse_layout
from sizing.storage.calibration.fit_data import select_fit_data
from sizing.storage.measurement import BenchmarkResult
from tests.sizing.storage.calibration.simulation import FULL_SCAN, result

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench

# As printed by Lustre 2.10 and later, by an earlier one, and of a progressive layout (Lustre manual, 19.5).
PLAIN = (
    "stripe_count:  8 stripe_size:   1048576 pattern:       raid0,overstriped stripe_offset: -1 pool:          nvme\n"
)
EARLIER = "/n/scratch/\nstripe_count:   1 stripe_size:    1048576 stripe_offset:  -1 \n"
PROGRESSIVE = """\
  lcm_layout_gen:    0
  lcm_mirror_count:  1
  lcm_entry_count:   2
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 0
    lcme_extent.e_end:   67108864
      stripe_count:  1       stripe_size:   1048576       pattern:       raid0       stripe_offset: -1

    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 67108864
    lcme_extent.e_end:   EOF
      stripe_count:  -1       stripe_size:   4194304       pattern:       raid0       stripe_offset: -1
"""


@pytest.fixture
def lfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name on the path, which notes its words; the file that it notes them in."""
    folder, said = tmp_path / "bin", tmp_path / "said"
    folder.mkdir()
    program = folder / "lfs"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {said}\n'
        f'[ "$1" = getstripe ] && printf "%s" "{PLAIN}"\n'
        '[ "$3" = 99 ] && echo "error: setstripe: too many stripes" >&2 && exit 1\nexit 0\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return said


def test_what_lfs_prints_is_read() -> None:
    assert parse_layout(PLAIN) == {
        "stripe_count": "8",
        "stripe_size": "1048576",
        "pattern": "raid0,overstriped",
        "stripe_offset": "-1",
        "pool": "nvme",
    }
    assert parse_layout(EARLIER) == {"stripe_count": "1", "stripe_size": "1048576", "stripe_offset": "-1"}
    progressive = parse_layout(PROGRESSIVE)
    assert progressive["num_components"] == "2"
    assert "stripe_count: -1 stripe_size: 4194304" in progressive["layout"]
    assert "stripe_count" not in progressive


def test_the_layout_of_a_target_on_lustre_is_in_its_description(
    lfs: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "LUSTRE", DirectoryTarget.checked(str(target)).description()["type"])
    assert DirectoryTarget.checked(str(target)).description()["pool"] == "nvme"
    assert lfs.read_text() == f"getstripe -d {target}\n"


def test_a_target_elsewhere_is_not_asked(lfs: Path, target: Path) -> None:
    assert "pool" not in DirectoryTarget.checked(str(target)).description()
    assert not lfs.exists()


def test_a_scan_over_stripes_sets_those_of_the_runs_own_directory(lfs: Path, bench: Bench, target: Path) -> None:
    flags = ("--engine", "torch-save", "--bytes-per-rank", "1MiB", "--repetitions", "1", "--writers", "1")
    stripes = ("--stripe-count", "1,-1", "--stripe-size", "1MiB", "--output", "s.json")
    done = bench.run_here("scan", "--target", str(target), *flags, *stripes)
    assert done.returncode == 0, done.stderr
    found = BenchmarkResult.model_validate_json((bench.directory / "s.json").read_text())
    assert {(m.stripe_count, m.stripe_bytes) for m in found.measurements} == {(1, 1 << 20), (-1, 1 << 20)}
    told = [line.split() for line in lfs.read_text().splitlines()]
    place = f"{target}/ckpt-bench-{found.run_id}"
    assert sorted(told) == sorted(["setstripe", "-c", count, "-S", "1048576", place] for count in ("1", "-1"))


def test_what_lfs_refuses_is_said(lfs: Path, bench: Bench, target: Path) -> None:
    done = bench.run_here("run", "--target", str(target), "--bytes-per-rank", "1MiB", "--stripe-count", "99")
    assert done.returncode == 2
    assert "--stripe-count must be taken by lfs setstripe (error: setstripe: too many stripes)" in done.stderr
    assert lfs.exists()
    assert {path.name for path in target.iterdir()} == {"not-ours.bin"}


def test_without_lfs_there_are_no_stripes(bench: Bench, target: Path) -> None:
    done = bench.run_here("run", "--target", str(target), "--bytes-per-rank", "1MiB", "--stripe-size", "1MiB")
    assert done.returncode == 2
    assert "--stripe-size needs lfs" in done.stderr


@pytest.mark.parametrize(
    ("flag", "value"), [("--stripe-count", "0"), ("--stripe-count", "-2"), ("--stripe-size", "100kB")]
)
def test_stripes_that_lustre_does_not_have_are_refused(flag: str, value: str, bench: Bench, target: Path) -> None:
    done = bench.run_here("run", "--target", str(target), flag, value)
    assert done.returncode == 2
    assert f"{flag} must " in done.stderr


def test_runs_of_other_stripes_are_fitted_apart() -> None:
    one, other = (
        result(FULL_SCAN[:count], seed=count, noise=0.02, outliers=0, run_id=f"run-{count}") for count in (6, 9)
    )
    striped = [each.model_copy(update={"stripe_count": 8}) for each in other.measurements]
    series = select_fit_data([one, other.model_copy(update={"measurements": striped})], "write")
    assert {row.run_id for row in series.rows} == {"run-9"}
    assert any("measurement(s) have other settings" in reason for reason in series.left_out)
