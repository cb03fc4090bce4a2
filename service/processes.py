"""How the service starts processes of its own, and how they end where it is gone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

SPAWNING = multiprocessing.get_context("spawn")
"""Never forked: a fork copies the locks of threads that it does not copy, and a locked one is never released."""


def end_with_parent() -> None:
    """Let this process get SIGTERM when its parent is gone, however that came."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
