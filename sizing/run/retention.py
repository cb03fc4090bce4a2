"""The `retention` block of a Scenario, the capacity that it takes, and when that is full."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from sizing.errors import broken_rule
from sizing.frameworks.framework import Deletion
from sizing.provenance import Assumption
from sizing.run.export import Export, working_bytes
from sizing.run.figures import Figures
from sizing.run.storage_contents import StorageContents
from sizing.run.workload import Chain, CheckpointWorkload
from sizing.storage.transfer import Numbers
from sizing.strict_model import InputModel, StrictModel
from sizing.units import (
    SECONDS_PER_DAY,
    ByteCount,
    Fraction,
    OrText,
    PositiveSeconds,
    counted_text,
    decimal_bytes_text,
    min_bytes_text,
    seconds_text,
)

_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_KEEP_LAST_SOURCE = "the min that a restart needs"


class Retention(InputModel):
    """Which checkpoints are kept, and what the storage needs beside them."""

    keep_last: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        1,
        json_schema_extra={"source": _KEEP_LAST_SOURCE},
        description=f"Newest checkpoints that are kept whole. Default: 1, {_KEEP_LAST_SOURCE}.",
    )
    keep_best: _Count = Field(0, description="Checkpoints that are kept whole for their quality, besides the newest.")
    keep_weights_every: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="Of every Nth checkpoint the weights stay, for evaluation and to go back to. Default: none stay.",
    )
    run_seconds: PositiveSeconds | None = Field(
        None,
        description="Seconds of training over which the kept weights add up. "
        "Default: costs.run_seconds; without that too they are left out of the capacity, and a warning says how much "
        "a day adds.",
    )
    free_fraction: OrText[Annotated[Fraction, Field(ge=0, le=0.95, allow_inf_nan=False)]] = Field(
        0.0,
        description="Fraction of the file system that stays free, as many slow down when full; on Lustre a save fails "
        "when one of its targets (OST) is full, though others have room.",
    )
    redundancy_fraction: OrText[Annotated[Fraction, Field(ge=0, le=10, allow_inf_nan=False)]] = Field(
        0.0,
        description="Raw bytes beyond each usable one, as a fraction of it: 0.25 for 8+2 erasure coding, 2 for three "
        "copies.",
    )

    disk_bytes: ByteCount | None = Field(
        None,
        description="Size of the file system that there is, or of the quota on it, in bytes. Default: unknown, so what "
        "it holds is not said.",
    )

    @model_validator(mode="after")
    def _weights_have_a_time(self) -> Self:
        if self.run_seconds is not None and self.keep_weights_every is None:
            raise broken_rule("has run_seconds without keep_weights_every", "give both, or remove run_seconds")
        return self


class Capacity(Figures):
    """The `capacity` block of the report. A checkpoint must not replace an older one before it is complete."""

    num_checkpoints: int = Field(
        description="Whole checkpoints that must fit at once: those kept and the one being written. A framework that "
        "deletes before a save writes it in the place of one of those kept."
    )
    num_needed_checkpoints: int = Field(
        0, description="Older checkpoints, at most, that must fit too, as those kept are deltas or parts of them."
    )
    checkpoints_bytes: int = Field(
        description="Bytes of all checkpoints that must fit at once, with those that they need."
    )
    further_checkpoint_bytes: int = Field(description="Bytes that each further checkpoint takes that is kept whole.")
    kept_weights_bytes: int = Field(
        description="Bytes of weights kept until the end of retention.run_seconds, or of costs.run_seconds where that "
        "is not given; 0 without either."
    )
    exported_bytes: int = Field(
        0, description="Bytes of exports, the one being written included with what it works on; 0 without exports."
    )
    published_bytes: int = Field(
        0, description="Bytes of the newest publication over storage, which engines read; 0 without any."
    )
    capacity_bytes: int = Field(
        description="Bytes that must fit: checkpoints, kept weights, exports and what is published over storage."
    )
    usable_bytes: float = Field(description="Size of the file system in bytes, with the fraction that stays free.")
    raw_bytes: float = Field(description="Bytes of drives to buy, with redundancy.")
    written_bytes_per_day: float = Field(
        description="Bytes that saves, exports and publications over storage write in one day, which wears drives. "
        "Saves are recovery.saves_per_day, or one per effective interval where failures are not known."
    )
    growth_bytes_per_day: float = Field(description="Bytes of kept weights that one day adds; 0 when none are kept.")
    disk_bytes: int | None = Field(None, description="Bytes of the file system that there is; null when not given.")
    disk_checkpoints: int | None = Field(
        None,
        description="Whole checkpoints that disk_bytes hold at once, the one being written included, beside kept "
        "weights, exports, what is published and what stays free. Null without disk_bytes.",
    )
    disk_full_seconds: float | None = Field(
        None,
        description="Seconds of training after which a save finds no room where none is deleted. Null without "
        "disk_bytes.",
    )
    disk_exceeded_seconds: float | None = Field(
        None,
        description="Seconds of training after which what is kept no longer fits disk_bytes, as kept weights grow or "
        "as it never fits whole. Null where it always fits, and without disk_bytes.",
    )

    @functools.cached_property
    def contents(self) -> StorageContents:
        """What is on the storage after some saves. Raises ValueError for a block that was read from a document."""
        raise ValueError("the capacity of a document does not say what each save leaves")

    @classmethod
    def holding(cls, contents: StorageContents, **values: Any) -> Self:
        """The block of these values, with the contents that they were read from."""
        capacity = cls.of(**values)
        vars(capacity)["contents"] = contents
        return capacity

    @property
    def fits_disk(self) -> bool:
        """Whether what is kept and written fits the file system that there is, if one is given."""
        return self.disk_checkpoints is None or self.disk_checkpoints >= self.num_checkpoints


def usable_bytes(kept_bytes: Numbers, *, free_fraction: Numbers) -> Numbers:
    """Size of a file system in which a share stays free: U = K / (1 - f).

    Source: definition.

    >>> usable_bytes(80.0, free_fraction=0.2)
    100.0
    """
    return kept_bytes / (1.0 - free_fraction)


def raw_bytes(usable: Numbers, *, redundancy_fraction: Numbers) -> Numbers:
    """Bytes of drives below usable ones: R = U (1 + r), r = m/k for k+m erasure coding, n - 1 for n copies.

    Source: definition.

    >>> raw_bytes(100.0, redundancy_fraction=2 / 8)
    125.0
    """
    return usable * (1.0 + redundancy_fraction)


def capacity_of(
    retention: Retention,
    *,
    workload: CheckpointWorkload,
    interval_seconds: Numbers,
    run_seconds: Numbers | None = None,
    saves_per_day: Numbers | None = None,
    export: Export | None = None,
    exported_bytes_per_save: Numbers = 0.0,
    deletion: Deletion = "after-save",
) -> Capacity:
    """Capacity = (last + best + 1 in flight) x checkpoint + kept weights + exports + the newest publication.

    Weights add up over `run_seconds`; where that is None, they are left out.
    A framework that deletes before a save makes room for the one in flight first. Where saves hold less than
    everything, those stay too that the newest ones need, and the best are full. What wears drives are the saves,
    `saves_per_day` or otherwise one per interval, and `exported_bytes_per_save`, which exports write as the mean over
    saves.
    """
    per_day = SECONDS_PER_DAY / interval_seconds
    contents = contents_of(retention, workload, export=export, deletion=deletion)
    weights_per_save = contents.weights_bytes_per_save
    weights = 0 if run_seconds is None else weights_per_save * (run_seconds / interval_seconds)
    whole = _round_bytes(contents.checkpoints_bytes())
    exported, published = contents.exported_bytes(), contents.published_bytes
    stored = workload.publications
    published_per_day: Numbers = 0.0 if stored is None else published * SECONDS_PER_DAY / stored.interval_seconds
    usable = usable_bytes(whole + weights + exported + published, free_fraction=retention.free_fraction)
    disk = {}
    if retention.disk_bytes is not None:
        room = retention.disk_bytes * (1.0 - retention.free_fraction)
        until_full = contents.num_saves_until_full(room)
        disk = {
            "disk_bytes": retention.disk_bytes,
            "disk_checkpoints": contents.whole_checkpoints_in(room - weights - exported - published),
            "disk_full_seconds": contents.undeleted.num_saves_until_full(room) * interval_seconds,
            "disk_exceeded_seconds": np.where(np.isinf(until_full), np.nan, until_full * interval_seconds),
        }
    return Capacity.holding(
        contents,
        num_checkpoints=contents.num_newest + contents.num_best,
        num_needed_checkpoints=workload.chain.num_needed if workload.chain else 0,
        checkpoints_bytes=whole,
        further_checkpoint_bytes=workload.written_bytes,
        kept_weights_bytes=_round_bytes(weights),
        exported_bytes=exported,
        published_bytes=published,
        capacity_bytes=whole + _round_bytes(weights) + exported + published,
        usable_bytes=usable,
        raw_bytes=raw_bytes(usable, redundancy_fraction=retention.redundancy_fraction),
        written_bytes_per_day=(workload.written_bytes + exported_bytes_per_save)
        * (per_day if saves_per_day is None else saves_per_day)
        + published_per_day,
        growth_bytes_per_day=weights_per_save * per_day,
        **disk,
    )


def contents_of(
    retention: Retention, workload: CheckpointWorkload, *, export: Export | None, deletion: Deletion
) -> StorageContents:
    """What saves of a workload leave on the storage with that retention."""
    written = workload.written_bytes
    every = retention.keep_weights_every
    return StorageContents(
        workload.chain or Chain(written, written, full_every=1, num_needed=0),
        num_newest=retention.keep_last + (deletion != "before-save"),
        num_best=retention.keep_best,
        weights_bytes_per_save=0.0 if every is None else workload.weights_bytes / every,
        export_bytes=workload.exported_bytes,
        export_every=export.every if export else 1,
        num_exports=export.keep + 1 if export else 0,
        working_bytes=working_bytes(export, workload) if export else 0,
        published_bytes=workload.publications.written_bytes if workload.publications else 0,
    )


def retention_warnings(
    retention: Retention, deletion: Deletion, capacity: Capacity, *, weights_bytes: int
) -> Iterator[str]:
    """Warn where no whole checkpoint is left while the next is written, or where a save finds no room.

    `weights_bytes` are those of the weights in one save.
    """
    if capacity.disk_checkpoints is not None and not capacity.fits_disk:
        disk = f"a disk of {decimal_bytes_text(capacity.disk_bytes or 0)}"
        holds = f"holds {counted_text(capacity.disk_checkpoints, 'whole checkpoint')} of {capacity.num_checkpoints:,}"
        beside = ""
        if capacity.kept_weights_bytes:
            full = seconds_text(capacity.disk_exceeded_seconds or 0.0)
            weights = decimal_bytes_text(capacity.kept_weights_bytes)
            beside = f", beside {weights} of kept weights: full after {full} of training"
        remedy = disk_remedy(retention, capacity, weights_bytes=weights_bytes)
        yield f"Saves will fail: {disk} {holds} that must fit, one being written{beside}. {remedy}"
    if capacity.growth_bytes_per_day and not capacity.kept_weights_bytes:
        growth = decimal_bytes_text(capacity.growth_bytes_per_day)
        uncounted = f"Kept weights add {growth} a day, which no capacity here counts"
        yield f"{uncounted}. Give the length of the run (retention.run_seconds)"
    if deletion == "before-save" and retention.keep_last == 1 and not retention.keep_best:
        yield (
            "The only checkpoint is deleted before the next one is written: a failure meanwhile leaves none. Keep 2 "
            "(retention.keep_last)"
        )


def disk_remedy(retention: Retention, capacity: Capacity, *, weights_bytes: int) -> str:
    """Name the first change of one field with which a disk that is too small holds what is kept: else a larger disk.

    Tried are fewer checkpoints, weights of fewer saves, fewer exports, and saves of weights alone.
    """
    contents, larger = capacity.contents, "a larger disk (retention.disk_bytes)"
    excess = capacity.capacity_bytes - (capacity.disk_bytes or 0) * (1 - retention.free_fraction)
    num_last = (capacity.disk_checkpoints or 0) - (capacity.num_checkpoints - retention.keep_last)
    if num_last >= 1:
        return f"Keep {num_last:,} (retention.keep_last)"
    if capacity.kept_weights_bytes > excess:
        every = retention.keep_weights_every or 1
        fewer = math.ceil(every * capacity.kept_weights_bytes / (capacity.kept_weights_bytes - excess))
        return f"Keep the weights of every {fewer:,}th (retention.keep_weights_every), or use {larger}"
    if contents.num_exports and contents.export_bytes:
        num_exports = int(contents.num_exports - 1 - math.ceil(excess / contents.export_bytes))
        if num_exports >= 1:
            return f"Keep {counted_text(num_exports, 'export')} (checkpoint.export.keep), or use {larger}"
    if capacity.checkpoints_bytes - capacity.num_checkpoints * weights_bytes >= excess:
        return f"Save less (training.saved_state.weights_alone), or use {larger}"
    return f"Use {larger} of {min_bytes_text(capacity.usable_bytes)} or more, or keep less"


def with_further_bytes(assumption: Assumption, capacity: Capacity) -> Assumption:
    """An assumption with what more of it takes, where it is how many checkpoints are kept."""
    if assumption.field != "retention.keep_last":
        return assumption
    further = decimal_bytes_text(capacity.further_checkpoint_bytes)
    return assumption.model_copy(update={"reason": f"{assumption.reason}; each further one takes {further}"})


def _round_bytes(num_bytes: Numbers) -> Numbers:
    return round(num_bytes) if isinstance(num_bytes, float | int) else np.round(num_bytes)


_NUM_PARTS = 10
"""Parts of the run, with a row at the end of each: a table that can be read."""


class CapacityAt(StrictModel):
    """What the storage must hold some time after the run began."""

    at_seconds: float = Field(description="Seconds of training since the run began.")
    num_checkpoints: int = Field(description="Whole checkpoints that are there, with the one being written.")
    checkpoints_bytes: float = Field(description="Bytes of these checkpoints, with those that they need.")
    kept_weights_bytes: float = Field(description="Bytes of the weights that stay for good.")
    usable_bytes: float = Field(
        description="Size of the file system in bytes that holds all this, exports and what is published too, with the "
        "fraction that stays free."
    )


class Held(NamedTuple):
    """What must fit over a run, and when an offered capacity is full; None where it never is."""

    over_time: list[CapacityAt]
    full_seconds: float | None


def held_over_time(
    capacity: Capacity,
    retention: Retention,
    *,
    interval_seconds: float,
    run_seconds: float,
    offered_bytes: float | None,
) -> Held:
    """What must fit from day to day, beside an offered capacity."""
    over_time = capacity_over_time(capacity, retention, interval_seconds=interval_seconds, run_seconds=run_seconds)
    if offered_bytes is None:
        return Held(over_time, None)
    full = full_after_seconds(capacity, retention, interval_seconds=interval_seconds, offered_bytes=offered_bytes)
    return Held(over_time, full)


def capacity_over_time(
    capacity: Capacity, retention: Retention, *, interval_seconds: Numbers, run_seconds: Numbers | None
) -> list[CapacityAt]:
    """What must fit at the begin, when the last of the kept checkpoints is begun, and at each tenth of the run.

    None for arrays, and where the length of the run is not known.
    """
    numbers = (interval_seconds, run_seconds, retention.free_fraction, *vars(capacity).values())
    if run_seconds is None or any(np.ndim(number) for number in numbers):
        return []
    interval, length = float(interval_seconds), float(run_seconds)
    full = capacity.num_checkpoints * interval
    times = {length * part / _NUM_PARTS for part in range(_NUM_PARTS + 1)} | {min(full, length)}
    return [_capacity_at(seconds, capacity, retention, interval) for seconds in sorted(times)]


def _capacity_at(seconds: float, capacity: Capacity, retention: Retention, interval_seconds: float) -> CapacityAt:
    """What must fit at one moment of the run.

    The first save begins after one interval. The number of checkpoints grows by one in each until all that are kept
    are there.
    """
    contents, num_saves = capacity.contents, math.floor(seconds / interval_seconds * (1 + 1e-12))
    checkpoints = float(contents.checkpoints_bytes(num_saves))
    weights = capacity.growth_bytes_per_day * seconds / SECONDS_PER_DAY
    held = checkpoints + weights + float(contents.exported_bytes(num_saves)) + capacity.published_bytes
    return CapacityAt(
        at_seconds=seconds,
        num_checkpoints=min(capacity.num_checkpoints, num_saves),
        checkpoints_bytes=checkpoints,
        kept_weights_bytes=weights,
        usable_bytes=float(usable_bytes(held, free_fraction=retention.free_fraction)),
    )


def full_after_seconds(
    capacity: Capacity, retention: Retention, *, interval_seconds: float, offered_bytes: float
) -> float | None:
    """When what must fit passes an offered capacity; None where never.

    Source: the saves that fit (`StorageContents.num_saves_until_full`), each an interval after the one before.

    >>> from sizing.report import answer
    >>> report = answer({"model": {"preset": "gpt2"}, "retention": {"keep_weights_every": 1, "run_seconds": "30d"}})
    >>> full_after_seconds(report.capacity, Retention(), interval_seconds=3600.0, offered_bytes=10e9) is None
    False
    """
    room = offered_bytes * (1 - retention.free_fraction)
    seconds = float(capacity.contents.num_saves_until_full(room) * interval_seconds)
    return seconds if math.isfinite(seconds) else None
