"""The verb: look, remove what was left, and say what stays and why."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from io_bench.errors import EXIT_FAILED, explained_io_errors, reason_of
from io_bench.target.address import checked_target
from io_bench.target.lifecycle.dismantling import dismantled
from io_bench.target.lifecycle.places import RunPlace, place_of, places_in
from io_bench.target.target import Target
from io_bench.terminal import Terminal
from sizing.errors import InvalidInput
from sizing.units import bytes_text, decimal_bytes_text


def cleaned(target: str, run_id: str | None, terminal: Terminal, *, is_dry: bool) -> int:
    """Remove what killed runs have left in a target, or one run's checkpoint; the exit code.

    Raises InvalidInput for a target that is none, a run that is not there or is running, RunFailed where the
    target cannot be read.
    """
    checked = checked_target(target, is_first=True)
    with explained_io_errors(f"looking at {checked.title}", rank=0):
        places = places_in(checked) if run_id is None else [_named(checked, run_id)]
    if not places:
        terminal.show(f"No files of runs in {checked.title}.")
        return 0
    terminal.show(_places_table(places))
    chosen = [place for place in places if place.state == "left" or run_id is not None]
    _explain_others(places, chosen, terminal)
    if not chosen:
        terminal.show("Nothing to remove.")
        return 0
    if is_dry:
        terminal.show(f"Would remove {_summary(chosen)}. Nothing was changed.")
        return 0
    return _remove(checked, chosen, terminal)


def _remove(target: Target, places: Sequence[RunPlace], terminal: Terminal) -> int:
    """Remove the files of runs and say so, or what went wrong; the exit code."""
    complaints = [complaint for place in places for complaint in _removed(target, place)]
    for complaint in complaints:
        terminal.say(complaint)
    if not complaints:
        terminal.show(f"Removed {_summary(places)}.")
    return EXIT_FAILED if complaints else 0


def _named(target: Target, run_id: str) -> RunPlace:
    """The place of a run that was asked for by its id. Raises InvalidInput unless it may be removed."""
    if run_id not in target.run_ids():
        remedy = "`ckpt-bench clean --dry-run` lists what is there"
        raise InvalidInput.of("--run-id", f"must be a run with files in {target.title}", value=run_id, remedy=remedy)
    place = place_of(target, run_id)
    if place.state in ("running", "unknown"):
        rule = f"must be a run whose files may be removed ({place.reason})"
        raise InvalidInput.of("--run-id", rule, value=run_id, remedy="wait until it ends, or check the files yourself")
    return place


def _places_table(places: Sequence[RunPlace]) -> Table:
    """One row per run."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("run", no_wrap=True)
    for column in ("by", "started"):
        table.add_column(column)
    for column in ("files", "size"):
        table.add_column(column, justify="right")
    table.add_column("state")
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


def _removed(target: Target, place: RunPlace) -> list[str]:
    """Remove a place, unless its run has come to life; what went wrong, if anything.

    First the files that its manifest names, then the manifest, then the place.
    """
    try:
        if place_of(target, place.run_id).state == "running":
            return [f"{place.title} not removed: its run is running again."]
        files = target.seen(place.run_id)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{place.title} could not be removed: {reason_of(error)}."]
    try:
        return dismantled(files, place.manifest.files if place.manifest else [])
    finally:
        files.close()


def _explain_others(places: Sequence[RunPlace], chosen: Sequence[RunPlace], terminal: Terminal) -> None:
    for place in places:
        if place not in chosen:
            remedy = f" Remove it with --run-id {place.run_id}." if place.state == "kept" else ""
            terminal.say(f"{place.title} not removed: {place.reason}.{remedy}")


def _summary(places: Sequence[RunPlace]) -> str:
    runs = "1 run" if len(places) == 1 else f"{len(places)} runs"
    return f"the files of {runs}, {bytes_text(sum(place.num_bytes for place in places))}"
