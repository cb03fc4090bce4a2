"""What a node has, as batch systems and containers cut it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench.findings.environment import infiniband_ports
from io_bench.host import control_groups, cpus, memory
from io_bench.planning.plan import _num_cpus

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree of control groups, of which this process is in `job/task`."""
    memberships = tmp_path / "memberships"
    memberships.write_text("4:memory:/job/task\n2:cpu,cpuacct:/job/task\n0::/job/task\n")
    monkeypatch.setattr(control_groups, "_MEMBERSHIPS", memberships)
    monkeypatch.setattr(control_groups, "_ROOT", tmp_path)
    for root in (tmp_path, tmp_path / "memory", tmp_path / "cpu"):
        (root / "job" / "task").mkdir(parents=True)
    return tmp_path


def test_the_tightest_share_of_cpu_time_counts(groups: Path) -> None:
    assert cpus.cgroup_limit() is None
    (groups / "job/task/cpu.max").write_text("max 100000\n")
    assert cpus.cgroup_limit() is None
    (groups / "job/cpu.max").write_text("250000 100000\n")
    assert cpus.cgroup_limit() == 2.5
    (groups / "cpu/job/cpu.cfs_quota_us").write_text("-1\n")
    (groups / "cpu/job/cpu.cfs_period_us").write_text("100000\n")
    assert cpus.cgroup_limit() == 2.5
    (groups / "cpu/job/cpu.cfs_quota_us").write_text("150000\n")
    assert cpus.cgroup_limit() == 1.5


def test_the_tightest_memory_limit_counts_without_what_the_kernel_can_take_back(groups: Path) -> None:
    assert memory.cgroup_limit_bytes() is None
    (groups / "job/memory.max").write_text("90000000\n")
    (groups / "job/memory.current").write_text("50000000\n")
    (groups / "job/memory.stat").write_text("anon 5\ninactive_file 20000000\n")
    assert (memory.cgroup_limit_bytes(), memory.available_bytes()) == (90_000_000, 60_000_000)
    (groups / "memory/job/task/memory.limit_in_bytes").write_text("70000000\n")
    assert (memory.cgroup_limit_bytes(), memory.available_bytes()) == (70_000_000, 60_000_000)


def test_ranks_of_a_node_have_the_cpus_of_all_of_them_or_what_their_group_grants() -> None:
    tasks: list[dict[str, object]] = [{"cpus": [0, 1], "cpu_limit": None}, {"cpus": [2, 3], "cpu_limit": None}]
    assert _num_cpus(tasks) == 4
    assert _num_cpus([tasks[0], tasks[0]]) == 2
    assert _num_cpus([task | {"cpu_limit": 2.5} for task in tasks]) == 2.5


def test_adapters_that_pass_the_kernel_by_are_described(tmp_path: Path) -> None:
    assert infiniband_ports(tmp_path / "none") == {}
    for device, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
        port = tmp_path / device / "ports" / "1"
        port.mkdir(parents=True)
        for name, text in {"state": state, "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}.items():
            (port / name).write_text(f"{text}\n")
    assert infiniband_ports(tmp_path) == {"mlx5_0/1": {"rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}}


def test_a_node_whose_ranks_are_bound_to_cpus_of_their_own_has_them_all(bench: Bench, target: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    bound = f"import os; os.sched_setaffinity(0, [{cpus}[int(os.environ.get('RANK', 0)) % {len(cpus)}]])"
    flags = ("--target", str(target), "--bytes-per-rank", "1MiB", "--repetitions", "1", "--output", "r.json")
    done = bench.run("run", *flags, "--ranks", "2", prelude=bound)
    assert done.returncode == 0, done.stderr
    (node,) = json.loads((bench.directory / "r.json").read_text())["environment"]["nodes"].values()
    assert node["num_cpus"] == min(2, len(cpus))
