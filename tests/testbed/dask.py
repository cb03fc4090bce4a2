"""A scheduler and workers of Dask, as their command starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.processes import SECONDS_TO_END, running

REPOSITORY = Path(__file__).resolve().parents[2]
_DASK = Path(sys.executable).parent / "dask"


@dataclass(frozen=True, slots=True)
class RunningScheduler:
    """A scheduler that runs."""

    address: str
    pid: int
    """Process of the scheduler."""


@contextmanager
def scheduler(directory: Path, *options: str | Path, port: int = 0) -> Iterator[RunningScheduler]:
    """A scheduler on loopback, at a port of its own choosing unless another is given."""
    file = directory / "scheduler.json"
    file.unlink(missing_ok=True)
    place: list[str | Path] = ["--host", "127.0.0.1", "--port", str(port), "--scheduler-file", file]
    command = [_DASK, "scheduler", *place, "--no-dashboard", "--dashboard-address", "127.0.0.1:0", *options]
    log, path = directory / "scheduler.log", {"PYTHONPATH": str(REPOSITORY)}

    def is_written() -> bool:
        return file.exists() and file.read_text().endswith("}")

    with running(command, log=log, is_ready=is_written, environment=path) as process:
        yield RunningScheduler(json.loads(file.read_text())["address"], process.pid)


@contextmanager
def workers(
    directory: Path,
    *options: str | Path,
    number: int = 2,
    source: Path = REPOSITORY,
) -> Iterator[None]:
    """Workers of one thread and 2 GiB each for the scheduler of a folder, with this project's source."""
    log = directory / "worker.log"
    size = ["--nworkers", str(number), "--nthreads", "1", "--memory-limit", "2GiB", "--no-dashboard"]
    place: list[str | Path] = ["--scheduler-file", directory / "scheduler.json", "--local-directory", directory]
    command: list[str | Path] = [_DASK, "worker", *place, *size, *options]
    log.unlink(missing_ok=True)

    def has_all() -> bool:
        return log.exists() and log.read_text().count("Registered to:") >= number

    with running(command, log=log, is_ready=has_all, environment={"PYTHONPATH": str(source)}) as process:
        try:
            yield
        finally:
            _end_with_workers(process)


def _end_with_workers(process: subprocess.Popen[bytes]) -> None:
    """Ask the process that watches workers to end them: it starts one that ends by itself anew."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS_TO_END)


@contextmanager
def cluster(directory: Path) -> Iterator[RunningScheduler]:
    """A scheduler and two workers."""
    with ExitStack() as stack:
        running_scheduler = stack.enter_context(scheduler(directory))
        stack.enter_context(workers(directory))
        yield running_scheduler
