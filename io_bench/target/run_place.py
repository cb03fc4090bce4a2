"""The place of one run in a target, from making it to removing it, and the other runs that were seen beside it.

Each rank removes its own files; rank 0 or the survivors remove the rest. Nothing is removed recursively.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from io_bench import interruption
from io_bench.errors import RunFailed, explained_io_errors, reason_of
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.places import MANIFEST, Manifest, beating, living
from io_bench.target.target import RunFiles, Target

FilesOf = Callable[[int], Iterable[str]]
"""The files that a rank makes. Asked for the ranks that are lost, and on rank 0 for all."""

_NAMES_SHOWN = 5
"""Max names in a sentence; the others are dots."""
# So many survivors look after what lost ranks leave: more would storm the storage.
_NUM_SWEEPERS = 8
_SECONDS_TO_SWEEP = 5.0
"""Within MAX_FAREWELL_SECONDS; what is left is named, with the command that removes it."""
_SECONDS_BETWEEN_SWEEPS = 0.2
"""Pause between two looks for files that lost ranks still make."""
_REMEDY = "Remove it with `ckpt-bench clean`."


def remove_files(files: RunFiles) -> list[str]:
    """Remove this rank's files; return what went wrong, if anything."""
    try:
        files.remove_created()
    except OSError as error:
        return [f"Files in {files.title} could not be removed: {reason_of(error)}."]
    return []


def orphans_of(files_of: FilesOf, group: ProcessGroup) -> list[str]:
    """List the files that lost ranks may have left."""
    return [name for rank in group.ending.lost for name in files_of(rank)]


def dismantle(files: RunFiles, orphans: Collection[str]) -> list[str]:
    """Remove the `orphans`, the manifest and the place; return what went wrong, if anything.

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


def dismantle_as_survivor(files: RunFiles, files_of: FilesOf, group: ProcessGroup) -> list[str]:
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


SECONDS_BETWEEN_LOOKS = 5.0
"""A choice: to list the target's entries now and then is nothing to storage, and a shorter run disturbs little."""


class OtherRuns:
    """Other runs that were seen on the target beside one run, on rank 0."""

    def __init__(self, target: Target, run_id: str) -> None:
        self._target = target
        self._run_id = run_id
        self._seen: dict[str, Manifest] = {}

    def look(self) -> None:
        """Look which runs are there now. Raises OSError."""
        for run_id in self._target.run_ids():
            with contextlib.suppress(FileNotFoundError):
                manifest = living(self._target, run_id) if run_id != self._run_id else None
                if manifest:
                    self._seen[run_id] = manifest

    @property
    def notes(self) -> list[str]:
        """Sentences for the result that name the other runs."""
        return [
            f"Run {run_id} of {manifest.user}@{manifest.host} used this target at the same time: each took bandwidth "
            "from the other. Measure again, one after the other."
            for run_id, manifest in self._seen.items()
        ]


@contextmanager
def open_place(
    target: Target, group: ProcessGroup, *, run_id: str, files_of: FilesOf, keep: bool
) -> Iterator[RunFiles]:
    """Open the run's place in the target, on all ranks; afterwards it is gone, unless `keep` and all went well.

    What could not be removed is said in the group's notes. Raises InvalidInput where the target does not
    let it be made, RunFailed where a rank does not see what rank 0 made.
    """
    files: RunFiles | None = None
    is_kept = False
    try:
        with contextlib.ExitStack() as stack:
            if group.rank == 0:
                names = itertools.chain.from_iterable(map(files_of, range(group.num_ranks)))
                manifest = Manifest.of_this_process(run_id, files=names, is_kept=keep)
                files = make_place(target, manifest)
                stack.enter_context(beating(functools.partial(files.touch, MANIFEST)))
                stack.enter_context(_noting_other_runs(OtherRuns(target, run_id), group))
            group.broadcast(None, doing="making the run directory")
            files = files or _open_as_peer(target, run_id, group)
            yield files
        is_kept = keep
    except BaseException as error:
        interruption.ignore()
        group.ending.publish(error)
        raise
    finally:
        interruption.ignore()
        _leave(files, group, files_of, is_kept=is_kept)


@contextmanager
def _noting_other_runs(others: OtherRuns, group: ProcessGroup) -> Iterator[None]:
    """Look for other runs in the target for the time of the block, and note them."""

    def look() -> None:
        with contextlib.suppress(OSError):  # what another run does to its files must not harm this one
            others.look()

    look()
    try:
        with beating(look, every_seconds=SECONDS_BETWEEN_LOOKS):
            yield
    finally:
        look()
        group.ending.notes += others.notes


def _leave(files: RunFiles | None, group: ProcessGroup, files_of: FilesOf, *, is_kept: bool) -> None:
    """Leave the place. Unless it is kept, each rank removes its files, then rank 0, or survivors of it, the rest."""
    ending, doomed = group.ending, None if is_kept else files
    if doomed:
        ending.notes += remove_files(doomed)
    ending.roll_call()
    if doomed and group.rank == 0 and not ending.is_cut_off:
        ending.notes += dismantle(doomed, orphans_of(files_of, group))
    ending.farewell()
    if doomed and (ending.is_cut_off or 0 in ending.lost):
        ending.notes += dismantle_as_survivor(doomed, files_of, group)
    if files:
        files.close()


def make_place(target: Target, manifest: Manifest) -> RunFiles:
    """Make a place in the target with its manifest. Raises InvalidInput, RunFailed where that cannot be."""
    files = target.make_run(manifest.run_id)
    try:
        with explained_io_errors(f"writing {files.location(MANIFEST)}", rank=0), files.create(MANIFEST) as file:
            file.write(manifest.model_dump_json().encode())
        files.disown(MANIFEST)
    except BaseException:
        dismantle(files, [])
        files.close()
        raise
    return files


def _open_as_peer(target: Target, run_id: str, group: ProcessGroup) -> RunFiles:
    """Open the place that rank 0 has made. Raises RunFailed where this rank does not see it."""
    title = target.run_title(run_id)
    try:
        files = target.open_run(run_id)
        with files.open(MANIFEST) as file:
            run_id_there = json.loads(file.read())["run_id"]
    except (OSError, ValueError, KeyError) as error:
        raise _unshared(title, group, f"{type(error).__name__}: {error}") from error
    if run_id_there != run_id:
        files.close()
        raise _unshared(title, group, f"it sees run {run_id_there} there")
    return files


def _unshared(place: str, group: ProcessGroup, reason: str) -> RunFailed:
    title = group.placement.title
    return RunFailed(
        f"{title} does not see {place} as rank 0 created it ({reason}). Check that all nodes mount the same --target."
    )
