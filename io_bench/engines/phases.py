"""Phases: the seconds that each step of one rank's write or restore took, and a file that is written in such steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from io_bench.target.target import RunFiles


class Phases:
    """Seconds by the name of the phase, in the order of their first entry; what comes again is added."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what runs within."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def write_durably(files: RunFiles, name: str, write: Callable[[BinaryIO], None], phases: Phases) -> None:
    """Create a file, have it written, flush and fsync it, and close it; its name becomes durable with `files.sync`.

    Raises OSError.
    """
    with phases.phase("create"):
        file = files.create(name)
    with file:
        with phases.phase("write"):
            write(file)
            file.flush()
        with phases.phase("fsync"):
            files.persist(file)
        with phases.phase("close"):
            file.close()
