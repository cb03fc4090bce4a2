"""Work in forks of this process, a few at a time."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Work:
    """What to do, whose result is an exit status, and after how much CPU time to end it."""

    run: Callable[[], int]
    max_seconds: int


def forked(works: Sequence[Work], *, num_processes: int) -> Iterator[tuple[int, int]]:
    """The place of each piece of work and its exit status, negative for a signal, in the order in which they end."""
    places: dict[int, int] = {}
    with _temporary_folder() as folder:
        for place, work in enumerate(works):
            if len(places) == num_processes:
                yield _ended(places)
            places[_start(work, folder / str(place))] = place
        while places:
            yield _ended(places)


def _start(work: Work, folder: Path) -> int:
    """The id of the process."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            _settle(work, folder)
            status = work.run()
        finally:
            os._exit(status)
    return pid


def _settle(work: Work, folder: Path) -> None:
    """Give the process its own folder for temporary files, and its limit; what it prints goes nowhere."""
    folder.mkdir()
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
    resource.setrlimit(resource.RLIMIT_CPU, (work.max_seconds, work.max_seconds + 1))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _ended(places: dict[int, int]) -> tuple[int, int]:
    while True:
        pid, status = os.wait()
        if pid in places:
            return places.pop(pid), os.waitstatus_to_exitcode(status)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
