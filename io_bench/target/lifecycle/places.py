"""The places that runs have in a target, and which of them were left behind."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from io_bench.target.lifecycle.heartbeat import SECONDS_BETWEEN_BEATS, SECONDS_UNTIL_PRESUMED_DEAD
from io_bench.target.lifecycle.manifest import MANIFEST, Manifest
from io_bench.target.run_files import RunFiles
from io_bench.target.target import Target
from sizing.units import seconds_text

_SECONDS_UNTIL_IN_DOUBT = 2 * SECONDS_BETWEEN_BEATS
"""A beat may be late, or two clocks apart."""

State = Literal["left", "kept", "running", "unknown"]


@dataclass(frozen=True, slots=True)
class RunPlace:
    """A run's place as it was found: `names` are what is in it. `reason` says why the state is what it is.

    `manifest` is None where there is none, as of a run that was killed before it had written it.
    """

    run_id: str
    title: str
    manifest: Manifest | None
    names: tuple[str, ...]
    num_bytes: int
    state: State
    reason: str


def places_in(target: Target) -> list[RunPlace]:
    """Every run's place, by id, without those of runs that end meanwhile. Raises OSError."""
    places = []
    for run_id in target.run_ids():
        with contextlib.suppress(FileNotFoundError):
            places.append(place_of(target, run_id))
    return places


def living(target: Target, run_id: str) -> Manifest | None:
    """The manifest of a run that is running now; None of one that has ended, or that is in doubt. Raises OSError."""
    files = target.seen(run_id)
    try:
        if not files.exists(MANIFEST):
            return None
        manifest, age_seconds = _manifest_in(files, (MANIFEST,)), files.age_seconds(MANIFEST)
        if manifest is None or (manifest.owner == "elsewhere" and age_seconds > _SECONDS_UNTIL_IN_DOUBT):
            return None
        return manifest if _judged(run_id, manifest, (MANIFEST,), age_seconds)[0] == "running" else None
    finally:
        files.close()


def place_of(target: Target, run_id: str) -> RunPlace:
    """One run's place. Raises OSError, FileNotFoundError where there is none."""
    files = target.seen(run_id)
    try:
        names, age_seconds = tuple(files.names()), files.age_seconds(MANIFEST)
        if not names and math.isinf(age_seconds):
            raise FileNotFoundError(f"{files.title} is gone")
        manifest = _manifest_in(files, names)
        state, reason = _judged(run_id, manifest, names, age_seconds)
        num_bytes = sum(_num_bytes(files, name) for name in names)
        return RunPlace(run_id, files.title, manifest, names, num_bytes, state, reason)
    finally:
        files.close()


def _num_bytes(files: RunFiles, name: str) -> int:
    """The size of a file; 0 of one that a running run has removed since it was listed."""
    try:
        return files.num_bytes(name)
    except FileNotFoundError:
        return 0


def _manifest_in(files: RunFiles, names: tuple[str, ...]) -> Manifest | None:
    if MANIFEST not in names:
        return None
    with files.open(MANIFEST) as file:
        try:
            return Manifest.model_validate_json(file.read())
        except ValidationError:
            return None


def _judged(run_id: str, manifest: Manifest | None, names: tuple[str, ...], age_seconds: float) -> tuple[State, str]:
    """The state of a place, and the reason for it."""
    seen = f"its heartbeat is {seconds_text(max(0.0, age_seconds))} old"
    is_silent = age_seconds > SECONDS_UNTIL_PRESUMED_DEAD
    if manifest is None:
        if set(names) - {MANIFEST}:
            return "unknown", "it has no manifest"
        return ("left", f"it has no files yet, and {seen}") if is_silent else ("running", f"it is new: {seen}")
    if manifest.run_id != run_id:
        return "unknown", f"its manifest is of run {manifest.run_id}"
    if manifest.owner == "elsewhere" and not is_silent:
        return "running", f"process {manifest.pid} on {manifest.host} is not visible from here, and {seen}"
    if manifest.owner == "running":
        return "running", f"process {manifest.pid} is alive"
    return ("kept", "it was run with --keep") if manifest.is_kept else ("left", seen)
