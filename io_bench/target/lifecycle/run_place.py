"""The place of one run inside the target, from making it to removing it.

Rank 0 makes the place and puts a manifest in it that names run and owner; every rank creates files there and
removes those that it created; rank 0 removes the manifest and the place last. Nothing is removed recursively.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager

from io_bench import interruption
from io_bench.errors import RunFailed, explained_io_errors
from io_bench.ranks.process_group import ProcessGroup
from io_bench.target.lifecycle.company import SECONDS_BETWEEN_LOOKS, Company
from io_bench.target.lifecycle.dismantling import FilesOf, cleared, dismantled, dismantled_by_survivors, orphans_of
from io_bench.target.lifecycle.heartbeat import beating
from io_bench.target.lifecycle.manifest import MANIFEST, Manifest
from io_bench.target.run_files import RunFiles
from io_bench.target.target import Target


@contextmanager
def opened(target: Target, group: ProcessGroup, *, run_id: str, files_of: FilesOf, keep: bool) -> Iterator[RunFiles]:
    """The run's place in the target, on all ranks; afterwards it is gone, unless `keep` and all went well.

    What could not be removed is said in the group's notes. Raises InvalidInput where the target does not
    let it be made, RunFailed where a rank does not see what rank 0 made.
    """
    files: RunFiles | None = None
    is_kept = False
    try:
        with contextlib.ExitStack() as led:
            if group.rank == 0:
                names = itertools.chain.from_iterable(map(files_of, range(group.num_ranks)))
                manifest = Manifest.of_this_process(run_id, files=names, is_kept=keep)
                with interruption.held_back():  # between its making and its name here, the place would be forgotten
                    files = made(target, manifest)
                led.enter_context(beating(functools.partial(files.touch, MANIFEST)))
                led.enter_context(_in_company(Company(target, run_id), group))
            group.told(None, doing="making the run directory")
            files = files or _seen(target, run_id, group)
            yield files
        is_kept = keep
    except BaseException as error:
        group.ending.publish(error)
        raise
    finally:
        interruption.ignore()
        _left(files, group, files_of, is_kept=is_kept)


@contextmanager
def _in_company(company: Company, group: ProcessGroup) -> Iterator[None]:
    """Look for other runs in the target for the time of the block, and note them."""

    def look() -> None:
        with contextlib.suppress(OSError):  # what another run does to its files must not harm this one
            company.look()

    look()
    try:
        with beating(look, every_seconds=SECONDS_BETWEEN_LOOKS):
            yield
    finally:
        look()
        group.ending.notes += company.notes


def _left(files: RunFiles | None, group: ProcessGroup, files_of: FilesOf, *, is_kept: bool) -> None:
    """Leave the place: unless it is kept, each rank removes its files, then rank 0 the rest, or who survives it."""
    ending, doomed = group.ending, None if is_kept else files
    if doomed:
        ending.notes += cleared(doomed)
    ending.roll_call()
    if doomed and group.rank == 0 and not ending.is_cut_off:
        ending.notes += dismantled(doomed, orphans_of(files_of, group))
    ending.farewell()
    if doomed and (ending.is_cut_off or 0 in ending.lost):
        ending.notes += dismantled_by_survivors(doomed, files_of, group)
    if files:
        files.close()


def made(target: Target, manifest: Manifest) -> RunFiles:
    """A place in the target with its manifest. Raises InvalidInput, RunFailed where that cannot be."""
    files = target.made(manifest.run_id)
    try:
        with explained_io_errors(f"writing {files.location(MANIFEST)}", rank=0), files.create(MANIFEST) as file:
            file.write(manifest.model_dump_json().encode())
        files.disown(MANIFEST)
    except BaseException:
        dismantled(files, [])
        files.close()
        raise
    return files


def _seen(target: Target, run_id: str, group: ProcessGroup) -> RunFiles:
    """Rank 0's place as another rank sees it."""
    title = target.run_title(run_id)
    try:
        files = target.seen(run_id)
        with files.open(MANIFEST) as file:
            found = json.loads(file.read())["run_id"]
    except (OSError, ValueError, KeyError) as error:
        raise _unshared(title, group, f"{type(error).__name__}: {error}") from error
    if found != run_id:
        files.close()
        raise _unshared(title, group, f"it sees run {found} there")
    return files


def _unshared(place: str, group: ProcessGroup, reason: str) -> RunFailed:
    title = group.placement.title
    return RunFailed(
        f"{title} does not see {place} as rank 0 created it ({reason}). Check that all nodes mount the same --target."
    )
