"""The place inside a target where things are tried: like a run's, so that `ckpt-bench clean` finds it too."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from io_bench.errors import RunFailed
from io_bench.target.lifecycle.dismantling import dismantled
from io_bench.target.lifecycle.manifest import Manifest
from io_bench.target.lifecycle.run_place import made
from io_bench.target.run_files import RunFiles
from io_bench.target.target import Target

SMALL_BYTES = 4096
"""What is tried as a small file or object: a page."""


@contextmanager
def probe_in(target: Target, *, names: Collection[str]) -> Iterator[RunFiles]:
    """A new place, gone afterwards with the files called `names`.

    Raises InvalidInput where it cannot be made, RunFailed where it cannot be removed.
    """
    manifest = Manifest.of_this_process(f"check-{secrets.token_hex(4)}", files=names, is_kept=False)
    files = made(target, manifest)
    try:
        yield files
    finally:
        complaints = dismantled(files, names)
        files.close()
    if complaints:
        raise RunFailed(" ".join(complaints))
