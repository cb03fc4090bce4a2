"""The `retention` block of a Scenario, and the capacity that it takes."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sizing.errors import broken_rule
from sizing.provenance import Assumption
from sizing.run.demands.demands import Demands
from sizing.run.figures import Figures
from sizing.storage.transfer import Numbers
from sizing.units import SECONDS_PER_DAY, Fraction, PositiveSeconds, decimal_bytes_text

_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_KEEP_LAST_SOURCE = "the min that a restart needs"


class Retention(BaseModel):
    """Which checkpoints are kept, and what the storage needs beside them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        "Default: they are left out of the capacity.",
    )
    free_fraction: Annotated[Fraction, Field(ge=0, le=0.95, allow_inf_nan=False)] = Field(
        0.0, description="Fraction of the file system that stays free, as many slow down when full."
    )
    redundancy_fraction: Annotated[Fraction, Field(ge=0, le=10, allow_inf_nan=False)] = Field(
        0.0,
        description="Raw bytes beyond each usable one, as a fraction of it: 0.25 for 8+2 erasure coding, 2 for three "
        "copies.",
    )

    @model_validator(mode="after")
    def _weights_have_a_time(self) -> Self:
        if self.run_seconds is not None and self.keep_weights_every is None:
            raise broken_rule("has run_seconds without keep_weights_every", "give both, or remove run_seconds")
        return self


class Capacity(Figures):
    """The `capacity` block of the report. A checkpoint must not replace an older one before it is complete."""

    num_checkpoints: int = Field(
        description="Whole checkpoints that must fit at once: those kept and the one being written."
    )
    num_needed_checkpoints: int = Field(
        0, description="Older checkpoints, at most, that must fit too, as those kept are deltas or parts of them."
    )
    checkpoints_bytes: int = Field(
        description="Bytes of all checkpoints that must fit at once, with those that they need."
    )
    further_checkpoint_bytes: int = Field(description="Bytes that each further checkpoint takes that is kept whole.")
    kept_weights_bytes: int = Field(
        description="Bytes of weights kept until the end of retention.run_seconds; 0 when that is not given."
    )
    exported_bytes: int = Field(
        0, description="Bytes of exports, the one being written included with what it works on; 0 without exports."
    )
    capacity_bytes: int = Field(description="Bytes that must fit: checkpoints, kept weights and exports.")
    usable_bytes: float = Field(description="Size of the file system in bytes, with the fraction that stays free.")
    raw_bytes: float = Field(description="Bytes of drives to buy, with redundancy.")
    written_bytes_per_day: float = Field(description="Bytes that saves write in one day, which wears drives.")
    growth_bytes_per_day: float = Field(description="Bytes of kept weights that one day adds; 0 when none are kept.")


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


def capacity_of(retention: Retention, *, demands: Demands, interval_seconds: Numbers, num_exports: int = 0) -> Capacity:
    """Capacity = (last + best + 1 in flight) x checkpoint + kept weights + exports.

    Where saves hold less than everything, those stay too that the newest ones need, and the best are full.
    """
    num_checkpoints = retention.keep_last + retention.keep_best + 1
    per_day = SECONDS_PER_DAY / interval_seconds
    every = retention.keep_weights_every
    growth = 0.0 if every is None else demands.weights_bytes * per_day / every
    weights = 0 if retention.run_seconds is None else growth * (retention.run_seconds / SECONDS_PER_DAY)
    whole = _whole(_checkpoints_bytes(retention, demands))
    working = 0 if demands.universal is None else demands.universal.state_bytes
    exported = demands.exported_bytes * num_exports + working
    usable = usable_bytes(whole + weights + exported, free_fraction=retention.free_fraction)
    return Capacity.of(
        num_checkpoints=num_checkpoints,
        num_needed_checkpoints=demands.chain.num_needed if demands.chain else 0,
        checkpoints_bytes=whole,
        further_checkpoint_bytes=demands.written_bytes,
        kept_weights_bytes=_whole(weights),
        exported_bytes=exported,
        capacity_bytes=whole + _whole(weights) + exported,
        usable_bytes=usable,
        raw_bytes=raw_bytes(usable, redundancy_fraction=retention.redundancy_fraction),
        written_bytes_per_day=demands.written_bytes * per_day,
        growth_bytes_per_day=growth,
    )


def _checkpoints_bytes(retention: Retention, demands: Demands) -> Numbers:
    chain = demands.chain
    if chain is None:
        return (retention.keep_last + retention.keep_best + 1) * demands.written_bytes
    return chain.kept_bytes(retention.keep_last + 1) + retention.keep_best * chain.full_bytes


def priced(assumption: Assumption, capacity: Capacity) -> Assumption:
    """An assumption with what more of it takes, where it is how many checkpoints are kept."""
    if assumption.field != "retention.keep_last":
        return assumption
    further = decimal_bytes_text(capacity.further_checkpoint_bytes)
    return assumption.model_copy(update={"reason": f"{assumption.reason}; each further one takes {further}"})


def _whole(num_bytes: Numbers) -> Numbers:
    return round(num_bytes) if isinstance(num_bytes, float | int) else np.round(num_bytes)
