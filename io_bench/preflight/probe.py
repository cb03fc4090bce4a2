"""The place inside a target directory where things are tried."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def probe_directory(target: Path) -> Iterator[Path]:
    """A new directory in the target, gone afterwards with the files that were put straight into it.

    Raises OSError where it cannot be made or removed.
    """
    path = target / f".ckpt-bench-check-{secrets.token_hex(4)}"
    path.mkdir()
    try:
        yield path
    finally:
        for file in path.iterdir():
            file.unlink()
        path.rmdir()
