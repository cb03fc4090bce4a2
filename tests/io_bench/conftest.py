"""Real parts for the agent's tests: processes, file systems, ranks."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import io_bench
from io_bench import interruption
from io_bench.commands.main import main
from io_bench.ranks.process_group import ProcessGroup, join_group
from tests.testbed.forks import ForkedProgram, nursery
from tests.testbed.ports import meeting_point
from tests.testbed.processes import SECONDS_UNTIL_STUCK, wait_until
from tests.testbed.terminal import typed

REPOSITORY = Path(io_bench.__file__).parents[1]
_MODULES = ("io_bench.commands.run", "io_bench.commands.grid", "sizing.scenario", "torch.distributed.checkpoint")
"""What most runs of the agent import."""
STEP_DONE = re.compile(r"^(\d+) of (?:\d+ to )?(\d+), (writing|restoring): [\d.]+ [kMGT]?B/s$", re.MULTILINE)
"""What `ckpt-bench run` says of each write and restore where no terminal draws a bar."""


@dataclass(frozen=True)
class Bench:
    """Runs the command line in a directory of its own, as a process of its own or in this one."""

    directory: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(REPOSITORY), "COLUMNS": "120"}

    def command(self, *arguments: str, num_ranks: int = 0, prelude: str = "") -> list[str]:
        """The command line; under torchrun for `num_ranks`, after the statements of `prelude` in Python."""
        if num_ranks:
            launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(num_ranks)]
            return [sys.executable, *launcher, "-m", "io_bench", *arguments]
        code = f"{prelude}\nfrom io_bench.__main__ import start\nstart()"
        return [sys.executable, "-c", code, *arguments]

    def start(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, descriptors: Sequence[int] = ()
    ) -> subprocess.Popen[str]:
        is_agent_alone = list(command[:2]) == [sys.executable, "-c"]
        program = functools.partial(ForkedProgram, nursery(*_MODULES)) if is_agent_alone else subprocess.Popen
        process = program(
            command,
            cwd=self.directory,
            env=self.environment | dict(environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=descriptors,
        )
        self.started.append(process)
        return process

    def start_ranks(
        self, commands: Sequence[Sequence[str]], *, environments: Sequence[Mapping[str, str]] | None = None
    ) -> list[subprocess.Popen[str]]:
        """Start each rank by hand with its command, as srun would; `environments` add to what a launcher tells each."""
        each = zip(commands, environments or [{}] * len(commands), strict=True)
        with meeting_point() as meeting:
            return [
                self.start(
                    command,
                    environment=meeting.variables(rank, num_ranks=len(commands)) | dict(more),
                    descriptors=meeting.descriptors,
                )
                for rank, (command, more) in enumerate(each)
            ]

    def run(self, *arguments: str, num_ranks: int = 0, prelude: str = "") -> subprocess.CompletedProcess[str]:
        process = self.start(self.command(*arguments, num_ranks=num_ranks, prelude=prelude))
        return self.finish(process)

    def run_here(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The command line in this process, which has torch already: as told, where nobody kills it."""
        return typed(main, "ckpt-bench", *arguments, cwd=self.directory, environment=environment)

    def finish(self, process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
        """Wait for the end; a process that is stuck is killed with its children, and the test fails."""
        try:
            out, err = process.communicate(timeout=SECONDS_UNTIL_STUCK)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still running after {SECONDS_UNTIL_STUCK} s\n{last_words(process)}")
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def last_words(process: subprocess.Popen[str]) -> str:
    """What a process has printed that is killed, with its children, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return "\n".join(process.communicate())


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """A run ends with signals ignored, which the processes of later tests would inherit, and notes one that has come."""
    previous = {signum: signal.getsignal(signum) for signum in interruption.SIGNALS}
    yield
    interruption.expect()
    for signum, handler in previous.items():
        signal.signal(signum, handler)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """The command line; what a test that failed has left running ends with it, not in the next test."""
    directory = tmp_path / "working-directory"
    directory.mkdir()
    made = Bench(directory)
    yield made
    for process in made.started:
        with process:
            if process.poll() is None:
                last_words(process)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A target that belongs to somebody: it holds a file that must stay as it is."""
    directory = tmp_path / "target"
    directory.mkdir()
    (directory / "not-ours.bin").write_bytes(b"precious")
    return directory


@pytest.fixture
def group() -> Iterator[ProcessGroup]:
    """A group of one."""
    with join_group(60.0) as alone:
        yield alone


Tree = dict[str, tuple[int, int, int]]


@pytest.fixture(scope="session")
def tree() -> Callable[[Path], Tree]:
    """Everything below a directory by relative path: inode, size, time of change to the nanosecond."""

    def snapshot(directory: Path) -> Tree:
        stats = {path: path.lstat() for path in sorted(directory.rglob("*"))}
        return {
            str(path.relative_to(directory)): (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            for path, stat in stats.items()
        }

    return snapshot


@pytest.fixture
def until() -> Callable[[Callable[[], object], subprocess.Popen[str]], None]:
    """Wait for something that a running process is about to do."""

    def wait(is_true: Callable[[], object], process: subprocess.Popen[str]) -> None:
        wait_until(is_true, process, last_words=lambda: last_words(process))

    return wait


@pytest.fixture
def ranks_of() -> Callable[[subprocess.Popen[str]], dict[int, psutil.Process]]:
    """The rank processes below a torchrun process."""

    def children(launcher: subprocess.Popen[str]) -> dict[int, psutil.Process]:
        found: dict[int, psutil.Process] = {}
        for process in psutil.Process(launcher.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it was on its way out
                if rank := process.environ().get("RANK"):
                    found[int(rank)] = process
        return found

    return children
