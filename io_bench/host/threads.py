"""What the scheduler did with the threads of this process: how long each ran, and how long it waited for a CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_TASKS = Path("/proc/self/task")
_NANOSECONDS = 1e9
_PAUSE_FRACTION = 0.1
"""Of the time so far, between two looks: a thread that ends takes its counts along, a tenth of the time at most."""
_MIN_PAUSE_SECONDS = 0.01
_MAX_PAUSE_SECONDS = 0.25
"""A look reads a line for each thread, some 10 us: with 20 threads less than a thousandth of one CPU."""
_MAX_THREADS = 64
"""With more, as where many ranks are threads of one process, a look would cost what it is to measure."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """Of one thread: it ran, or it was ready to run and had no CPU. The rest of its time it waited for something else.

    Time for which a control group is throttled counts as time without a CPU.
    """

    running_seconds: float
    delay_seconds: float

    @property
    def ready_seconds(self) -> float:
        """Time in which it needed a CPU, whether it had one or not."""
        return self.running_seconds + self.delay_seconds

    def since(self, earlier: ThreadTime) -> ThreadTime:
        """What was added since then."""
        return ThreadTime(self.running_seconds - earlier.running_seconds, self.delay_seconds - earlier.delay_seconds)


class ThreadWatch:
    """Watches the threads of this process, those too that begin and end meanwhile; not its own, and not very many."""

    def __init__(self) -> None:
        self._is_on = _num_threads() <= _MAX_THREADS
        self._before = dict(_thread_times()) if self._is_on else {}
        self._now = dict(self._before)
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="thread-watch", daemon=True)

    @property
    def busiest(self) -> ThreadTime | None:
        """The thread that needed a CPU for most of the time; None where that is not counted."""
        none = ThreadTime(0.0, 0.0)
        times = [now.since(self._before.get(thread, none)) for thread, now in self._now.items()]
        return max(times, key=lambda each: each.ready_seconds, default=None)

    def __enter__(self) -> Self:
        if self._is_on:
            self._watcher.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_on:
            self._ended.set()
            self._watcher.join()
            self._look()

    def _watch(self) -> None:
        started, pause = time.monotonic(), _MIN_PAUSE_SECONDS
        while not self._ended.wait(pause):
            self._look()
            elapsed = time.monotonic() - started
            pause = min(max(_PAUSE_FRACTION * elapsed, _MIN_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)

    def _look(self) -> None:
        self._now.update((thread, found) for thread, found in _thread_times() if thread != self._watcher.native_id)


def _num_threads() -> int:
    """Source: linux, fs/proc/base.c, proc_task_getattr: the folder of tasks has a link for each, and two more."""
    return _TASKS.stat().st_nlink - 2


def _thread_times() -> Iterator[tuple[int, ThreadTime]]:
    """Of every thread that there is, by its number; none where the kernel does not count.

    Source: linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat: nanoseconds on a CPU, nanoseconds on
    a run queue, and time slices.
    """
    for thread in _TASKS.iterdir():
        try:
            running, delay, _ = (thread / "schedstat").read_text().split()
        except OSError:  # it has ended, or the kernel has no such file
            continue
        yield int(thread.name), ThreadTime(int(running) / _NANOSECONDS, int(delay) / _NANOSECONDS)
