"""What a node has, as batch systems and containers cut it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from io_bench import host
from io_bench.host import ThreadWatch
from io_bench.measure.plan import num_cpus
from io_bench.results.environment import infiniband_ports

if TYPE_CHECKING:
    from tests.io_bench.conftest import Bench


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty tree of control groups, of which this process is in `job/task`."""
    memberships = tmp_path / "memberships"
    memberships.write_text("4:memory:/job/task\n2:cpu,cpuacct:/job/task\n0::/job/task\n")
    monkeypatch.setattr(host, "_MEMBERSHIPS", memberships)
    monkeypatch.setattr(host, "_ROOT", tmp_path)
    for root in (tmp_path, tmp_path / "memory", tmp_path / "cpu"):
        (root / "job" / "task").mkdir(parents=True)
    return tmp_path


def test_the_tightest_share_of_cpu_time_counts(groups: Path) -> None:
    assert host.cgroup_cpu_limit() is None
    (groups / "job/task/cpu.max").write_text("max 100000\n")
    assert host.cgroup_cpu_limit() is None
    (groups / "job/cpu.max").write_text("250000 100000\n")
    assert host.cgroup_cpu_limit() == 2.5
    (groups / "cpu/job/cpu.cfs_quota_us").write_text("-1\n")
    (groups / "cpu/job/cpu.cfs_period_us").write_text("100000\n")
    assert host.cgroup_cpu_limit() == 2.5
    (groups / "cpu/job/cpu.cfs_quota_us").write_text("150000\n")
    assert host.cgroup_cpu_limit() == 1.5


def test_periods_without_cpu_time_left_count_as_time_in_both_versions_of_control_groups(groups: Path) -> None:
    """The files as the kernel's documentation has them: version 1 in nanoseconds and without usage, 2 in microseconds."""
    assert host.throttled_seconds() == {}
    (groups / "job/task/cpu.max").write_text("20000 100000\n")
    (groups / "job/task/cpu.stat").write_text(
        "usage_usec 2000000\nuser_usec 1500000\nsystem_usec 500000\n"
        "nr_periods 100\nnr_throttled 70\nthrottled_usec 9999999\nnr_bursts 0\nburst_usec 0\n"
    )
    for name, text in {
        "cpu.cfs_quota_us": "50000\n",
        "cpu.cfs_period_us": "250000\n",
        "cpu.stat": "nr_periods 100\nnr_throttled 8\nthrottled_time 9999999999\nnr_bursts 0\nburst_time 0\n",
    }.items():
        (groups / "cpu/job" / name).write_text(text)
    assert host.throttled_seconds() == pytest.approx({str(groups / "job/task"): 7.0, str(groups / "cpu/job"): 2.0})


def test_a_group_without_a_limit_is_never_throttled(groups: Path) -> None:
    (groups / "job/cpu.max").write_text("max 100000\n")
    (groups / "job/cpu.stat").write_text("usage_usec 1\nuser_usec 1\nsystem_usec 0\n")
    assert host.throttled_seconds() == {}


def test_the_tightest_memory_limit_counts_without_what_the_kernel_can_take_back(groups: Path) -> None:
    assert host.cgroup_memory_limit_bytes() is None
    (groups / "job/memory.max").write_text("90000000\n")
    (groups / "job/memory.current").write_text("50000000\n")
    (groups / "job/memory.stat").write_text("anon 5\ninactive_file 20000000\n")
    assert (host.cgroup_memory_limit_bytes(), host.available_bytes()) == (90_000_000, 60_000_000)
    (groups / "memory/job/task/memory.limit_in_bytes").write_text("70000000\n")
    assert (host.cgroup_memory_limit_bytes(), host.available_bytes()) == (70_000_000, 60_000_000)


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A GPU as driver and kernel describe it, near these CPUs."""
    monkeypatch.setattr(host, "_GPUS", tmp_path / "gpus")
    monkeypatch.setattr(host, "_PCI_DEVICES", tmp_path / "pci")

    def described(cpus: str) -> None:
        for parent, name, text in (
            (
                "gpus",
                "information",
                "Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-1f2e\nBus Location: \t 0000:3b:00.0\n",
            ),
            ("pci", "local_cpulist", f"{cpus}\n"),
        ):
            place = tmp_path / parent / "0000:3b:00.0"
            place.mkdir(parents=True)
            (place / name).write_text(text)

    return described


def test_a_rank_is_kept_to_those_of_its_cpus_that_are_near_its_gpu(
    gpu: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[set[int]] = []
    gpu("0-3,8-9")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 4, 9})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: kept.append(cpus))
    assert (host.bind_near("1f2e"), kept) == ("", [{2, 3, 9}])
    assert "which CPUs" in host.bind_near("9999")
    assert "no GPU" in host.bind_near("")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4})
    assert "none of the CPUs" in host.bind_near("GPU-1f2e")
    assert len(kept) == 1


def test_the_cpus_that_this_machine_has_can_be_taken(gpu: Callable[[str], None]) -> None:
    before = os.sched_getaffinity(0)
    first = min(before)
    gpu(f"{first}")
    try:
        assert host.bind_near("GPU-1f2e") == ""
        assert os.sched_getaffinity(0) == {first}
    finally:
        os.sched_setaffinity(0, before)


def test_ranks_of_a_node_have_the_cpus_of_all_of_them_or_what_their_group_grants() -> None:
    tasks: list[dict[str, object]] = [{"cpus": [0, 1], "cpu_limit": None}, {"cpus": [2, 3], "cpu_limit": None}]
    assert num_cpus(tasks) == 4
    assert num_cpus([tasks[0], tasks[0]]) == 2
    assert num_cpus([task | {"cpu_limit": 2.5} for task in tasks]) == 2.5


def test_the_busiest_thread_is_the_one_that_needed_a_cpu_for_longest_though_it_has_ended() -> None:
    """It ends before the watch does; what it did after the last look, a tenth of its time, may be lost."""

    def spin(seconds: float) -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass

    with ThreadWatch() as watch:
        spinning = threading.Thread(target=spin, args=(0.5,))
        spinning.start()
        spinning.join()
        threading.Event().wait(0.2)
    assert watch.busiest is not None
    assert 0.3 < watch.busiest.running_seconds < 0.6
    assert watch.busiest.ready_seconds == watch.busiest.running_seconds + watch.busiest.delay_seconds


def test_time_before_the_watch_and_time_asleep_are_not_counted() -> None:
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        pass
    with ThreadWatch() as watch:
        threading.Event().wait(0.3)
    assert watch.busiest is not None
    assert watch.busiest.running_seconds < 0.1


def test_a_process_of_very_many_threads_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    num_threads = len(list(Path("/proc/self/task").iterdir()))
    monkeypatch.setattr(host, "_MAX_THREADS", num_threads - 1)
    with ThreadWatch() as watch:
        pass
    assert watch.busiest is None


def test_without_counts_of_the_scheduler_no_thread_is_the_busiest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "17").mkdir()
    monkeypatch.setattr(host, "_TASKS", tmp_path)
    with ThreadWatch() as watch:
        pass
    assert watch.busiest is None


def test_adapters_that_pass_the_kernel_by_are_described(tmp_path: Path) -> None:
    assert infiniband_ports(tmp_path / "none") == {}
    for device, state in (("mlx5_0", "4: ACTIVE"), ("mlx5_1", "1: DOWN")):
        port = tmp_path / device / "ports" / "1"
        port.mkdir(parents=True)
        for name, text in {"state": state, "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}.items():
            (port / name).write_text(f"{text}\n")
    assert infiniband_ports(tmp_path) == {"mlx5_0/1": {"rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}}


@pytest.mark.long
def test_a_node_whose_ranks_are_bound_to_cpus_of_their_own_has_them_all(bench: Bench, target: Path) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    bound = f"import os; os.sched_setaffinity(0, [{cpus}[int(os.environ.get('RANK', 0)) % {len(cpus)}]])"
    flags = ("--target", str(target), "--bytes-per-rank", "1MiB", "--repetitions", "1", "--output", "r.json")
    done = bench.run("run", *flags, "--ranks", "2", prelude=bound)
    assert done.returncode == 0, done.stderr
    result = json.loads((bench.directory / "r.json").read_text())
    assert [measurement["num_ranks"] for measurement in result["measurements"]] == [2, 2]
    (node,) = result["environment"]["nodes"].values()
    assert node["num_cpus"] == min(2, len(cpus))
