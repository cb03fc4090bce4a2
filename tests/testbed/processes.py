"""Processes of a test bed: found or missed by name, started, waited for, ended by process id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

SECONDS_TO_START = 60.0
SECONDS_TO_END = 10.0


class Unavailable(RuntimeError):
    """This machine cannot run a part of the test bed; the message says which and why."""


class NotReady(RuntimeError):
    """A part of the test bed ended or was silent instead of becoming ready; the message has its last words."""


def need_root() -> None:
    """Raise Unavailable without root, which mounts and namespaces need."""
    if os.geteuid() != 0:
        raise Unavailable("this part of the test bed needs root")


def need(*programs: str) -> None:
    """Raise Unavailable where a program is not installed."""
    for program in programs:
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed")


def done(command: Sequence[str | Path], *, text: str | None = None) -> str:
    """What a short command prints. Raises RuntimeError with its complaint where it fails.

    Args: `text`, what the command reads.
    """
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=SECONDS_TO_START)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {ended.stderr.strip()}")
    return ended.stdout


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    is_ready: Callable[[], object],
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A server for the time of the block; it is killed too when this process is.

    Raises NotReady where it ends, or is not ready in time.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=os.environ | dict(environment or {}),
            start_new_session=True,
        )
    try:
        wait_until(is_ready, process, log)
        yield process
    finally:
        end(process)


def wait_until(is_true: Callable[[], object], process: subprocess.Popen[Any], log: Path) -> None:
    """Wait for something that a running process brings about. Raises NotReady."""
    deadline = time.monotonic() + SECONDS_TO_START
    while not is_true():
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotReady(f"{log.stem}: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.02)


def end(process: subprocess.Popen[Any]) -> None:
    """Ask what a process has started to end, or itself where it is alone; kill what does not.

    A launcher is left to see the end of its children: one that it leaves behind ends late.
    """
    for signum in (signal.SIGTERM, signal.SIGKILL):
        _signal(process, signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_TO_END)
            return
    process.kill()
    process.wait()


def _signal(process: subprocess.Popen[Any], signum: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        itself = psutil.Process(process.pid)
        for receiver in itself.children(recursive=True) or [itself]:
            with contextlib.suppress(psutil.NoSuchProcess):
                receiver.send_signal(signum)
