"""The places that runs have in a target, and which of them were left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from io_bench.target.lifecycle.heartbeat import SECONDS_UNTIL_PRESUMED_DEAD
from io_bench.target.lifecycle.manifest import MANIFEST, Manifest
from io_bench.target.run_files import RunFiles
from io_bench.target.target import Target
from sizing.units import seconds_text

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
    """Every run's place, by id. Raises OSError."""
    return [place_of(target, run_id) for run_id in target.run_ids()]


def place_of(target: Target, run_id: str) -> RunPlace:
    """One run's place. Raises OSError, FileNotFoundError where there is none."""
    files = target.seen(run_id)
    try:
        names = tuple(files.names())
        manifest = _manifest_in(files, names)
        state, reason = _judged(run_id, manifest, names, files.age_seconds(MANIFEST))
        return RunPlace(run_id, files.title, manifest, names, sum(map(files.num_bytes, names)), state, reason)
    finally:
        files.close()


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
