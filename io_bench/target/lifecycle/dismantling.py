"""Taking a run's files away again: each rank its own, rank 0 or the survivors the rest. Never recursively."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable

from io_bench.errors import reason_of
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.lifecycle.manifest import MANIFEST
from io_bench.target.run_files import RunFiles

FilesOf = Callable[[int], Iterable[str]]
"""The files that a rank makes. Asked for the ranks that are lost, and on rank 0 for all."""

_NAMES_SHOWN = 5
"""In a sentence; the others are dots."""
# So many survivors look after what lost ranks leave: more would storm the storage.
_NUM_SWEEPERS = 8
_SECONDS_TO_SWEEP = 5.0
"""Within MAX_FAREWELL_SECONDS; what is left is named, with the command that removes it."""
_SECONDS_BETWEEN_SWEEPS = 0.2
"""Between two looks for what lost ranks still make."""
_REMEDY = "Remove it with `ckpt-bench clean`."


def cleared(files: RunFiles) -> list[str]:
    """Remove this rank's files; what went wrong, if anything."""
    try:
        files.remove_created()
    except OSError as error:
        return [f"Files in {files.title} could not be removed: {reason_of(error)}."]
    return []


def orphans_of(files_of: FilesOf, group: ProcessGroup) -> list[str]:
    """The files that lost ranks may have left."""
    return [name for rank in group.ending.lost for name in files_of(rank)]


def dismantled(files: RunFiles, orphans: Collection[str]) -> list[str]:
    """Remove the `orphans`, the manifest and the place; what went wrong, if anything.

    A place with other files in it stays, with its manifest; so does one that keeps evidence.
    """
    try:
        files.remove_of_lost(orphans)
        others = _others(files)
        foreign = [name for name in others if name not in files.kept]
        if foreign:
            names = ", ".join(foreign[:_NAMES_SHOWN]) + (", ..." if len(foreign) > _NAMES_SHOWN else "")
            return [f"{files.title} was not removed: it holds {names}, which this run did not create."]
        if others:
            return [f"{files.title} has the files that did not come back as written. {_REMEDY}"]
        files.remove([MANIFEST])
        files.unmake()
    except OSError as error:
        return [f"{files.title} could not be removed: {reason_of(error)}."]
    return []


def dismantled_by_survivors(files: RunFiles, files_of: FilesOf, group: ProcessGroup) -> list[str]:
    """Do what rank 0 would have done, together with other survivors: the last of them to look finds nothing else.

    For ranks that cannot ask who is left: rank 0 is lost, or the store through which they met.
    """
    deadline = time.monotonic() + _SECONDS_TO_SWEEP
    orphans = orphans_of(files_of, group)
    try:
        while files.exists(MANIFEST) and time.monotonic() < deadline:
            if group.rank <= _NUM_SWEEPERS:
                files.remove_of_lost(orphans)
                if not _others(files):
                    files.remove([MANIFEST])
                    files.unmake()
            time.sleep(_SECONDS_BETWEEN_SWEEPS)
        is_gone = not files.exists(MANIFEST)
    except FileNotFoundError:
        is_gone = True
    except OSError:
        is_gone = False
    return [] if is_gone else [f"{files.title} was not removed: some of its ranks are lost. {_REMEDY}"]


def _others(files: RunFiles) -> list[str]:
    return [name for name in files.names() if name != MANIFEST]
