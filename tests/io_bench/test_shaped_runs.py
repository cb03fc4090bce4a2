"""Runs of a shape of their own, on disks of known rates and between nodes with links of known rates."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pytest

from sizing.run.restore import exchange_seconds
from sizing.storage.measurement import BenchmarkResult, Measurement
from tests.io_bench.conftest import REPOSITORY
from tests.testbed.file_systems import disk, throttled
from tests.testbed.launch import agents, finish
from tests.testbed.network import Link, network
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from tests.conftest import Testbed
    from tests.io_bench.conftest import Bench

MB = 10**6


def measured(
    run: Callable[..., subprocess.CompletedProcess[str]], bench: Bench, *flags: str
) -> tuple[Measurement, Measurement, str]:
    done = run("run", *flags, "--output", "r.json")
    assert done.returncode == 0, done.stderr
    write, restore = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements
    assert write.verified
    assert restore.verified
    return write, restore, done.stdout


def small(target: Path, *flags: str) -> tuple[str, ...]:
    return ("--target", str(target), "--bytes-per-rank", "4MiB", "--repetitions", "2", *flags)


@pytest.mark.parametrize(
    ("engine", "strategy", "policy", "num_ranks"),
    [
        ("direct", "parallel-read-exchange", "o-direct", 2),
        pytest.param("direct", "parallel-read-exchange", "o-direct", 4, marks=pytest.mark.exhaustive),
        pytest.param("direct", "read-once-broadcast", "o-direct", 4, marks=pytest.mark.exhaustive),
        pytest.param("safetensors", "every-replica", "cached", 4, marks=pytest.mark.exhaustive),
        pytest.param("torch-save", "read-once-broadcast", "fadvise-dontneed", 4, marks=pytest.mark.long),
    ],
)
def test_every_replica_has_what_one_wrote_and_reads_what_its_strategy_says(
    engine: str, strategy: str, policy: str, num_ranks: int, bench: Bench, target: Path
) -> None:
    flags = ("--engine", engine, "--restore", strategy, "--replicas", "2", "--ranks", str(num_ranks))
    write, restore, said = measured(bench.run, bench, *small(target, *flags))
    assert (write.num_ranks, write.shape) == (num_ranks // 2, None)
    assert (restore.num_ranks, restore.cache_policy) == (num_ranks, policy)
    shape = restore.shape
    assert shape is not None
    assert (shape.restore, shape.num_replicas) == (strategy, 2)
    times = 2 if strategy == "every-replica" else 1
    assert restore.total_bytes == times * write.total_bytes
    assert restore.rank_bytes is not None
    num_reading = sum(count > 0 for count in restore.rank_bytes)
    assert num_reading == (num_ranks // 2 if strategy == "read-once-broadcast" else num_ranks)
    if times == 1:
        assert 0.99 * (num_ranks << 21) < (shape.exchanged_bytes or 0) < write.total_bytes + (64 << 10)
        assert 0 < (shape.exchange_seconds or 0) < statistics.median(restore.seconds)
    assert "2 replicas restored" in said
    assert {path.name for path in target.iterdir()} == {"not-ours.bin"}


def test_replicas_that_would_not_be_equal_are_refused(bench: Bench, target: Path) -> None:
    done = bench.run_here("run", *small(target, "--restore", "every-replica"))
    assert done.returncode == 2
    assert "--replicas must divide the 1 ranks that take part, got 2" in done.stderr


def rotated(bench: Bench, target: Path, deletion: str, *flags: str) -> tuple[Measurement, str, str]:
    """A run that keeps two checkpoints beside the next: what its saves gave, and what it said on either stream."""
    words = ["--retain", "2", "--deletion", deletion, "--keep", "--output", "r.json", "--bytes-per-rank", "4MiB"]
    done = bench.run_here("run", "--target", str(target), *words, *flags)
    assert done.returncode == 0, done.stderr
    write, restore = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements
    assert restore.shape is None
    shape = write.shape
    assert shape is not None
    assert (shape.retained_checkpoints, shape.deletion) == (2, deletion)
    assert shape.deletion_seconds is not None
    assert ("delete" in (write.phase_seconds or {})) == (deletion == "in-save")
    num_checkpoints = 3 if deletion == "in-save" else 4
    assert f"{num_checkpoints} checkpoints" in done.stderr
    (place,) = target.glob("ckpt-bench-*")
    assert len([*place.glob("*.pt"), *place.glob("*.distcp")]) == num_checkpoints - 1
    assert [*place.glob("batches-*")] == []
    return write, done.stdout, done.stderr


def test_a_rotation_says_what_stayed_and_what_its_removal_took(bench: Bench, target: Path) -> None:
    rotated(bench, target, "beside-save", "--engine", "torch-save", "--repetitions", "2")


def test_batches_are_read_beside_saves_of_a_rotation_and_a_cap_counts_all_saves(bench: Bench, target: Path) -> None:
    """4 MiB: a warm-up of two fills, a save alone, a save and a restore, then three of these in each repetition.

    Each is a bit larger on disk: 20 MiB and 12 MiB, then 12 MiB more are above 48 MiB with what files have beside tensors.
    """
    caps = ("--max-bytes", "48MiB", "--repetitions", "9")
    flags = ("--engine", "direct", "--beside", "batches", "--batch-size", "64KiB", *caps)
    write, said, _ = rotated(bench, target, "in-save", *flags)
    assert write.shape is not None
    beside = write.shape.beside
    assert beside is not None
    num_repetitions = len(write.seconds)
    assert num_repetitions == 1
    assert (beside.name, beside.unit) == ("batches", "bytes")
    assert len(beside.rates) == len(beside.alone_rates) == len(beside.save_alone_seconds) == num_repetitions
    assert all(rate > 0 for rate in (*beside.rates, *beside.alone_rates))
    assert "Beside the saves ran batches" in said


def test_training_goes_on_beside_an_asynchronous_save_of_a_rotation(bench: Bench, target: Path) -> None:
    flags = ("--engine", "async-dcp", "--beside", "compute", "--repetitions", "1")
    write, said, _ = rotated(bench, target, "beside-save", *flags)
    assert write.shape is not None
    beside = write.shape.beside
    assert beside is not None
    assert all(rate > 0 for rate in beside.alone_rates)
    assert beside.unit == "steps"
    assert "steps/s alone" in said


def test_a_rotation_of_objects_leaves_none(bench: Bench) -> None:
    fsspec.filesystem("memory").mkdir("/bucket")
    flags = ("--target", "memory://bucket/rotation", "--engine", "torch-save", "--bytes-per-rank", "1MiB")
    done = bench.run_here("run", *flags, "--repetitions", "3", "--retain", "1", "--output", "r.json")
    assert done.returncode == 0, done.stderr
    write, _ = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements
    assert write.shape is not None
    assert write.shape.deletion_seconds is not None
    assert fsspec.filesystem("memory").find("/bucket/rotation") == []


def on_disk(throttle_command: list[str], output: Path) -> tuple[Measurement, Measurement]:
    done = subprocess.run(
        throttle_command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=SECONDS_UNTIL_STUCK
    )
    assert done.returncode == 0, done.stderr
    write, restore = BenchmarkResult.model_validate_json(output.read_text()).measurements
    return write, restore


@pytest.mark.exhaustive(minutes=2)
def test_hot_files_of_a_throttled_disk_are_read_as_often_as_there_are_replicas(
    testbed: Testbed, tmp_path: Path
) -> None:
    """At 40 MB/s, four ranks that read 64 MiB take four times as long as one that reads for all; processors hardly count.

    The kernel's throttle lets the bytes of its first tenths of a second through at once.
    """
    slow, output = testbed(disk(tmp_path, num_bytes=192 << 20)), tmp_path / "r.json"
    throttle = testbed(throttled(slow, read_bytes_per_second=40 * MB))
    seconds = {}
    for strategy in ("every-replica", "read-once-broadcast", "parallel-read-exchange"):
        flags = ["--bytes-per-rank", "64MiB", "--repetitions", "3", "--ranks", "4", "--replicas", "4"]
        command = [sys.executable, "-m", "io_bench", "run", "--target", str(slow.path), *flags, "--restore", strategy]
        _, restore = on_disk(throttle.command(*command, "--output", output), output)
        assert restore.shape is not None
        exchange = restore.shape.exchange_seconds or 0.0
        seconds[strategy] = statistics.median(restore.seconds) - exchange
        predicted = restore.total_bytes / (40 * MB)
        assert seconds[strategy] == pytest.approx(predicted, rel=0.1, abs=0.15)
    assert seconds["every-replica"] > 3 * seconds["read-once-broadcast"]


@pytest.mark.long
def test_batches_and_saves_lose_nothing_to_each_other_where_reads_and_writes_have_limits_of_their_own(
    testbed: Testbed, tmp_path: Path
) -> None:
    """The disk takes 20 MB/s of writes and gives 20 MB/s of reads: two limits, of which none is shared."""
    slow, output = testbed(disk(tmp_path, num_bytes=160 << 20)), tmp_path / "r.json"
    limits = throttled(slow, read_bytes_per_second=20 * MB, write_bytes_per_second=20 * MB)
    flags = ["--bytes-per-rank", "32MiB", "--repetitions", "3", "--beside", "batches", "--batch-size", "1MiB"]
    command = [sys.executable, "-m", "io_bench", "run", "--target", str(slow.path), *flags, "--output", str(output)]
    write, _ = on_disk(testbed(limits).command(*command), output)
    assert write.shape is not None
    beside = write.shape.beside
    assert beside is not None
    assert statistics.median(beside.alone_rates) == pytest.approx(20 * MB, rel=0.2)
    assert statistics.median(beside.rates) == pytest.approx(20 * MB, rel=0.2)
    assert beside.loss_fraction == pytest.approx(0.0, abs=0.15)
    assert beside.save_loss_fraction == pytest.approx(0.0, abs=0.15)


def exchanged_between_nodes(strategy: str, testbed: Testbed, directory: Path, *, rate: float) -> float:
    """Seconds of an exchange of 32 MiB between two replicas, each on a node with a link of that rate each way."""
    target = directory / "target"
    target.mkdir()
    link = Link(sends_bytes_per_second=rate, receives_bytes_per_second=rate)
    nodes = list(testbed(network(directory, {"n1": link, "n2": link})).values())
    flags = ["--bytes-per-rank", "32MiB", "--repetitions", "2", "--replicas", "2", "--restore", strategy]
    command = ["run", "--target", str(target), *flags, "--output", "r.json"]
    with agents(nodes, *command, ranks_per_node=1, directory=directory) as processes:
        for ended in finish(processes, seconds=SECONDS_UNTIL_STUCK):
            assert ended.returncode == 0, ended.stderr
    _, restore = BenchmarkResult.model_validate_json((directory / "r.json").read_text()).measurements
    assert restore.verified
    assert restore.num_nodes == 2
    assert restore.shape is not None
    assert restore.shape.exchange_seconds is not None
    return restore.shape.exchange_seconds


@pytest.mark.long
def test_a_broadcast_takes_the_time_that_sizing_predicts_for_the_network(testbed: Testbed, tmp_path: Path) -> None:
    predicted = exchange_seconds(32 << 20, network_bytes_per_second=15.0 * MB)
    found = exchanged_between_nodes("read-once-broadcast", testbed, tmp_path, rate=15.0 * MB)
    assert found == pytest.approx(float(predicted), rel=0.2)


@pytest.mark.long
def test_an_exchange_is_bounded_by_what_sizing_predicts_and_beats_a_broadcast(testbed: Testbed, tmp_path: Path) -> None:
    """Half of the shard goes each way. The formula is the lower bound of links that carry both ways at once."""
    predicted = exchange_seconds(16 << 20, network_bytes_per_second=15.0 * MB)
    of_broadcast = exchange_seconds(32 << 20, network_bytes_per_second=15.0 * MB)
    found = exchanged_between_nodes("parallel-read-exchange", testbed, tmp_path, rate=15.0 * MB)
    assert 0.9 * predicted < found < of_broadcast
