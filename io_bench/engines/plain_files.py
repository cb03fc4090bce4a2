"""A file written in order and made durable, as plain libraries write: each step is a phase."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from io_bench.engines.phases import Phases
from io_bench.target.run_files import RunFiles


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
