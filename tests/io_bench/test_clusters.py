"""Several nodes, each with its own network, host name and process table, on a real parallel file system.

The nodes have one host name, so only what the launcher says of them tells them apart.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from sizing.storage.measurement import BenchmarkResult
from tests.testbed.glusterfs import glusterfs
from tests.testbed.launch import REPOSITORY, Process, agents, finish
from tests.testbed.network import Link, network
from tests.testbed.nodes import Node
from tests.testbed.processes import end, until
from tests.testbed.slurm import Slurm, slurm

if TYPE_CHECKING:
    from tests.conftest import Testbed

SMALL = ("--bytes-per-rank", "2MiB", "--repetitions", "1")
# So many repetitions that a run lasts until it is stopped.
ENDLESS = ("--bytes-per-rank", "2MiB", "--repetitions", "5000", "--timeout", "20s")


@dataclass(frozen=True)
class Cluster:
    """Two nodes that share a target, and a scheduler over them."""

    nodes: tuple[Node, Node]
    target: Path
    slurm: Slurm

    @property
    def files(self) -> list[str]:
        """What the target holds."""
        return sorted(path.name for path in self.nodes[0].outside(self.target).iterdir())

    @property
    def has_written(self) -> bool:
        """Whether ranks have begun to write."""
        return any(self.nodes[0].outside(self.target).glob("ckpt-bench-*/rank-*"))

    @property
    def ranks(self) -> dict[int, psutil.Process]:
        """The ranks that run on the nodes."""
        found = {}
        for node in self.nodes:
            here = Path(f"/proc/{node.pid}/ns/pid").readlink()
            for process in psutil.process_iter():
                try:
                    if Path(f"/proc/{process.pid}/ns/pid").readlink() == here and "io_bench" in process.cmdline():
                        environment = process.environ()
                        rank = environment.get("RANK", environment.get("SLURM_PROCID"))
                        found[rank] = process
                except (psutil.Error, OSError):
                    continue
        return {int(rank): process for rank, process in found.items() if rank is not None}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, testbed_of_module: Testbed) -> Cluster:
    directory = tmp_path_factory.mktemp("cluster")
    target = directory / "target"
    target.mkdir()
    links = {"head": Link(), "n1": Link(), "n2": Link()}
    nodes = testbed_of_module(network(directory, links, hostnames={"n1": "worker", "n2": "worker"}))
    both = (nodes["n1"], nodes["n2"])
    testbed_of_module(glusterfs(directory, server=nodes["head"], clients=both, mount_point=target))
    return Cluster(both, target, testbed_of_module(slurm(directory, controller=nodes["head"], nodes=both)))


@contextmanager
def under_torchrun(cluster: Cluster, directory: Path, *flags: str) -> Iterator[list[Process]]:
    arguments: tuple[str | Path, ...] = ("run", "--target", cluster.target, *flags)
    with agents(cluster.nodes, *arguments, ranks_per_node=2, directory=directory) as launchers:
        yield launchers


@contextmanager
def under_srun(cluster: Cluster, directory: Path, *flags: str) -> Iterator[list[Process]]:
    srun = ("srun", "--nodes=2", "--ntasks-per-node=2", "--wait=12", sys.executable, "-m", "io_bench")
    launcher = cluster.slurm.start(*srun, "run", "--target", cluster.target, *flags, directory=directory)
    try:
        yield [launcher]
    finally:
        end(launcher)


Launch = Callable[..., Any]
Ended = tuple[list["subprocess.CompletedProcess[str]"], str]


def ended_after(signum: signal.Signals, rank: int, cluster: Cluster, launch: Launch, directory: Path) -> Ended:
    """How the launchers ended after one rank got a signal, and all that they printed."""
    with launch(cluster, directory, *ENDLESS) as launchers:
        until(lambda: (cluster.has_written and len(cluster.ranks) == 4) or any_ended(launchers))
        assert not any_ended(launchers)
        victim = cluster.ranks[rank]
        victim.send_signal(signum)
        ended = finish(launchers)
    return ended, "".join(launcher.stderr for launcher in ended)


def any_ended(launchers: list[Process]) -> bool:
    return any(launcher.poll() is not None for launcher in launchers)


def measured(path: Path) -> BenchmarkResult:
    return BenchmarkResult.model_validate_json(path.read_text())


@pytest.mark.long
def test_ranks_on_two_nodes_with_one_host_name_measure_together(cluster: Cluster, tmp_path: Path) -> None:
    with under_torchrun(cluster, tmp_path, *SMALL, "--output", "r.json") as launchers:
        first, second = finish(launchers)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    result = measured(tmp_path / "r.json")
    assert {(m.num_nodes, m.num_ranks, m.verified) for m in result.measurements} == {(2, 4, True)}
    environment: dict[str, Any] = result.environment
    assert environment["rank_nodes"] == ["GROUP_RANK=0"] * 2 + ["GROUP_RANK=1"] * 2
    assert {node["mount"]["type"] for node in environment["nodes"].values()} == {"fuse.glusterfs"}
    assert "4 ranks on 2 nodes wrote" in first.stdout
    assert cluster.files == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "flag", "num_ranks"),
    [
        ("ckpt-bench", "--ntasks-per-node=1", 2),
        pytest.param("ckpt-bench-torchrun", "--export=ALL,RANKS_PER_NODE=2", 4, marks=pytest.mark.long),
    ],
)
def test_the_batch_scripts_check_and_measure(
    script: str, flag: str, num_ranks: int, cluster: Cluster, tmp_path: Path
) -> None:
    path = REPOSITORY / f"deploy/slurm/{script}.sbatch"
    command = (flag, path, cluster.target, *SMALL)
    log = cluster.slurm.batch_log(*command, directory=tmp_path)
    assert log.count(f"seen from worker, for {num_ranks} x 2.097 MB (2.000 MiB):") == 2
    assert f"{num_ranks} ranks on 2 nodes wrote" in log
    (output,) = tmp_path.glob("ckpt-bench-*.json")
    result = measured(output)
    assert {(m.num_nodes, m.num_ranks, m.verified) for m in result.measurements} == {(2, num_ranks, True)}
    assert result.environment["rank_nodes"] == [
        f"SLURMD_NODENAME=n{1 + 2 * rank // num_ranks}" for rank in range(num_ranks)
    ]
    assert cluster.files == []


def test_a_batch_script_ends_where_a_node_finds_the_target_unfit(cluster: Cluster, tmp_path: Path) -> None:
    path = REPOSITORY / "deploy/slurm/ckpt-bench.sbatch"
    command = ("--ntasks-per-node=1", path, "/dev/shm", *SMALL)  # noqa: S108 - to be refused
    log = cluster.slurm.batch_log(*command, directory=tmp_path)
    assert "This file system is in memory" in log
    assert "wrote" not in log
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.long
def test_a_task_prolog_checks_each_node_and_ends_a_job_without_room(cluster: Cluster, tmp_path: Path) -> None:
    prolog = REPOSITORY / "deploy" / "slurm" / "prolog-check.sh"
    (tmp_path / "huge.yaml").write_text(
        "model: {preset: gpt2}\nparallelism: {data: 2}\nretention: {keep_last: 900000}\n"
    )
    (tmp_path / "small.yaml").write_text("model: {preset: gpt2}\nparallelism: {data: 2}\n")
    ended = {}
    for name in ("small", "huge"):
        told = f"--export=ALL,CKPT_TARGET={cluster.target},CKPT_CONFIG={tmp_path}/{name}.yaml"
        srun = ("srun", "--nodes=2", "--ntasks-per-node=1", f"--task-prolog={prolog}", told, "echo", "began")
        (ended[name],) = finish([cluster.slurm.start(*srun, directory=tmp_path)])
    assert ended["small"].returncode == 0, ended["small"].stderr
    assert ended["small"].stdout.count("began") == 2
    assert ended["small"].stdout.count("room for the run") == 2
    assert ended["huge"].returncode != 0
    assert "began" not in ended["huge"].stdout
    assert "error: room for the run: The disk fills during the run." in ended["huge"].stdout


@pytest.mark.long
def test_tasks_of_a_step_scan_together(cluster: Cluster, tmp_path: Path) -> None:
    flags = ("--writers", "1,2", "--engine", "torch-save", *SMALL, "--output", "scan.json")
    srun = ("srun", "--nodes=2", "--ntasks-per-node=2", "ckpt-bench", "scan", "--target", cluster.target, *flags)
    (ended,) = finish([cluster.slurm.start(*srun, directory=tmp_path)])
    assert ended.returncode == 0, ended.stderr
    measurements = measured(tmp_path / "scan.json").measurements
    assert {(m.num_nodes, m.num_ranks) for m in measurements} >= {(2, 2), (2, 4)}
    assert cluster.files == []


@pytest.mark.long
@pytest.mark.parametrize("launch", [under_torchrun, under_srun])
def test_a_rank_killed_on_another_node_is_named_and_nothing_stays(
    launch: Launch, cluster: Cluster, tmp_path: Path
) -> None:
    launchers, said = ended_after(signal.SIGKILL, 2, cluster, launch, tmp_path)
    assert all(launcher.returncode for launcher in launchers)
    # Its neighbour, whose messages rank 2 carried, may be the first to tell.
    assert re.search(r"Rank 2 \(process \d+ on worker\) (cannot be reached: it )?was killed or crashed", said), said
    assert cluster.files == []


@pytest.mark.long
def test_a_rank_stopped_on_another_node_is_named_and_nothing_stays(cluster: Cluster, tmp_path: Path) -> None:
    launchers, said = ended_after(signal.SIGSTOP, 3, cluster, under_srun, tmp_path)
    assert all(launcher.returncode for launcher in launchers)
    assert re.search(
        r"Rank 3 \(process \d+ on worker\) timeout: did not finish [\w ]+ within [0-9.]+ s of the others", said
    ), said
    assert cluster.files == []
