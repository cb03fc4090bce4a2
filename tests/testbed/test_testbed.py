"""The test bed itself: it is what it says, and leaves nothing behind."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.testbed.file_systems import disk, memory_disk, throttled
from tests.testbed.forks import ForkedProgram, nursery
from tests.testbed.glusterfs import glusterfs
from tests.testbed.launch import REPOSITORY
from tests.testbed.network import Link, network
from tests.testbed.processes import SECONDS_UNTIL_STUCK

if TYPE_CHECKING:
    from tests.conftest import Testbed

MIB = 1 << 20


def test_nodes_have_names_and_processes_of_their_own(testbed: Testbed, tmp_path: Path) -> None:
    nodes = testbed(network(tmp_path, {"n1": Link(), "n2": Link()}))
    assert [node.done("hostname") for node in nodes.values()] == ["n1\n", "n2\n"]
    assert nodes["n1"].done("getent", "hosts", "n2").split() == [nodes["n2"].address, "n2"]
    assert nodes["n2"].done("sh", "-c", "ls -d /proc/[0-9]* | head -n 1") == "/proc/1\n"


def test_equal_host_names_can_be_had(testbed: Testbed, tmp_path: Path) -> None:
    nodes = testbed(network(tmp_path, {"n1": Link(), "n2": Link()}, hostnames={"n1": "worker", "n2": "worker"}))
    assert [node.done("hostname") for node in nodes.values()] == ["worker\n", "worker\n"]


def test_a_link_has_the_rate_that_it_is_given(testbed: Testbed, tmp_path: Path) -> None:
    nodes = testbed(network(tmp_path, {"n1": Link(sends_bytes_per_second=25e6), "n2": Link()}))
    assert "tbf" in (limited := nodes["n1"].done("tc", "qdisc", "show", "dev", "eth0"))
    assert "rate 200Mbit" in limited
    assert "tbf" not in nodes["n2"].done("tc", "qdisc", "show", "dev", "eth0")


def test_files_of_one_client_are_those_of_another_and_gone_with_the_nodes(testbed: Testbed, tmp_path: Path) -> None:
    mount_point = tmp_path / "mnt"
    mount_point.mkdir()
    nodes = testbed(network(tmp_path, {"n1": Link(), "n2": Link(), "storage": Link()}))
    clients = [nodes["n1"], nodes["n2"]]
    testbed(glusterfs(tmp_path, server=nodes["storage"], clients=clients, mount_point=mount_point))
    nodes["n1"].done("sh", "-c", f"echo precious > {mount_point}/file")
    assert nodes["n2"].done("cat", mount_point / "file") == "precious\n"
    assert nodes["n2"].outside(mount_point / "file").read_text() == "precious\n"
    assert list(mount_point.iterdir()) == []
    assert "fuse.glusterfs" in nodes["n1"].done("df", "--output=fstype", mount_point)


def test_nodes_end_with_the_process_that_made_them(testbed: Testbed, tmp_path: Path) -> None:
    testbed(network(tmp_path, {"here": Link()}))  # where namespaces can be made at all
    code = (
        "import sys; from pathlib import Path; from tests.testbed.network import *\n"
        "with network(Path(sys.argv[1]), {'n1': Link()}) as nodes:\n"
        "    print(nodes['n1'].pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    assert owner.stdout is not None
    first = psutil.Process(int(owner.stdout.readline()))
    owner.kill()
    owner.communicate()
    assert first.wait(timeout=SECONDS_UNTIL_STUCK) is None


def test_a_disk_is_full_when_it_is_full_and_read_only_when_it_is_told(testbed: Testbed, tmp_path: Path) -> None:
    small = testbed(disk(tmp_path, num_bytes=16 * MIB))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (small.path / "file").write_bytes(bytes(16 * MIB))
    small.remount("ro")
    with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
        (small.path / "other").touch()


def test_a_disk_leaves_nothing_behind(tmp_path: Path, testbed: Testbed) -> None:
    testbed(memory_disk(tmp_path, num_bytes=MIB))
    with disk(tmp_path, num_bytes=16 * MIB) as small, throttled(small, write_bytes_per_second=MIB) as throttle:
        group = throttle.group
        assert (group / "blkio.throttle.write_bps_device").read_text().split()[1] == str(MIB)
        assert subprocess.run(throttle.command("cat", "/proc/self/cgroup"), capture_output=True, text=True, check=True)
    assert not group.exists()
    assert str(tmp_path) not in subprocess.run(["losetup", "--list"], capture_output=True, text=True, check=True).stdout
    assert [path.name for path in tmp_path.iterdir()] == ["memory"]


def test_a_forked_program_is_as_one_that_python_starts(tmp_path: Path) -> None:
    code = (
        "import os, sys; print(sys.argv, sys.orig_argv, os.getcwd(), os.environ['COLOUR'], os.getsid(0) == os.getpid());"
        "os.write(int(sys.argv[1]), input().encode()); sys.exit(3)"
    )
    said = []
    starts: list[Callable[..., subprocess.Popen[Any]]] = [subprocess.Popen, partial(ForkedProgram, nursery("json"))]
    for start in starts:
        ours, theirs = os.pipe()
        process = start(
            [sys.executable, "-c", code, str(theirs)],
            cwd=tmp_path,
            env=os.environ | {"COLOUR": "blue"},
            pass_fds=[theirs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        out, err = process.communicate("passed on", timeout=SECONDS_UNTIL_STUCK)
        said.append((out.replace(f"'{theirs}'", "descriptor"), err, process.returncode, os.read(ours, 99)))
        os.close(ours)
    assert said[0] == said[1]
    assert said[1][2:] == (3, b"passed on")


def test_a_forked_program_is_waited_for_and_killed_as_another() -> None:
    command = [sys.executable, "-c", "print('here', flush=True); input()"]
    with ForkedProgram(nursery("json"), command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
        process.kill()
        assert process.wait(SECONDS_UNTIL_STUCK) == process.poll() == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)
