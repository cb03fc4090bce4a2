"""Removing what a run has left: the files that its manifest names, then the manifest, then the place."""

from __future__ import annotations

from io_bench.cleaning.leftovers import RunPlace, place_of
from io_bench.errors import reason_of
from io_bench.target.dismantling import dismantled
from io_bench.target.target import Target


def removed(target: Target, place: RunPlace) -> list[str]:
    """Remove a place, unless its run has come to life; what went wrong, if anything."""
    try:
        if place_of(target, place.run_id).state == "running":
            return [f"{place.title} is left in place: its run has come to life."]
        files = target.seen(place.run_id)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"{place.title} could not be removed: {reason_of(error)}."]
    try:
        return dismantled(files, place.manifest.files if place.manifest else [])
    finally:
        files.close()
