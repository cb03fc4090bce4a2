"""`ckpt-bench clean`: remove the files that killed runs have left in a target, and say which files stay and why."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from io_bench import interruption
from io_bench.errors import EXIT_FAILED, explained_io_errors, reason_of
from io_bench.target.address import checked_target
from io_bench.target.places import RunPlace, place_of, places_in
from io_bench.target.run_place import dismantle
from io_bench.target.target import Target
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput
from sizing.units import bytes_text, counted_text, decimal_bytes_text


def clean_target(target: str, run_id: str | None, terminal: Terminal, *, is_dry: bool) -> int:
    """Remove what killed runs have left in a target, or one run's checkpoint; return the exit code.

    Raises InvalidInput where the target does not exist and where the run does not exist or is running, RunFailed where
    the target cannot be read.
    """
    checked = checked_target(target, is_first=True)
    with explained_io_errors(f"looking at {checked.title}", rank=0):
        places = places_in(checked) if run_id is None else [_find_place(checked, run_id)]
    if not places:
        terminal.show(f"No files of runs in {checked.title}.")
        return 0
    terminal.show(_places_table(places))
    removable = [place for place in places if place.state == "left" or run_id is not None]
    for place in places:
        if place not in removable:
            remedy = f" Remove it with --run-id {place.run_id}." if place.state == "kept" else ""
            terminal.say(f"{place.title} not removed: {place.reason}.{remedy}")
    if not removable:
        terminal.show("Nothing to remove.")
        return 0
    if is_dry:
        terminal.show(f"Would remove {_summary(removable)}. Nothing was changed.")
        return 0
    complaints: list[str] = []
    for place in removable:
        interruption.heed()
        complaints += _remove_place(checked, place)
    for complaint in complaints:
        terminal.say(complaint)
    if complaints:
        return EXIT_FAILED
    terminal.show(f"Removed {_summary(removable)}.")
    return 0


def _find_place(target: Target, run_id: str) -> RunPlace:
    """Find the place of a run by its id. Raises InvalidInput unless it may be removed."""
    if run_id not in target.run_ids():
        remedy = "`ckpt-bench clean --dry-run` lists what is there"
        raise InvalidInput.of("--run-id", f"must be a run with files in {target.title}", value=run_id, remedy=remedy)
    place = place_of(target, run_id)
    if place.state in ("running", "unknown"):
        rule = f"must be a run whose files may be removed ({place.reason})"
        raise InvalidInput.of("--run-id", rule, value=run_id, remedy="wait until it ends, or check the files yourself")
    return place


def _places_table(places: Sequence[RunPlace]) -> Table:
    """Table of the runs that have left files, one row for each."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("run", no_wrap=True)
    for column in ("by", "started", "files", "size", "state"):
        table.add_column(column, justify="right" if column in ("files", "size") else "left")
    for place in places:
        manifest = place.manifest
        table.add_row(
            place.run_id,
            f"{manifest.user}@{manifest.host}" if manifest else "?",
            f"{manifest.created:%Y-%m-%d %H:%MZ}" if manifest else "?",
            f"{len(place.names):,}",
            decimal_bytes_text(place.num_bytes),
            place.state,
        )
    return table


def _remove_place(target: Target, place: RunPlace) -> list[str]:
    """Remove a place, unless its run has come to life; return what went wrong, if anything.

    First the files that its manifest names, then the manifest, then the place.
    """
    try:
        if place_of(target, place.run_id).state == "running":
            return [f"{place.title} not removed: its run is running again."]
        files = target.open_run(place.run_id)
    except FileNotFoundError:
        return []
    except OSError as error:
        interruption.heed()
        return [f"{place.title} could not be removed: {reason_of(error)}."]
    try:
        return dismantle(files, place.manifest.files if place.manifest else [])
    finally:
        files.close()


def _summary(places: Sequence[RunPlace]) -> str:
    size = bytes_text(sum(place.num_bytes for place in places))
    return f"the files of {counted_text(len(places), 'run')}, {size}"
