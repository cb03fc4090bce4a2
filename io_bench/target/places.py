"""Places of runs inside a target: the manifest that says whose one is, and the touches that show that its run lives."""

from __future__ import annotations

import contextlib
import datetime
import math
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import psutil
from pydantic import AfterValidator, AwareDatetime, Field, ValidationError

from io_bench.target.target import RunFiles, Target
from sizing.strict_model import StrictModel
from sizing.units import seconds_text

MANIFEST = "ckpt-bench.json"

Owner = Literal["running", "ended", "elsewhere"]


def _check_plain_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError("a file of a run has a plain name")
    return name


class Manifest(StrictModel):
    """The owner of a run, and every file that it may have written.

    `process_table` tells where `pid` means the process that it meant: one boot of one machine, or one container.
    """

    run_id: str = Field(description="Id of the run; part of the name of its folder.")
    user: str = Field(description="User of the run's first process.")
    host: str = Field(description="Network name of the node on which that process runs.")
    process_table: str = Field(description="Scope in which pid is valid: one boot of one machine, or one container.")
    pid: int = Field(description="Process id of the run's first process.")
    created: AwareDatetime = Field(description="Time at which the run began to write.")
    is_kept: bool = Field(description="Whether the last checkpoint is kept after the run (--keep).")
    files: tuple[Annotated[str, AfterValidator(_check_plain_name)], ...] = Field(
        description="Every file that the run may write."
    )

    @classmethod
    def of_this_process(cls, run_id: str, *, files: Iterable[str], is_kept: bool) -> Manifest:
        """The manifest of a run that this process leads."""
        process = psutil.Process()
        return cls(
            run_id=run_id,
            user=process.username(),
            host=socket.gethostname(),
            process_table=_process_table(),
            pid=process.pid,
            created=datetime.datetime.now(datetime.UTC),
            is_kept=is_kept,
            files=tuple(files),
        )

    @property
    def owner(self) -> Owner:
        """Whether the process that leads the run is running, has ended, or cannot be seen from here."""
        if self.process_table != _process_table():
            return "elsewhere"
        try:
            process = psutil.Process(self.pid)
            is_it = process.create_time() <= self.created.timestamp() + 1
            return "running" if is_it and process.status() != psutil.STATUS_ZOMBIE else "ended"
        except psutil.NoSuchProcess:
            return "ended"


def _process_table() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"


SECONDS_BETWEEN_BEATS = 30.0
"""Pause between two beats. Each is one touch of one file: nothing to storage."""
SECONDS_UNTIL_PRESUMED_DEAD = 10 * SECONDS_BETWEEN_BEATS
"""Longer than storage stands still while a server fails over. Too short would let the files of a living run be removed,
too long only leaves a dead one's lying."""
_SECONDS_TO_STOP = 5.0
"""A beat that hangs on dead storage must not keep the run from ending."""


@contextmanager
def beating(beat: Callable[[], None], *, every_seconds: float = SECONDS_BETWEEN_BEATS) -> Iterator[None]:
    """Call `beat` for the time of the block, in a thread of its own. Where it raises OSError, that was no beat."""
    stopped = threading.Event()

    def keep_beating() -> None:
        while not stopped.wait(every_seconds):
            with contextlib.suppress(OSError):
                beat()

    thread = threading.Thread(target=keep_beating, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(_SECONDS_TO_STOP)


_SECONDS_UNTIL_IN_DOUBT = 2 * SECONDS_BETWEEN_BEATS
"""A beat may be late, or two clocks apart."""

State = Literal["left", "kept", "running", "unknown"]


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The place of a run: `names` are the files in it. `reason` says why the state is what it is.

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
    """List every run's place, by id, without those of runs that end meanwhile. Raises OSError."""
    places = []
    for run_id in target.run_ids():
        with contextlib.suppress(FileNotFoundError):
            places.append(place_of(target, run_id))
    return places


def living(target: Target, run_id: str) -> Manifest | None:
    """Read the manifest of a run that is running now; None of one that has ended, or is in doubt. Raises OSError."""
    files = target.open_run(run_id)
    try:
        if not files.exists(MANIFEST):
            return None
        manifest, age_seconds = _read_manifest(files, (MANIFEST,)), files.age_seconds(MANIFEST)
        if manifest is None or (manifest.owner == "elsewhere" and age_seconds > _SECONDS_UNTIL_IN_DOUBT):
            return None
        return manifest if _judge(run_id, manifest, (MANIFEST,), age_seconds)[0] == "running" else None
    finally:
        files.close()


def place_of(target: Target, run_id: str) -> RunPlace:
    """Find one run's place. Raises OSError, FileNotFoundError where there is none."""
    files = target.open_run(run_id)
    try:
        names, age_seconds = tuple(files.names()), files.age_seconds(MANIFEST)
        if not names and math.isinf(age_seconds):
            raise FileNotFoundError(f"{files.title} is gone")
        manifest = _read_manifest(files, names)
        state, reason = _judge(run_id, manifest, names, age_seconds)
        num_bytes = 0
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # a running run has removed it since
                num_bytes += files.num_bytes(name)
        return RunPlace(run_id, files.title, manifest, names, num_bytes, state, reason)
    finally:
        files.close()


def _read_manifest(files: RunFiles, names: tuple[str, ...]) -> Manifest | None:
    if MANIFEST not in names:
        return None
    with files.log.silent(), files.open(MANIFEST) as file:
        try:
            return Manifest.model_validate_json(file.read())
        except ValidationError:
            return None


def _judge(run_id: str, manifest: Manifest | None, names: tuple[str, ...], age_seconds: float) -> tuple[State, str]:
    """Judge the state of a place, with the reason for it."""
    heartbeat = f"its heartbeat is {seconds_text(max(0.0, age_seconds))} old"
    is_silent = age_seconds > SECONDS_UNTIL_PRESUMED_DEAD
    if manifest is None:
        if set(names) - {MANIFEST}:
            return "unknown", "it has no manifest"
        return (
            ("left", f"it has no files yet, and {heartbeat}") if is_silent else ("running", f"it is new: {heartbeat}")
        )
    if manifest.run_id != run_id:
        return "unknown", f"its manifest is of run {manifest.run_id}"
    if manifest.owner == "elsewhere" and not is_silent:
        return "running", f"process {manifest.pid} on {manifest.host} is not visible from here, and {heartbeat}"
    if manifest.owner == "running":
        return "running", f"process {manifest.pid} is alive"
    return ("kept", "it was run with --keep") if manifest.is_kept else ("left", heartbeat)
