"""The answer of `ckpt-bench observe`: how a run saved, computed from the times and names of its files."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import Field

from io_bench.checks.observation_document import (
    ObservedComparison,
    compare_figures,
    exported_bytes,
    observed_scenario,
    run_scenario,
)
from io_bench.checks.observation_timeline import SaveTimeline
from io_bench.checks.observed_saves import FileTimes, Numbers, Save, further_copies, list_files, numbers_of, saves_of
from io_bench.measure.spread import stragglers
from io_bench.target.address import is_url
from sizing.checkpoint_files import CheckpointContents, contents_of
from sizing.checkpoint_files.folder_layouts import layouts_of
from sizing.errors import UnreadableFile
from sizing.present.inspections import explain_unknown_parameters
from sizing.strict_model import StrictModel
from sizing.units import SECONDS_PER_DAY, bytes_text, counted_text

Times = Literal["birth and modification", "modification"]
_MIN_REGULAR = 3
"""Older saves that must stand equally far apart before that is taken for a rule: two always do."""
_MAX_KEPT_BY_HABIT = 10
"""Saves that may all still be there under a limit: torchtitan keeps so many where nothing is said, others fewer or all.
Source: `checkpoint.keep_latest_k` in published/framework_defaults.json."""
_UNLIKE_FRACTION = 0.1
"""Saves of one run have equal bytes but for small state. A save of other bytes is of other state, or of another run."""


class ObservedSave(StrictModel):
    """The save of one step, as its files show it."""

    step: int = Field(description="Number, as `numbers` counts, by the name of the folder or file.")
    place: str = Field(description="Folder or file that holds it, by its path below what was observed.")
    num_files: int = Field(description="Files that were found in it.")
    num_bytes: int = Field(description="Bytes of all these files.")
    num_writers: int = Field(description="Ranks that wrote training state, by the names of files.")
    started_at_seconds: float = Field(
        description="Seconds since 1970 at which its first file was created, or changed where no births are known."
    )
    seconds: float = Field(description="Seconds from there to the last change of a file: of a write, the min.")
    is_finished: bool = Field(
        description="Whether it has all that it should: what torch DCP writes last, the files that names and other "
        "saves count, and of the newest about the bytes of the others."
    )
    was_written_again: bool = Field(description="Whether a later attempt wrote over its files.")


class ObservedStop(StrictModel):
    """A stretch of time between two saves that did not bring the run forward: a failure, or a pause."""

    after_step: int = Field(description="Step that was saved last before the run stopped.")
    before_step: int = Field(description="Step that was saved first after it.")
    lost_seconds: float = Field(description="Seconds beyond those that the steps between take.")
    redone_steps: int = Field(description="Training steps that were surely taken twice; 0 where no save shows it.")


class ObservedStraggler(StrictModel):
    """A rank that was done later than the others."""

    writer: str = Field(description="Rank, or the part of a name that stands for one.")
    ratio: float = Field(description="Time until it was done over that of all ranks, medians over the saves.")


class Observation(StrictModel):
    """How a run saved, by the files that it left."""

    path: str = Field(description="Folder or URL that was observed.")
    layout: str | None = Field(description="Whose checkpoints these are. Null where names do not tell.")
    times: Times = Field(
        description="What tells when a save began and ended. Without births, durations are lower bounds."
    )
    numbers: Numbers = Field(
        description="What the numbers of saves count: steps or epochs of training, or the saves themselves."
    )
    run_seconds: float = Field(description="Seconds from the start of the first save to the start of the last.")
    cadence_steps: int | None = Field(
        description="Steps or epochs from one save to the next. Null where saves come by the clock, where numbers "
        "count saves, or where there is one alone."
    )
    interval_seconds: float | None = Field(
        description="Seconds from the start of one save to the start of the next, median. Null of a single save."
    )
    checkpoint_bytes: int = Field(description="Bytes of one save: the median of those that were finished.")
    kept_bytes: int = Field(description="Bytes of all saves that are there, with further copies such as last.ckpt.")
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
        description="Fraction of the run that stops cost. Null where an interval is not known, or where by the times "
        "all of it was lost, as of files that were copied in another order."
    )
    kept_last: int = Field(description="Newest saves that follow each other one cadence apart.")
    kept_every_steps: int | None = Field(
        description="Steps between older saves that stayed. Null where none stayed, or not regularly."
    )
    growth_bytes_per_day: float | None = Field(
        description="Bytes that stay for good, per day. Null where an interval is not known, where older saves "
        "stayed at no regular distance, or where all are there and so few that a limit may not be reached yet."
    )
    written_bytes_per_day: float | None = Field(
        description="Bytes that saves write per day. Null where an interval is not known."
    )
    saves: tuple[ObservedSave, ...] = Field(description="What was found of each step.")
    comparison: tuple[ObservedComparison, ...] = Field(
        description="Observed figures beside those of sizing. Empty where the model is not known."
    )
    scenario: dict[str, Any] | None = Field(
        description="Scenario for ckpt-size with what was observed. Null where the model is not known."
    )
    notes: tuple[str, ...] = Field(description="What a reader must know before believing the figures.")


def observe_run(place: str, *, base: dict[str, Any] | None) -> Observation:
    """Compute from the files below a folder or URL how a run saved. `base` is a scenario of the run, or None.

    Raises UnreadableFile or InvalidInput.
    """
    return observation_of(list_files(place), place=place, base=base)


def observation_of(files: Sequence[FileTimes], *, place: str, base: dict[str, Any] | None = None) -> Observation:
    """Compute from a list of files how a run saved. Raises UnreadableFile or InvalidInput."""
    run = SaveTimeline(tuple(saves_of(files, title=place)))
    newest, copies = _newest(run), further_copies(files)
    contents, unread = _read_contents(newest, place)
    export_bytes = 0 if contents is None else exported_bytes(contents)
    figures = _figures(run, copies)
    if contents is not None:
        layout = contents.layout
        if base is None:
            folder = Path(place) / newest.place
            base = run_scenario(contents, folder if folder.is_dir() else folder.parent)
        if base is None:
            unread = f"the newest save {_why_unknown(contents)}"
    else:
        layout = next((each.name for each in layouts_of([file.name for file in newest.files], [])), None)
    scenario = None if base is None else observed_scenario(base, figures, export_bytes=export_bytes)
    return Observation(
        path=place,
        layout=layout,
        saves=tuple(
            ObservedSave(
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
            for save in run.saves
        ),
        comparison=() if base is None or scenario is None else compare_figures(base, scenario, figures),
        scenario=scenario,
        notes=tuple(_notes(run, files, copies, unread=unread, has_model=scenario is not None)),
        **figures,
    )


def _figures(run: SaveTimeline, copies: Sequence[FileTimes]) -> dict[str, Any]:
    has_births = all(save.has_births for save in run.saves)
    interval, finished = run.interval_seconds, [save for save in run.saves if save.is_finished] or run.saves
    size = int(statistics.median(save.num_bytes for save in finished))
    kept_last, kept_every = _retention(run)
    stops = run.stops if run.lost_seconds is not None else ()
    numbers = numbers_of(run.saves)
    rates = [save.num_bytes / save.seconds for save in run.clean if save.seconds > 0]
    of_writers = [save.bytes_per_second(writer) for save in run.clean for writer in save.writers]
    writer_rates = [rate for rate in of_writers if rate is not None]
    # Each save writes the copies of the last save once more; of these, the newest tells the bytes.
    last_copies = [file for file in copies if PurePosixPath(file.name).name.startswith(("last", "latest"))]
    copied_bytes = max(last_copies, key=lambda file: file.modified_at).num_bytes if last_copies else 0
    return {
        "times": "birth and modification" if has_births else "modification",
        "numbers": numbers,
        "run_seconds": run.run_seconds,
        "cadence_steps": None if numbers == "saves" else run.cadence_steps,
        "interval_seconds": interval,
        "checkpoint_bytes": size,
        "kept_bytes": sum(save.num_bytes for save in run.saves) + sum(file.num_bytes for file in copies),
        "num_writers": len(_newest(run).writers),
        "write_seconds": run.write_seconds,
        "slowest_write_seconds": max((save.seconds for save in run.clean), default=None),
        "write_bytes_per_second": statistics.median(rates) if rates else None,
        "writer_bytes_per_second": statistics.median(writer_rates) if writer_rates else None,
        "stragglers": tuple(_stragglers(run)) if has_births else (),
        "stops": tuple(ObservedStop(**{name: getattr(stop, name) for name in stop.__slots__}) for stop in stops),
        "mtbf_seconds": run.run_seconds / len(stops) if stops else None,
        "lost_fraction": run.lost_seconds / run.run_seconds if interval and run.lost_seconds is not None else None,
        "kept_last": kept_last,
        "kept_every_steps": kept_every,
        "growth_bytes_per_day": _growth(run, kept_last=kept_last, kept_every=kept_every),
        "written_bytes_per_day": (size + copied_bytes) * SECONDS_PER_DAY / interval if interval else None,
    }


def _newest(run: SaveTimeline) -> Save:
    finished = [save for save in run.saves if save.is_finished] or run.saves
    return max(finished, key=lambda save: save.ended_at)


def _stragglers(run: SaveTimeline) -> Iterator[ObservedStraggler]:
    """Name the ranks that are late in the saves that were written by the same ranks as the newest one."""
    writers = _newest(run).writers
    done = [[save.done_seconds(writer) for writer in writers] for save in run.clean if save.writers == writers]
    if not done:
        return
    of_rank = [statistics.median(samples) for samples in zip(*done, strict=True)]
    middle = statistics.median(of_rank)
    for rank in sorted(stragglers(done), key=lambda rank: -of_rank[rank]):
        yield ObservedStraggler(writer=writers[rank], ratio=of_rank[rank] / middle)


def _retention(run: SaveTimeline) -> tuple[int, int | None]:
    """Count the newest saves that follow each other, and tell how far apart the older ones are."""
    steps = [save.step for save in run.saves]
    kept_last = 1
    while kept_last < len(steps) and steps[-kept_last] - steps[-kept_last - 1] == run.cadence_steps:
        kept_last += 1
    older = steps[: len(steps) - kept_last]
    apart = {b - a for a, b in pairwise(older)}
    is_regular = len(apart) == 1 and len(older) >= _MIN_REGULAR
    return (kept_last, apart.pop()) if is_regular else (kept_last, None)


def _growth(run: SaveTimeline, *, kept_last: int, kept_every: int | None) -> float | None:
    """Bytes of saves that stay beyond the newest, by the time that they cover; None where these are not regular.

    Where all of many saves since the first are there, all of them stay; of few, a limit may not be reached yet. The
    best by a metric stay at no regular distance, and only so many.
    """
    if run.interval_seconds is None:
        return None
    first, cadence = run.saves[0], run.cadence_steps
    older = run.saves[: len(run.saves) - kept_last]
    if not older and (cadence is None or first.step > cadence):
        return 0.0
    if cadence is None or (kept_every is None and (older or kept_last <= _MAX_KEPT_BY_HABIT)):
        return None
    size = statistics.median(save.num_bytes for save in older or run.saves)
    return size * SECONDS_PER_DAY / (run.interval_seconds * (kept_every or cadence) / cadence)


def _read_contents(save: Save, place: str) -> tuple[CheckpointContents | None, str]:
    """Read the headers of a save; where they cannot be read, the reason."""
    if is_url(place):
        return None, "headers in an object store are not read"
    if len(save.files) > 1 and (Path(place) / save.place).is_file():
        return (
            None,
            f"the newest save is in {len(save.files)} files beside those of others, which are not read together",
        )
    try:
        return contents_of(Path(place) / save.place), ""
    except UnreadableFile as error:
        return None, str(error).rstrip(".")


def _why_unknown(contents: CheckpointContents) -> str:
    if contents.missing_files:
        return f"lacks {contents.missing_files[0]}"
    if contents.num_parameters is None or contents.is_adapter:
        return explain_unknown_parameters(contents)
    return "holds no optimizer's state" if contents.optimizer is None else "is not whole"


def _notes(
    run: SaveTimeline, files: Sequence[FileTimes], copies: Sequence[FileTimes], *, unread: str, has_model: bool
) -> Iterator[str]:
    if any(not save.has_births for save in run.saves):
        yield (
            "The birth of files is not known (no birth time there, or copied files): durations are lower bounds, "
            "rates upper bounds, and stragglers are not told"
        )
    if run.lost_seconds is None:
        yield (
            "By its times the run lost all time that passed, as copied files tell it: stops are not read off. Copy "
            "files with their times (cp -p, rsync -t), or observe them where they were written"
        )
    if all(file.modified_at.is_integer() for file in files):
        yield "Times are whole seconds: durations may be a second longer or shorter"
    for save in run.saves:
        if save.lacks:
            yield f"The save of {save.place} is not finished: {save.lacks}"
    unfinished = [save.step for save in run.saves if not save.is_finished and not save.lacks]
    if unfinished:
        yield f"{counted_text(len(unfinished), 'save')} without .metadata: not finished ({_few(unfinished)})"
    yield from _unlike_saves(run)
    if run.rewritten:
        steps = [save.step for save in run.rewritten]
        yield f"{counted_text(len(steps), 'save')} written more than once: no duration is read off ({_few(steps)})"
    yield from _what_stays(run, copies)
    outside = len(files) - sum(len(save.files) for save in run.saves) - len(copies)
    if outside:
        yield f"{counted_text(outside, 'file')} in no folder of a step: not counted"
    if not has_model:
        because = f" ({unread})" if unread else ""
        yield f"The model is not known{because}: give --scenario FILE with it to compare and to go on from"


def _what_stays(run: SaveTimeline, copies: Sequence[FileTimes]) -> Iterator[str]:
    if numbers_of(run.saves) == "saves":
        yield "accelerate counts its saves, not steps, where it names them: the steps between them are not known"
    if copies:
        size = bytes_text(sum(file.num_bytes for file in copies))
        yield f"{copies[0].name} holds a further copy, {size}: counted in what is kept, and in what is written"
    kept_last, kept_every = _retention(run)
    if run.interval_seconds is None or _growth(run, kept_last=kept_last, kept_every=kept_every) is not None:
        return
    if kept_last == len(run.saves):
        yield "All saves are there, yet so few that a limit may not be reached: whether they stay is not known"
    else:
        yield "Older saves stand at no regular distance, as the best by a metric do: what stays for good is not known"


def _unlike_saves(run: SaveTimeline) -> Iterator[str]:
    """Say where saves are not all of one run, or not of the same state."""
    finished = [save for save in run.saves if save.is_finished]
    if not finished:
        return
    usual = statistics.median(save.num_bytes for save in finished)
    unlike = [save.step for save in finished if abs(save.num_bytes - usual) > _UNLIKE_FRACTION * usual]
    if unlike:
        yield f"Saves differ in bytes from the others, as of another run or other state: {_few(unlike)}"
    layouts = {tuple(each.name for each in layouts_of([f.name for f in save.files], [])[:1]) for save in finished}
    if len(layouts) > 1:
        names = sorted(name for layout in layouts for name in (layout or ("others",)))
        yield f"Saves are laid out in several ways, as of several runs: {', '.join(names)}"
    newest = max(finished, key=lambda save: save.started_at)
    older = [
        s.step for s in finished if s.step > newest.step and s not in run.rewritten and s.ended_at < newest.started_at
    ]
    if older:
        yield f"Saves of higher steps than the newest, {newest.step}, are of an earlier attempt or run: {_few(older)}"


def _few(steps: Sequence[int]) -> str:
    shown = ", ".join(map(str, steps[:3]))
    return f"step {shown}" if len(steps) == 1 else f"steps {shown}{' and more' if len(steps) > 3 else ''}"
