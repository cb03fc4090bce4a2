"""Runs whose ranks are spread over several directories."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

from io_bench.checks.clean import clean_target
from io_bench.commands.shaped import targets_of
from io_bench.options import MlperfOptions, RunOptions, ScanOptions
from io_bench.target.address import checked_target, spread_paths
from io_bench.target.places import MANIFEST, Manifest, living, place_of
from io_bench.target.run_place import dismantle, make_place
from io_bench.target.spread import SpreadDirectories, Spreading
from io_bench.target.spread_urls import SpreadUrls
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput
from sizing.storage.calibration.fit_data import select_fit_data
from sizing.storage.measurement import BenchmarkResult, Measurement
from tests.io_bench.conftest import REPOSITORY
from tests.sizing.storage.calibration.simulation import measurement, result
from tests.testbed.file_systems import Throttle, disk, memory_disk, seen_again, throttled
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Bench

MB = 10**6
RUN = "20261121T120000Z-abc"


@pytest.fixture
def mounts(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.mkdir()
    return paths


def spread(mounts: list[Path], local_rank: int, *, ranks_of_node: int = 4) -> SpreadDirectories:
    return SpreadDirectories.checked([str(path) for path in mounts], Spreading(local_rank, ranks_of_node, [MANIFEST]))


def test_each_rank_has_its_directory_and_who_leads_removes_all(mounts: list[Path]) -> None:
    first = make_place(spread(mounts, 0), Manifest.of_this_process(RUN, files=["0.pt", "4.pt"], is_kept=False))
    fifth = spread(mounts, 4).open_run(RUN)
    assert all(living(spread([path], 0), RUN) for path in mounts)
    for files, name in ((first, "0.pt"), (fifth, "4.pt")):
        with files.create(name) as file:
            file.write(b"x")
    assert [sorted(path.name for path in mount.glob("*/*.pt")) for mount in mounts] == [["0.pt"], ["4.pt"], []]
    assert first.names() == sorted(["0.pt", "4.pt", MANIFEST])
    fifth.close()  # as a rank that was killed
    first.remove_created()
    assert dismantle(first, ["4.pt"]) == []
    first.close()
    assert [list(path.iterdir()) for path in mounts] == [[], [], []]


def test_what_a_killed_run_has_left_is_found_and_cleaned_in_each_directory_by_itself(mounts: list[Path]) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    manifest = Manifest.of_this_process(RUN, files=["1.pt"], is_kept=False).model_copy(update={"pid": ended.pid})
    make_place(spread(mounts, 0), manifest).close()
    (mounts[1] / f"ckpt-bench-{RUN}" / "1.pt").write_bytes(b"x")
    for number, path in enumerate(mounts):
        assert place_of(spread([path], 0), RUN).state == "left"
        assert clean_target(str(path), None, Terminal(is_speaker=False), is_dry=False) == 0
        assert [len(list(other.iterdir())) for other in mounts] == [0] * (number + 1) + [1] * (2 - number)


def test_a_directory_that_cannot_be_made_leaves_none_of_the_others(mounts: list[Path]) -> None:
    (mounts[2] / f"ckpt-bench-{RUN}").mkdir()
    with pytest.raises(InvalidInput, match="it exists already"):
        spread(mounts, 0).make_run(RUN)
    assert [len(list(path.iterdir())) for path in mounts] == [0, 0, 1]


def test_storage_that_is_mounted_twice_has_one_directory_and_two_ways_to_it(
    testbed: Testbed, bench: Bench, mounts: list[Path], tmp_path: Path
) -> None:
    ways = [mounts[0], testbed(seen_again(mounts[0], at=tmp_path / "again"))]
    target = ",".join(map(str, ways))
    flags = ("--engine", "torch-save", "--bytes-per-rank", "1MiB", "--repetitions", "1", "--output", "r.json")
    done = bench.run("run", "--target", target, *flags, "--ranks", "2")
    assert done.returncode == 0, done.stderr
    for measured in BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements:
        assert measured.verified
        assert measured.shape is not None
        assert [(each.path, each.num_ranks) for each in measured.shape.targets or []] == [(str(way), 1) for way in ways]
    assert list(mounts[0].iterdir()) == []
    assert "could not be removed" not in done.stderr


def test_the_file_system_with_least_room_for_its_ranks_is_named(testbed: Testbed, tmp_path: Path) -> None:
    """Of five ranks three have the first directory, two the second, which has 8 MiB."""
    small = testbed(memory_disk(tmp_path, num_bytes=8 << 20))
    target = spread([tmp_path, small], 0, ranks_of_node=5)
    target.check_space(18 << 20)
    with pytest.raises(InvalidInput, match=r"--target has 8\.389 MB"):
        target.check_space(20 << 20)


def test_ranks_of_each_target_are_added_up_apart() -> None:
    ranks = measurement((1, 3, 10), "write", [4.0, 2.0]) | {
        "rank_seconds": [[1.0, 2.0, 4.0], [1.0, 2.0, 2.0]],
        "rank_bytes": [8, 10, 12],
    }
    found = list(targets_of(Measurement.model_validate(ranks), ["/a", "/b", "/a"]))
    assert [(each.path, each.num_ranks, each.total_bytes, each.seconds) for each in found] == [
        ("/a", 2, 20, [4.0, 2.0]),
        ("/b", 1, 10, [2.0, 2.0]),
    ]
    assert [each.bytes_per_second for each in found] == pytest.approx([20 / 3, 5.0])


def test_a_calibration_fits_runs_over_several_targets_apart_from_those_of_one() -> None:
    gave = {"path": "/a", "num_ranks": 1, "total_bytes": 1, "seconds": [1.0], "bytes_per_second": 1.0}
    shaped = result(operations=["write"], run_id="b", shape={"targets": [gave, gave | {"path": "/b"}]})
    found = select_fit_data([result(operations=["write"]), shaped], "write")
    assert all(row.measurement.shape is None for row in found.rows)
    assert "40 write measurement(s) have other settings (direct, direct I/O, over 2 targets)" in found.left_out


def test_a_path_with_a_comma_that_is_there_is_one_target(tmp_path: Path) -> None:
    (tmp_path / "a,b").mkdir()
    assert spread_paths(str(tmp_path / "a,b")) == (str(tmp_path / "a,b"),)
    assert spread_paths(f"{tmp_path}/a,{tmp_path}/b") == (f"{tmp_path}/a", f"{tmp_path}/b")


def test_directories_where_one_is_needed_are_refused_without_the_advice_to_create_them(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"--target must be one directory here, got .*: give one after another"):
        checked_target(f"{tmp_path}/a,{tmp_path}/b", is_first=True)


@pytest.fixture
def buckets() -> Iterator[list[str]]:
    """Two URLs of a store in memory."""
    store = fsspec.filesystem("memory")
    store.mkdir("/several")
    yield ["memory://several/a", "memory://several/b,c"]
    store.rm("/several", recursive=True)


def spread_urls(urls: list[str], local_rank: int) -> SpreadUrls:
    return SpreadUrls.checked(urls, Spreading(local_rank, 4, [MANIFEST]), is_first=True)


def test_each_rank_has_its_url_and_who_leads_removes_all(buckets: list[str]) -> None:
    """Rank 3, whose place is that of rank 1, is killed after its first object."""
    store = fsspec.filesystem("memory")
    first = make_place(spread_urls(buckets, 0), Manifest.of_this_process(RUN, files=["0.pt", "3.pt"], is_kept=False))
    fourth = spread_urls(buckets, 3).open_run(RUN)
    assert all(living(spread_urls([url], 0), RUN) for url in buckets)
    for files, name in ((first, "0.pt"), (fourth, "3.pt")):
        with files.create(name) as file:
            file.write(b"x")
    found = [[path.rpartition("/")[2] for path in sorted(store.find(f"/several/{name}"))] for name in ("a", "b,c")]
    assert found == [["0.pt", MANIFEST], ["3.pt", MANIFEST]]
    with pytest.raises(InvalidInput, match="it exists already"):
        spread_urls(buckets, 1).make_run(RUN)
    first.remove_created()
    assert dismantle(first, ["3.pt"]) == []
    assert store.find("/several") == []


def test_a_run_over_urls_says_what_each_gave(bench: Bench, buckets: list[str]) -> None:
    flags = ("--target", ",".join(buckets), "--engine", "torch-save", "--bytes-per-rank", "1MiB", "--output", "r.json")
    done = bench.run_here("run", *flags, "--repetitions", "1")
    assert done.returncode == 0, done.stderr
    for measured in BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements:
        assert measured.verified
        assert measured.shape is not None
        assert [each.path for each in measured.shape.targets or []] == buckets[:1]
    assert fsspec.filesystem("memory").find("/several") == []


@pytest.mark.parametrize("text", ["/mnt/a,s3://bucket/b", "s3://bucket/a,/mnt/b", "s3://bucket/a,file:///mnt/b"])
def test_a_directory_beside_a_url_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--target must be directories or URLs, not both, got "):
        spread_paths(text)


def test_a_url_that_is_there_twice_and_urls_where_one_is_needed_are_refused(buckets: list[str]) -> None:
    with pytest.raises(InvalidInput, match="must not name the same URL twice, got 'memory://several/a'"):
        spread_urls([buckets[0], f"{buckets[0]}/"], 0)
    with pytest.raises(InvalidInput, match="must be one URL here"):
        checked_target(",".join(buckets), is_first=True)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            RunOptions.of({"--target": "/a,/b", "--engine": "dcp"}),
            "--target must be one directory or URL for --engine dcp",
        ),
        (RunOptions.of({"--target": "/a,/b", "--restore": "every-replica"}), "--restore must not be combined"),
        (ScanOptions.of({"--target": "/a,/b", "--engine": "direct,async-dcp"}), "for --engine async-dcp"),
        (MlperfOptions.of({"--target": "/a,/b", "--model": "8b"}), "--target must be one directory or URL here"),
    ],
)
def test_what_shares_files_between_ranks_needs_one_directory(
    options: RunOptions | ScanOptions | MlperfOptions, sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        options.check_spread()


@pytest.mark.long
def test_each_target_has_its_rate_and_the_slow_one_its_name(testbed: Testbed, bench: Bench, tmp_path: Path) -> None:
    """Two disks that take 40 and 20 MB/s of direct writes: 60 in sum, and 40 for a job that waits."""
    disks = []
    for name in ("fast", "slow"):
        (tmp_path / name).mkdir()
        disks.append(testbed(disk(tmp_path / name, num_bytes=160 << 20)))
    fast, slow = disks
    throttle = testbed(throttled(fast, write_bytes_per_second=40 * MB))
    Throttle(throttle.group, Path(f"/sys/block/{slow.device.name}/dev").read_text().strip()).limit_writes(20 * MB)
    output = bench.directory / "r.json"
    flags = ["--target", f"{fast.path},{slow.path}", "--ranks", "2", "--bytes-per-rank", "40MiB", "--repetitions", "2"]
    command = throttle.command(sys.executable, "-m", "io_bench", "run", *flags, "--output", output)
    done = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=SECONDS_UNTIL_STUCK
    )
    assert done.returncode == 0, done.stderr
    write, restore = BenchmarkResult.model_validate_json(output.read_text()).measurements
    assert write.verified
    assert restore.verified
    assert write.shape is not None
    assert write.shape.targets is not None
    rates = {each.path: each.bytes_per_second for each in write.shape.targets}
    # The kernel lets the bytes of its first tenth of a second through at once.
    assert rates == pytest.approx({str(fast.path): 40 * MB, str(slow.path): 20 * MB}, rel=0.15)
    assert write.shape.targets_bytes_per_second == pytest.approx(sum(rates.values()))
    assert write.bytes_per_second == pytest.approx(2 * rates[str(slow.path)], rel=0.02)
    assert write.shape.slow_targets == [str(slow.path)]
    assert f"Slow: {slow.path}; all ranks waited for it." in " ".join(done.stdout.split())
    left: Iterator[Path] = (path for place in disks for path in place.path.glob("ckpt-bench-*"))
    assert list(left) == []
