"""The answer of `ckpt-bench observe`, and how it is found."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from io_bench.observation.file_times import FileTimes, listed
from io_bench.observation.model import Comparison, compared, found_scenario, run_scenario
from io_bench.observation.saves import Save, saves_of
from io_bench.observation.timeline import Timeline
from io_bench.repetition.spread import stragglers
from io_bench.target.address import is_url
from sizing.checkpoint_files import CheckpointContents, contents_of
from sizing.checkpoint_files.folder_layouts import layouts_of
from sizing.errors import UnreadableFile
from sizing.units import SECONDS_PER_DAY, counted_text

Times = Literal["birth and modification", "modification"]


class ObservedSave(BaseModel):
    """The files of one step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: int = Field(description="Training step, or epoch, by the name of the folder or file.")
    place: str = Field(description="Folder or file that holds it, by its path below what was observed.")
    num_files: int = Field(description="Files that were found in it.")
    num_bytes: int = Field(description="Bytes of all these files.")
    num_writers: int = Field(description="Ranks that wrote training state, by the names of files.")
    started_at_seconds: float = Field(
        description="Seconds since 1970 at which its first file was created, or changed where no births are known."
    )
    seconds: float = Field(description="Seconds from there to the last change of a file: of a write, the min.")
    is_finished: bool = Field(description="Whether torch DCP committed it; true of other formats, which do not tell.")
    was_written_again: bool = Field(description="Whether a later attempt wrote over its files.")


class ObservedStop(BaseModel):
    """A stretch of time between two saves that did not bring the run forward: a failure, or a pause."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    after_step: int = Field(description="Step that was saved last before the run stopped.")
    before_step: int = Field(description="Step that was saved first after it.")
    lost_seconds: float = Field(description="Seconds beyond those that the steps between take.")
    redone_steps: int = Field(description="Training steps that were surely taken twice; 0 where no save shows it.")


class ObservedStraggler(BaseModel):
    """A rank that was done later than the others."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    writer: str = Field(description="Rank, or the part of a name that stands for one.")
    ratio: float = Field(description="Time until it was done over that of all ranks, medians over the saves.")


class Observation(BaseModel):
    """How a run saved, by the files that it left."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(description="Folder or URL that was observed.")
    layout: str | None = Field(description="Whose checkpoints these are. Null where names do not tell.")
    times: Times = Field(
        description="What tells when a save began and ended. Without births, durations are lower bounds."
    )
    run_seconds: float = Field(description="Seconds from the start of the first save to the start of the last.")
    cadence_steps: int | None = Field(
        description="Steps from one save to the next. Null where saves come by the clock, or there is one alone."
    )
    interval_seconds: float | None = Field(
        description="Seconds from the start of one save to the start of the next, median. Null of a single save."
    )
    checkpoint_bytes: int = Field(description="Bytes of one save: the median of those that were finished.")
    kept_bytes: int = Field(description="Bytes of all saves that are there.")
    num_writers: int = Field(description="Ranks that wrote training state, of the newest save.")
    write_seconds: float | None = Field(
        description="Seconds that one save took to write, median; a lower bound without births. "
        "Null where no save was finished and written once."
    )
    slowest_write_seconds: float | None = Field(description="Seconds of the longest of these. Null without any.")
    write_bytes_per_second: float | None = Field(
        description="Rate of a save in bytes per second, median; an upper bound without births. "
        "Null where times do not tell a duration."
    )
    writer_bytes_per_second: float | None = Field(
        description="Rate of one rank in bytes per second, median over ranks and saves. Null without births."
    )
    stragglers: tuple[ObservedStraggler, ...] = Field(
        description="Ranks that are late by more than 3 MAD and 10 %, the latest first. Empty without births."
    )
    stops: tuple[ObservedStop, ...] = Field(description="Where the run lost time, in order; at least these.")
    mtbf_seconds: float | None = Field(
        description="Mean seconds of the run per stop; an upper bound, as a stop may not show. Null without stops."
    )
    lost_fraction: float | None = Field(
        description="Fraction of the run that stops cost. Null where an interval is not known."
    )
    kept_last: int = Field(description="Newest saves that follow each other one cadence apart.")
    kept_every_steps: int | None = Field(
        description="Steps between older saves that stayed. Null where none stayed, or not regularly."
    )
    growth_bytes_per_day: float | None = Field(
        description="Bytes that stay for good, per day. Null where an interval is not known."
    )
    written_bytes_per_day: float | None = Field(
        description="Bytes that saves write per day. Null where an interval is not known."
    )
    saves: tuple[ObservedSave, ...] = Field(description="What was found of each step.")
    comparison: tuple[Comparison, ...] = Field(
        description="Observed figures beside those of sizing. Empty where the model is not known."
    )
    scenario: dict[str, Any] | None = Field(
        description="Scenario for ckpt-size with what was observed. Null where the model is not known."
    )
    notes: tuple[str, ...] = Field(description="What a reader must know before believing the figures.")


def observed(place: str, *, base: dict[str, Any] | None) -> Observation:
    """What the saves below a folder or URL say. `base`: a scenario of the run, where there is one.

    Raises UnreadableFile or InvalidInput.
    """
    return observation_of(listed(place), place=place, base=base)


def observation_of(files: Sequence[FileTimes], *, place: str, base: dict[str, Any] | None = None) -> Observation:
    """The same of files that are listed already. Raises UnreadableFile or InvalidInput."""
    run = Timeline(tuple(saves_of(files, title=place)))
    newest = _newest(run)
    contents, unread = _contents(newest, place)
    figures = _figures(run)
    asked = base if base is not None else run_scenario(contents, newest) if contents else None
    scenario = found_scenario(asked, figures) if asked is not None else None
    return Observation(
        path=place,
        layout=_layout(newest, contents),
        saves=tuple(_shown(save, run) for save in run.saves),
        comparison=compared(asked, scenario, figures) if asked is not None and scenario is not None else (),
        scenario=scenario,
        notes=tuple(_notes(run, files, unread=unread, has_model=scenario is not None)),
        **figures,
    )


def _figures(run: Timeline) -> dict[str, Any]:
    has_births = all(save.has_births for save in run.saves)
    interval, finished = run.interval_seconds, [save for save in run.saves if save.is_finished] or run.saves
    size = int(statistics.median(save.num_bytes for save in finished))
    kept_last, kept_every = _retention(run)
    lost = sum(stop.lost_seconds for stop in run.stops)
    rates = [save.num_bytes / save.seconds for save in run.clean if save.seconds > 0]
    return {
        "times": "birth and modification" if has_births else "modification",
        "run_seconds": run.run_seconds,
        "cadence_steps": run.cadence_steps,
        "interval_seconds": interval,
        "checkpoint_bytes": size,
        "kept_bytes": sum(save.num_bytes for save in run.saves),
        "num_writers": len(_newest(run).writers),
        "write_seconds": run.write_seconds,
        "slowest_write_seconds": max((save.seconds for save in run.clean), default=None),
        "write_bytes_per_second": statistics.median(rates) if rates else None,
        "writer_bytes_per_second": _writer_rate(run),
        "stragglers": tuple(_stragglers(run)) if has_births else (),
        "stops": tuple(ObservedStop(**{name: getattr(stop, name) for name in stop.__slots__}) for stop in run.stops),
        "mtbf_seconds": run.run_seconds / len(run.stops) if run.stops else None,
        "lost_fraction": lost / run.run_seconds if interval else None,
        "kept_last": kept_last,
        "kept_every_steps": kept_every,
        "growth_bytes_per_day": _growth(run, kept_last=kept_last, kept_every=kept_every),
        "written_bytes_per_day": size * SECONDS_PER_DAY / interval if interval else None,
    }


def _newest(run: Timeline) -> Save:
    finished = [save for save in run.saves if save.is_finished] or run.saves
    return max(finished, key=lambda save: save.ended_at)


def _writer_rate(run: Timeline) -> float | None:
    rates = (save.bytes_per_second(writer) for save in run.clean for writer in save.writers)
    known = [rate for rate in rates if rate is not None]
    return statistics.median(known) if known else None


def _stragglers(run: Timeline) -> Iterator[ObservedStraggler]:
    """Of the saves that the ranks of the newest one wrote."""
    writers = _newest(run).writers
    done = [[save.done_seconds(writer) for writer in writers] for save in run.clean if save.writers == writers]
    if not done:
        return
    of_rank = [statistics.median(samples) for samples in zip(*done, strict=True)]
    middle = statistics.median(of_rank)
    for rank in sorted(stragglers(done), key=lambda rank: -of_rank[rank]):
        yield ObservedStraggler(writer=writers[rank], ratio=of_rank[rank] / middle)


def _retention(run: Timeline) -> tuple[int, int | None]:
    """How many of the newest saves follow each other, and how far apart the older ones are."""
    steps = [save.step for save in run.saves]
    kept_last = 1
    while kept_last < len(steps) and steps[-kept_last] - steps[-kept_last - 1] == run.cadence_steps:
        kept_last += 1
    older = steps[: len(steps) - kept_last]
    apart = {b - a for a, b in pairwise(older)}
    return (kept_last, apart.pop()) if len(apart) == 1 else (kept_last, None)


def _growth(run: Timeline, *, kept_last: int, kept_every: int | None) -> float | None:
    """Bytes of saves that stay beyond the newest, by the time that they cover.

    Where all saves since the first are there, all of them stay.
    """
    if run.interval_seconds is None:
        return None
    first, cadence = run.saves[0], run.cadence_steps
    older = run.saves[: len(run.saves) - kept_last]
    if cadence is not None and (kept_every or (not older and first.step <= cadence)):
        size = statistics.median(save.num_bytes for save in older or run.saves)
        return size * SECONDS_PER_DAY / (run.interval_seconds * (kept_every or cadence) / cadence)
    span = run.saves[len(older)].started_at - first.started_at
    return sum(save.num_bytes for save in older) * SECONDS_PER_DAY / span if span > 0 else 0.0


def _contents(save: Save, place: str) -> tuple[CheckpointContents | None, str]:
    """What headers of a save say of it, or why they do not."""
    if is_url(place):
        return None, "headers in an object store are not read"
    try:
        return contents_of(Path(place) / save.place), ""
    except UnreadableFile as error:
        return None, str(error).rstrip(".")


def _layout(save: Save, contents: CheckpointContents | None) -> str | None:
    if contents is not None:
        return contents.layout
    layouts = layouts_of([file.name for file in save.files], [])
    return layouts[0].name if layouts else None


def _shown(save: Save, run: Timeline) -> ObservedSave:
    return ObservedSave(
        step=save.step,
        place=save.place,
        num_files=len(save.files),
        num_bytes=save.num_bytes,
        num_writers=len(save.writers),
        started_at_seconds=save.started_at,
        seconds=save.seconds,
        is_finished=save.is_finished,
        was_written_again=save in run.rewritten,
    )


def _notes(run: Timeline, files: Sequence[FileTimes], *, unread: str, has_model: bool) -> Iterator[str]:
    if any(not save.has_births for save in run.saves):
        yield (
            "The birth of files is not known (no birth time there, or copied files): durations are lower bounds, "
            "rates upper bounds, and stragglers are not told"
        )
    if all(file.modified_at.is_integer() for file in files):
        yield "Times are whole seconds: durations may be a second longer or shorter"
    unfinished = [save.step for save in run.saves if not save.is_finished]
    if unfinished:
        yield f"{counted_text(len(unfinished), 'save')} without .metadata: not finished ({_few(unfinished)})"
    if run.rewritten:
        steps = [save.step for save in run.rewritten]
        yield f"{counted_text(len(steps), 'save')} written more than once: no duration is read off ({_few(steps)})"
    outside = len(files) - sum(len(save.files) for save in run.saves)
    if outside:
        yield f"{counted_text(outside, 'file')} in no folder of a step: not counted"
    if not has_model:
        because = f" ({unread})" if unread else ""
        yield f"The model is not known{because}: give --scenario FILE with it to compare and to go on from"


def _few(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:3]))
    return f"step {shown}" if len(steps) == 1 else f"steps {shown}{' and more' if len(steps) > 3 else ''}"
