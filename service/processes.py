"""Processes of the service: how they start, and how they end when the service is gone."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import threading
from multiprocessing.connection import wait

SPAWNING = multiprocessing.get_context("spawn")
"""For a worker, which is the service anew. It is not forked off the service: a fork copies the locks of threads that it
does not copy, and a locked one is never released."""
COMPUTING = multiprocessing.get_context("forkserver")
"""For heavy questions: forked off a process without threads of its own that has loaded all that answers take, and so
there within 30 ms, where loading it takes 2 s of a processor."""
COMPUTING.set_forkserver_preload(["service.answers.heavy", "service.cli.main"])


def end_with_parent() -> None:
    """Send this process SIGTERM when its parent is gone, for whatever reason."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait_for_end() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait_for_end, daemon=True).start()


def limit_memory(max_bytes: int) -> None:
    """Limit the memory that this process can allocate. Beyond it allocations fail with MemoryError.

    It is the soft limit, which processes that this one starts inherit and may raise to their own.
    """
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (max_bytes if most < 0 else min(max_bytes, most), most))
