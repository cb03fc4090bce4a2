"""Ranks on several nodes, and ranks that the command starts itself. Nodes are told apart as torchrun does."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from sizing.storage.measurement import BenchmarkResult

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench, Tree

SMALL = ("--bytes-per-rank", "2MiB", "--repetitions", "2")


def on_nodes(
    bench: Bench, *arguments: str, num_nodes: int, ranks_per_node: int, prefix_of_others: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Start the command on every rank as a launcher would; what rank 0 says. Other nodes have a prefix before it."""
    places = [(node, local) for node in range(num_nodes) for local in range(ranks_per_node)]
    processes = bench.start_ranks(
        [[*(prefix_of_others if node else ()), *bench.command(*arguments)] for node, _ in places],
        environments=[{"LOCAL_RANK": str(local), "GROUP_RANK": str(node)} for node, local in places],
    )
    done = [bench.finish(process) for process in processes]
    assert [each.stdout for each in done[1:]] == [""] * (len(done) - 1)
    assert {each.returncode for each in done} == {done[0].returncode}
    return done[0]


@pytest.mark.parametrize(
    ("engine", "write_policy"),
    [
        (("--engine", "torch-save"), "buffered-fsync"),
        pytest.param(("--stream",), "o-direct", marks=pytest.mark.long),
    ],
)
def test_ranks_of_several_nodes_restore_what_another_node_wrote(
    engine: tuple[str, ...], write_policy: str, bench: Bench, target: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(target)
    flags = ("--target", str(target), *SMALL, *engine, "--output", "r.json")
    done = on_nodes(bench, "run", *flags, num_nodes=2, ranks_per_node=1)
    assert done.returncode == 0, done.stderr
    result = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text())
    write, restore = result.measurements
    assert (write.num_nodes, write.num_ranks) == (2, 2)
    assert (write.cache_policy, restore.cache_policy) == (write_policy, "other-node")
    assert set(result.environment["nodes"]) == {"GROUP_RANK=0", "GROUP_RANK=1"}  # type: ignore[arg-type]  # JSON: a list
    assert tree(target) == before


@pytest.mark.long
@pytest.mark.usefixtures("mounting")
def test_nodes_whose_clocks_began_a_day_apart_start_together(bench: Bench, target: Path) -> None:
    a_day_on = ("unshare", "--time", "--monotonic", "86400", "--fork")
    flags = ("--target", str(target), *SMALL, "--output", "r.json")
    done = on_nodes(bench, "run", *flags, num_nodes=2, ranks_per_node=1, prefix_of_others=a_day_on)
    assert done.returncode == 0, done.stderr
    for measurement in BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text()).measurements:
        assert max(measurement.start_spread_seconds or []) < 3600
        assert max(measurement.seconds) < 3600
        assert 0 < (measurement.clock_error_seconds or 0) < 60


@pytest.mark.long
def test_a_scan_over_nodes_lets_the_others_wait(bench: Bench, target: Path, tree: Callable[[Path], Tree]) -> None:
    before = tree(target)
    flags = ("--target", str(target), *SMALL, "--writers", "1", "--output", "s.json")
    done = on_nodes(bench, "scan", *flags, num_nodes=2, ranks_per_node=2)
    assert done.returncode == 0, done.stderr
    result = BenchmarkResult.model_validate_json((bench.directory / "s.json").read_text())
    seen = sorted((m.num_nodes, m.num_ranks, m.operation, m.cache_policy == "other-node") for m in result.measurements)
    assert seen == [
        (nodes, ranks, operation, nodes == 2 and operation == "restore")
        for nodes, ranks in ((1, 1), (2, 2))
        for operation in ("restore", "write")
    ]
    assert tree(target) == before


def test_ranks_that_the_command_starts_itself_end_with_it(
    bench: Bench, target: Path, until: Callable[[Callable[[], object], subprocess.Popen[str]], None]
) -> None:
    long = ("--repetitions", "1000")
    process = bench.start(bench.command("run", "--target", str(target), *SMALL, *long, "--ranks", "2"))
    # Not while libraries are imported: some make other errors of an interruption.
    until(lambda: any(target.glob("ckpt-bench-*")), process)
    others = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGTERM)
    assert bench.finish(process).returncode == 128 + signal.SIGTERM
    assert not [other for other in others if other.is_running()]
    assert {path.name for path in target.iterdir()} == {"not-ours.bin"}


def test_a_number_of_ranks_that_the_launcher_did_not_start_is_refused(bench: Bench, target: Path) -> None:
    launched = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    environment = launched | {"MASTER_PORT": "29500"}
    done = bench.run_here("run", "--target", str(target), "--ranks", "3", environment=environment)
    assert done.returncode == 2
    assert "--ranks must be 1, the ranks that were launched, got 3" in done.stderr
