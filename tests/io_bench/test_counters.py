from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from io_bench.measure import counters, stopwatch
from io_bench.measure.counters import Reading, read_counters
from io_bench.measure.stopwatch import time_operation
from io_bench.ranks.process_group import Start, Writers

MB = 10**6


def test_the_process_counts_what_it_writes_and_what_it_reads_from_storage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    before = read_counters("write", tmp_path, is_first_of_node=True)
    with path.open("wb") as file:
        file.write(os.urandom(20 * MB))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    written = read_counters("write", tmp_path, is_first_of_node=True).since(before)
    assert written.num_bytes["process"] == pytest.approx(20 * MB, rel=0.05)
    before = read_counters("restore", tmp_path, is_first_of_node=True)
    path.read_bytes()
    read = read_counters("restore", tmp_path, is_first_of_node=True).since(before)
    assert read.num_bytes["process"] == pytest.approx(20 * MB, rel=0.05)
    if "disk" in written.num_bytes:
        assert written.num_bytes["disk"] >= 20 * MB
        assert read.num_bytes["disk"] >= 20 * MB


class NodeOfTwo:
    """The group and the writers of a node whose first rank has moved its 100 bytes when the other moves 200 more."""

    index, is_first_of_node, now = 0, True, staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.group, self.moved_bytes = self, 0

    def start(self, **_: str) -> Start:
        return Start(self.now(), 0.0)

    def write(self) -> None:
        self.moved_bytes += 100

    def gather_on_node(self, *_: object, **__: str) -> None:
        self.moved_bytes += 200

    def read(self, *_: object, is_first_of_node: bool) -> Reading:
        assert is_first_of_node
        return Reading(self.moved_bytes, {"disk": self.moved_bytes}, link_seconds={"eth0": self.moved_bytes / 100})


def test_the_counters_of_a_node_are_read_when_its_last_rank_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 0 is done first: disk and link go on counting, the CPU time of rank 0 does not."""
    node = NodeOfTwo()
    monkeypatch.setattr(stopwatch, "read_counters", node.read)
    sample = time_operation(node.write, "write", cast("Writers", node), directory=None, doing="writing")
    assert (sample.counted_bytes, sample.link_seconds, sample.cpu_seconds) == ({"disk": 300}, 3.0, 100)


def test_one_rank_speaks_for_its_node(tmp_path: Path) -> None:
    assert set(read_counters("write", tmp_path, is_first_of_node=False).num_bytes) == {"process"}
    assert set(read_counters("write", tmp_path, is_first_of_node=True).num_bytes) >= {"process", "network"}


@pytest.fixture
def adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Network interfaces and InfiniBand ports of a host that is made up."""
    monkeypatch.setattr(counters, "_SYS_CLASS", tmp_path)

    def interface(name: str, *, sent: int, kind: int = 1, is_physical: bool = True) -> None:
        place = tmp_path / "net" / name
        (place / "statistics").mkdir(parents=True)
        (place / "statistics" / "tx_bytes").write_text(f"{sent}\n")
        (place / "type").write_text(f"{kind}\n")
        if is_physical:
            (place / "device").mkdir()

    return interface


def test_a_byte_that_passes_several_interfaces_counts_once(adapters: Callable[..., None], tmp_path: Path) -> None:
    for name, sent, is_physical in (("lo", 900, False), ("eth0", 10, True), ("eth1", 20, True), ("bond0", 30, False)):
        adapters(name, sent=sent, is_physical=is_physical)
    adapters("ib0", sent=5, kind=32)
    assert read_counters("write", None, is_first_of_node=True).num_bytes["network"] == 35
    port = tmp_path / "infiniband/mlx5_0/ports/1/counters"
    port.mkdir(parents=True)
    (port / "port_xmit_data").write_text("100\n")  # words of four bytes, IP over InfiniBand among them
    assert read_counters("write", None, is_first_of_node=True).num_bytes["network"] == 430


def test_a_link_is_as_busy_as_its_bytes_at_its_rate(adapters: Callable[..., None], tmp_path: Path) -> None:
    """25 Gbit/s are 3.125 GB/s; what is virtual has a rate that nobody keeps, and -1 is one that nobody knows."""
    for name, is_physical in (("eth0", True), ("eth1", True), ("veth0", False)):
        adapters(name, sent=0, is_physical=is_physical)
        (tmp_path / "net" / name / "speed").write_text({"eth0": "25000\n", "eth1": "-1\n"}.get(name, "10000\n"))
    port = tmp_path / "infiniband/mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    (port / "counters/port_xmit_data").write_text("0\n")
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    before = read_counters("write", None, is_first_of_node=True)
    for name in ("eth0", "eth1", "veth0"):
        (tmp_path / "net" / name / "statistics/tx_bytes").write_text("6250000000\n")
    (port / "counters/port_xmit_data").write_text("12500000000\n")  # words of four bytes
    after = read_counters("write", None, is_first_of_node=True)
    assert after.since(before).link_seconds == pytest.approx({"eth0": 2.0, "mlx5_0/1": 1.0})
    assert read_counters("write", None, is_first_of_node=False).link_seconds == {}


def test_a_container_has_interfaces_without_devices(adapters: Callable[..., None]) -> None:
    adapters("lo", sent=900, is_physical=False)
    adapters("eth0", sent=7, is_physical=False)
    assert read_counters("write", None, is_first_of_node=True).num_bytes["network"] == 7


def test_a_target_without_a_block_device_has_no_count_of_a_disk() -> None:
    assert "disk" not in read_counters("write", Path("/proc"), is_first_of_node=True).num_bytes
    assert "disk" not in read_counters("write", None, is_first_of_node=True).num_bytes


def test_cpu_time_is_that_of_this_process() -> None:
    before = read_counters("write", None, is_first_of_node=False)
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    assert read_counters("write", None, is_first_of_node=False).since(before).cpu_seconds == pytest.approx(0.2, abs=0.1)


def test_a_disk_that_comes_below_the_target_during_a_run_counts_for_nothing() -> None:
    """As where memory was mounted there, and is unmounted."""
    before = Reading(cpu_seconds=1.0, num_bytes={"process": 3})
    after = Reading(cpu_seconds=3.0, num_bytes={"process": 5, "disk": 9})
    assert after.since(before) == Reading(cpu_seconds=2.0, num_bytes={"process": 2})
