"""What a Dask worker does with a chunk: a process of its own computes it, within the limits of processes elsewhere.

So a chunk that takes too much costs its process and not the worker, beside which others compute.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import pickle
import platform
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import executors
import sizing
from executors.local import SentChunk, start_processes
from executors.window import ChunkLimits, ClusterFailed
from executors.worker import ComputedChunk
from sizing.questions.chunks import ItemRange
from sizing.version import __version__

if TYPE_CHECKING:
    from pebble import ProcessPool

TOPIC = "checkpoint-sizing chunks"
"""Of Dask's events: that a worker begins a chunk, and that it ends it."""
_SECONDS_IDLE = 30.0
"""Time without a chunk of a question after which its processes end."""
_PROGRAM = "checkpoint-sizing"


class Terms(NamedTuple):
    """What a worker needs beside a chunk: its question, whom to blame, the versions it must have, and the limits."""

    question: str
    field: str
    """What names the scheduler, in sentences."""
    versions: dict[str, str]
    limits: ChunkLimits


class ComputedPart(NamedTuple):
    """A part, and of which chunk of which question it is; None for a chunk that nobody wants any more."""

    question: str
    chunk: ItemRange
    computed: ComputedChunk | None


@functools.cache
def find_versions() -> dict[str, str]:
    """Find the versions on which the bits of an answer depend; this project's with a digest of its files."""
    digest = hashlib.sha256()
    for package in (executors, sizing):
        folder = Path(package.__path__[0])
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    python = ".".join(platform.python_version_tuple()[:2])
    return {
        _PROGRAM: f"{__version__}+{digest.hexdigest()[:8]}",
        "Python": python,
        **{name: version(name) for name in ("numpy", "scipy", "pydantic")},
    }


def require_same_versions(terms: Terms, worker: str) -> None:
    """Require the versions of who asks. Raises ClusterFailed that names the first that differs."""
    here = find_versions()
    for name, wanted in terms.versions.items():
        if here.get(name) != wanted:
            rule = f"must have workers with {name} {wanted}, as here"
            remedy = "install the same version of this project and of its libraries on both"
            raise ClusterFailed.of(terms.field, rule, value=f"{here.get(name)} on {worker}", remedy=remedy)


def compute_on_worker(order: bytes, maker: bytes) -> ComputedPart:
    """Compute a chunk as a task of Dask; `order` pickles the terms and its range.

    Raises InvalidInput as the chunk does, and where it takes too much.
    """
    from distributed import get_worker  # noqa: PLC0415 - an extra

    worker = get_worker()
    terms, chunk = pickle.loads(order)  # noqa: S301 - of who asks, who may have workers run anything
    require_same_versions(terms, worker.address)
    key, num_threads = worker.get_current_task(), worker.state.nthreads
    memory = worker.memory_manager.memory_limit
    max_bytes = min(terms.limits.max_bytes, memory // num_threads) if memory else terms.limits.max_bytes
    limits = terms.limits._replace(max_bytes=max_bytes)

    def tell(begun: int) -> None:
        worker.log_event(TOPIC, {"question": terms.question, "chunk": list(chunk), "begun": begun})

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state != "cancelled"

    computed: ComputedChunk | None
    tell(1)
    try:
        with hold_processes(f"{worker.id} {terms.question}", num_threads, limits, maker) as pool:
            computed = SentChunk(pool, maker, limits, chunk).receive(is_wanted)
    except CancelledError:
        computed = None
    finally:
        tell(-1)
    return ComputedPart(terms.question, chunk, computed)


class _Processes:
    """Processes for one question: how many chunks they compute, and who ends them when there is none for a while."""

    def __init__(self, num_processes: int, limits: ChunkLimits, maker: bytes) -> None:
        # A worker of a nanny is a daemon, whose processes would be refused; they end with it (`begin`).
        multiprocessing.current_process().daemon = False
        self._stack = ExitStack()
        self.pool: ProcessPool = self._stack.enter_context(start_processes(num_processes, limits, maker))
        self.num_chunks = 0
        self.close = self._stack.close


_OPEN: dict[str, _Processes] = {}
_LOCK = threading.Lock()


@contextmanager
def hold_processes(name: str, *how: Any) -> Iterator[ProcessPool]:
    """Hold the processes of a question on a worker while a chunk needs them."""
    with _LOCK:
        opened = _OPEN[name] = _OPEN.get(name) or _Processes(*how)
        opened.num_chunks += 1
    try:
        yield opened.pool
    finally:
        with _LOCK:
            opened.num_chunks -= 1
        timer = threading.Timer(_SECONDS_IDLE, end_idle, (name, opened))
        timer.daemon = True
        timer.start()


def end_idle(name: str, opened: _Processes) -> None:
    """End processes that have had no chunk for a while."""
    with _LOCK:
        if opened.num_chunks or _OPEN.get(name) is not opened:
            return
        del _OPEN[name]
    opened.close()
