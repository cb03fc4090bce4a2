"""Several ranks: what they measure together, and how they end when one of them does not."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from io_bench.__main__ import start
from io_bench.engines import HOST_ENGINES
from io_bench.target.places import MANIFEST
from sizing.storage.measurement import BenchmarkResult
from tests.examples import spread
from tests.testbed import processes
from tests.testbed.launch import REPOSITORY
from tests.testbed.processes import SECONDS_UNTIL_STUCK
from tests.testbed.random_signals import catches

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench, Tree

# So many repetitions that a run lasts until it is stopped.
ENDLESS = ("--bytes-per-rank", "8MiB", "--repetitions", "5000")

every_engine = pytest.mark.parametrize("engine", spread(HOST_ENGINES, by_default=["torch-save"]))

Until = Callable[[Callable[[], object], "subprocess.Popen[str]"], None]
RanksOf = Callable[["subprocess.Popen[str]"], dict[int, psutil.Process]]


def has_written(target: Path) -> Callable[[], bool]:
    """Whether ranks have begun to write."""
    return lambda: any(path.name != MANIFEST for path in target.glob("ckpt-bench-*/*"))


@pytest.fixture
def two_ranks(bench: Bench) -> Iterator[Callable[..., list[subprocess.Popen[str]]]]:
    """Two ranks by hand, as srun would start them: nothing ends the one when the other dies."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, prefix_of_rank_1: Sequence[str] = (), prelude: str = "") -> list[subprocess.Popen[str]]:
        command = bench.command(*arguments, prelude=prelude)
        started.extend(bench.start_ranks([command, [*prefix_of_rank_1, *command]]))
        return started

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.communicate()


@pytest.mark.parametrize("environment", [{"RANK": "0", "WORLD_SIZE": "1"}, {}], ids=["rank", "alone"])
def test_the_program_ends_without_the_last_steps_of_python(environment: dict[str, str], bench: Bench) -> None:
    """A thread of torch that has not ended by then could abort them or stop them for good."""
    program = """
        import atexit, runpy, sys
        atexit.register(print, "last step")
        sys.argv = ["ckpt-bench", *sys.argv[1:]]
        runpy.run_module("io_bench", run_name="__main__")
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "engines"]
    done = bench.finish(bench.start(command, environment=environment))
    assert done.returncode == 0, done.stderr
    assert "torch-save" in done.stdout
    assert "last step" not in done.stdout


def test_the_installed_program_starts_as_the_module_does() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["ckpt-bench"] == f"{start.__module__}:{start.__name__}"


def test_ranks_measure_together_and_leave_the_target_as_it_was(
    bench: Bench, target: Path, tree: Callable[[Path], Tree]
) -> None:
    before = tree(target)
    flags = ("--bytes-per-rank", "4MiB", "--repetitions", "3", "--output", "r.json")
    done = bench.run("run", "--target", str(target), *flags, num_ranks=2)
    assert done.returncode == 0, done.stderr
    assert tree(target) == before
    result = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text())
    for measurement in result.measurements:
        assert (measurement.num_ranks, measurement.num_nodes, measurement.verified) == (2, 1, True)
        assert [len(ranks) for ranks in measurement.rank_seconds] == [2, 2, 2]
        to_microseconds = [round(seconds, 6) for seconds in measurement.seconds]
        assert to_microseconds == [max(ranks) for ranks in measurement.rank_seconds]
        assert 2 * 4 << 20 < measurement.total_bytes < 2 * 5 << 20
    assert result.environment["rank_nodes"] == ["GROUP_RANK=0"] * 2
    assert {measurement.engine for measurement in result.measurements} == {"direct"}
    assert done.stdout.count("2 ranks on 1 node wrote") == 1
    assert done.stderr.count("Each rank needs") == 1


RANK_1_READS_ANOTHER_BYTE = """
import os
import torch
from io_bench.engines.torch_save import TorchSave
from io_bench.payload.payload import tensors_of
restore = TorchSave.restore
def changed(*arguments):
    restored = restore(*arguments)
    if os.environ["RANK"] == "1":
        _, tensor = next(iter(tensors_of(restored.state)))
        tensor.view(-1).view(torch.uint8)[5] ^= 1
    return restored
TorchSave.restore = changed
"""


RANK_1_IS_LATE = """
from io_bench.ranks.liveness import Ending
ended, part = Ending.ended, Ending.part
def late(self, error):
    if self._rank == 1:
        assert self._store.bell(["rank 0 only waits"]).wait(600)
    return ended(self, error)
def first(self):
    if self._rank == 0:
        self._store.set("rank 0 only waits", "")
    part(self)
Ending.ended, Ending.part = late, first
"""


def test_data_that_came_back_changed_to_one_rank_ends_all_with_its_evidence_however_late_that_rank_is(
    bench: Bench, target: Path, two_ranks: Callable[..., list[subprocess.Popen[str]]]
) -> None:
    flags = ("--engine", "torch-save", "--bytes-per-rank", "4MiB", "--repetitions", "3", "--output", "r.json")
    ranks = two_ranks("run", "--target", str(target), *flags, prelude=RANK_1_READS_ANOTHER_BYTE + RANK_1_IS_LATE)
    done = [bench.finish(process) for process in ranks]
    assert [each.returncode for each in done] == [1, 1]
    result = BenchmarkResult.model_validate_json((bench.directory / "r.json").read_text())
    assert result.corruption
    (found,) = result.corruption
    assert (found.rank, found.repetition, found.first_byte, found.num_wrong_bytes) == (1, 0, 5, 1)
    assert not any(measurement.verified for measurement in result.measurements)
    (said,) = (line for each in done for line in each.stderr.splitlines() if line.startswith("error: "))
    assert said.startswith(f"error: {found.sentence}")
    assert said.endswith("Remove it with `ckpt-bench clean`.")
    kept = {path.name for path in target.glob("ckpt-bench-*/*")}
    assert kept == {MANIFEST, *(Path(file).name for file in found.files)}


@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_an_interrupted_rank_that_is_alone_cleans_up(
    signum: signal.Signals, bench: Bench, target: Path, tree: Callable[[Path], Tree], until: Until
) -> None:
    before = tree(target), tree(bench.directory)
    process = bench.start(bench.command("run", "--target", str(target), *ENDLESS))
    until(has_written(target), process)
    process.send_signal(signum)
    done = bench.finish(process)
    assert done.returncode == 128 + signum
    assert done.stderr.splitlines()[-1] == f"error: Rank 0 was interrupted by {signum.name}."
    assert "Traceback" not in done.stderr
    assert (tree(target), tree(bench.directory)) == before


@every_engine
def test_a_killed_rank_ends_the_run_and_is_named_and_nothing_stays(
    engine: str, bench: Bench, target: Path, tree: Callable[[Path], Tree], until: Until, ranks_of: RanksOf
) -> None:
    before = tree(target)
    flags = ("--engine", engine, *ENDLESS, "--timeout", "20s")
    process = bench.start(bench.command("run", "--target", str(target), *flags, num_ranks=2))
    until(has_written(target), process)
    victim = ranks_of(process)[1]
    victim.kill()
    done = bench.finish(process)
    assert done.returncode == 1
    assert f"Rank 1 (process {victim.pid} on {socket.gethostname()}) was killed or crashed" in done.stderr
    assert tree(target) == before


@pytest.mark.long
def test_a_killed_rank_0_is_named_by_one_survivor_and_cleaned_up_after(
    bench: Bench, target: Path, tree: Callable[[Path], Tree], until: Until, ranks_of: RanksOf
) -> None:
    before = tree(target)
    process = bench.start(bench.command("run", "--target", str(target), *ENDLESS, "--timeout", "20s", num_ranks=3))
    until(has_written(target), process)
    ranks_of(process)[0].kill()
    done = bench.finish(process)
    assert done.stderr.count("Rank 0 (process ") == 1
    assert tree(target) == before


@pytest.mark.long
def test_ranks_whose_launcher_is_killed_before_they_meet_do_not_wait_for_it(
    bench: Bench, target: Path, until: Until, ranks_of: RanksOf
) -> None:
    process = bench.start(bench.command("run", "--target", str(target), *ENDLESS, "--timeout", "50min", num_ranks=2))
    until(lambda: [rank for rank in ranks_of(process).values() if catches(rank.pid, signal.SIGTERM)], process)
    ranks = ranks_of(process).values()
    process.kill()
    _, alive = psutil.wait_procs(ranks, timeout=SECONDS_UNTIL_STUCK)
    for rank in alive:
        rank.kill()
    assert not alive
    said = [line for line in bench.finish(process).stderr.splitlines() if line.startswith("error: ")]
    assert set(said) == {"error: The launcher was killed or crashed before the ranks met."}


def test_ranks_whose_launcher_is_killed_say_it_once_end_and_leave_nothing(
    bench: Bench, target: Path, tree: Callable[[Path], Tree], until: Until, ranks_of: RanksOf
) -> None:
    """Even where one of them notices late."""
    before = tree(target)
    process = bench.start(bench.command("run", "--target", str(target), *ENDLESS, "--timeout", "60s", num_ranks=2))
    until(lambda: len(list(target.glob("ckpt-bench-*/rank-*"))) == 2, process)
    first, second = (rank for _, rank in sorted(ranks_of(process).items()))
    second.suspend()
    process.kill()
    processes.until(lambda: not list(target.glob("ckpt-bench-*/rank-0")), otherwise=lambda: "rank 0 stays")
    psutil.wait_procs([first], timeout=1)  # it waits for the other; if it did not, it would have ended by then
    second.resume()
    _, alive = psutil.wait_procs([first, second], timeout=SECONDS_UNTIL_STUCK)
    for rank in alive:
        rank.kill()
    assert not alive
    assert tree(target) == before
    assert bench.finish(process).stderr.count("The launcher of rank 0 (host of the rendezvous) cannot be reached") == 1


def test_a_dead_rank_is_noticed_without_a_launcher_long_before_the_timeout(
    bench: Bench, target: Path, two_ranks: Callable[..., list[subprocess.Popen[str]]], until: Until
) -> None:
    first, second = two_ranks("run", "--target", str(target), *ENDLESS, "--timeout", "10min")
    until(has_written(target), first)
    second.kill()
    done = bench.finish(first)
    assert done.returncode == 1
    assert f"Rank 1 (process {second.pid} on {socket.gethostname()}) was killed" in done.stderr
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]


@pytest.mark.parametrize("signum", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)])
def test_one_rank_that_is_told_to_end_ends_the_other_alike(
    signum: signal.Signals,
    bench: Bench,
    target: Path,
    two_ranks: Callable[..., list[subprocess.Popen[str]]],
    until: Until,
) -> None:
    first, second = two_ranks("run", "--target", str(target), *ENDLESS, "--timeout", "20s")
    until(has_written(target), first)
    second.send_signal(signum)
    done = [bench.finish(rank) for rank in (first, second)]
    assert [rank.returncode for rank in done] == [128 + signum] * 2
    assert f"Rank 1 was interrupted by {signum.name}." in done[0].stderr
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]


@every_engine
@pytest.mark.parametrize("stopped", [pytest.param(0, marks=pytest.mark.exhaustive), 1])
def test_a_stopped_rank_is_given_up_within_the_timeout(
    stopped: int,
    engine: str,
    bench: Bench,
    target: Path,
    two_ranks: Callable[..., list[subprocess.Popen[str]]],
    until: Until,
) -> None:
    limit_seconds = 6 if engine == "torch-save" else 20  # gloo takes its time to connect
    flags = ("--engine", engine, *ENDLESS, "--timeout", f"{limit_seconds}s")
    ranks = two_ranks("run", "--target", str(target), *flags)
    until(has_written(target), ranks[0])
    ranks[stopped].send_signal(signal.SIGSTOP)
    done = bench.finish(ranks[1 - stopped])
    assert done.returncode == 1
    said = "\n".join(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert said.startswith(f"error: Rank {stopped} "), done.stderr
    assert "hang" in said
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]


@pytest.mark.usefixtures("mounting")
def test_ranks_whose_target_is_not_shared_are_told_so(
    bench: Bench, target: Path, two_ranks: Callable[..., list[subprocess.Popen[str]]]
) -> None:
    own_mount = f'mount -t tmpfs none "{target}" && exec "$@"'
    apart = ["unshare", "--mount", "sh", "-c", own_mount, "sh"]
    first, second = two_ranks("run", "--target", str(target), *ENDLESS, prefix_of_rank_1=apart)
    done = bench.finish(first)
    assert done.returncode == 1
    assert f"Rank 1 (process {second.pid} on {socket.gethostname()}) does not see {target}" in done.stderr
    assert "Check that all nodes mount the same --target." in done.stderr
    assert [path.name for path in target.iterdir()] == ["not-ours.bin"]
