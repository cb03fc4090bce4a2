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
from typing import Any, TypeVar

import psutil

_Found = TypeVar("_Found")

SECONDS_UNTIL_STUCK = 300.0
"""Who waits for an event gives up after this time, in which it comes about on any machine, however busy."""

SECONDS_TO_END = 10.0
"""For a process that is told to end, before it is killed. No test judges whether it needed that."""


_MAX_LAST_WORDS = 8000


class Unavailable(RuntimeError):
    """This machine cannot run a part of the test bed; the message says which and why."""


class NotReady(RuntimeError):
    """What a test waits for has not come about; the message has the last words of who was to bring it about."""


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
    ended = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=SECONDS_UNTIL_STUCK
    )
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
        wait_until(is_ready, process, last_words=lambda: f"{log.stem}: {log.read_text(errors='replace')[-2000:]}")
        yield process
    finally:
        end(process)


def until(
    found: Callable[[], _Found | None], *, otherwise: Callable[[], str] = str, pause_seconds: float = 0.02
) -> _Found:
    """What `found` returns as soon as that is true. Raises NotReady, with what `otherwise` says, where it never is."""
    deadline = time.monotonic() + SECONDS_UNTIL_STUCK
    while not (here := found()):
        if time.monotonic() > deadline:
            raise NotReady(otherwise())
        time.sleep(pause_seconds)
    return here


def wait_until(
    found: Callable[[], _Found | None], process: subprocess.Popen[Any], *, last_words: Callable[[], str]
) -> _Found:
    """What `found` returns as soon as a running process makes it true.

    Raises NotReady with the process's last words where that never is, or where the process ends first.
    """

    def found_while_it_runs() -> _Found | None:
        has_ended = process.poll() is not None
        here = found()
        if has_ended and not here:
            raise NotReady(last_words())
        return here

    return until(found_while_it_runs, otherwise=last_words)


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


def where_they_stand(processes: Sequence[subprocess.Popen[str]]) -> str:
    """What processes and all that they started are at, as the kernel sees them; then the end of each, and what it said.

    Python says where it was, where faulthandler is on.
    """
    lines = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            itself = psutil.Process(process.pid)
            lines += [_stand(each) for each in (itself, *itself.children(recursive=True))]
    for process in processes:
        _signal(process, signal.SIGABRT)
    for process in processes:
        try:
            said = process.communicate(timeout=SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            end(process)
            said = process.communicate()
        lines += [f"{process.pid} ended with {process.returncode}:", *(part[-_MAX_LAST_WORDS:] for part in said)]
    return "\n".join(lines)


def _stand(process: psutil.Process) -> str:
    try:
        waits_in = Path(f"/proc/{process.pid}/wchan").read_text()
        return f"{process.pid} of {process.ppid()}, {process.status()} in {waits_in}: {process.cmdline()[-12:]}"
    except (psutil.Error, OSError) as error:
        return f"{process.pid}: {error}"


def _signal(process: subprocess.Popen[Any], signum: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        itself = psutil.Process(process.pid)
        for receiver in itself.children(recursive=True) or [itself]:
            with contextlib.suppress(psutil.NoSuchProcess):
                receiver.send_signal(signum)
