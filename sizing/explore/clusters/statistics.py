"""What a simulation showed, as figures: stalls with their error, and the bandwidth used over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from sizing.explore.clusters.bandwidth import SharedBandwidth
from sizing.explore.clusters.observed import Observed
from sizing.storage.rates import Direction
from sizing.units import SECONDS_PER_DAY

PERCENTILES = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
"""The distribution as a line: closer where it bends, at both ends."""

_NUM_BATCHES = 20
"""Law and Kelton advise 20 to 30: fewer leave the error itself unsure, more make batches that are not independent."""
_STUDENT_T = 2.093
"""Of 19 degrees of freedom, 95 %."""
_BIN_SECONDS = 300.0
"""Shorter than a save of the larger jobs, long enough that a day is 288 points of a chart."""
_MAX_BINS = 100_000
"""Of horizons beyond a year, whose bins grow longer."""

_Array = npt.NDArray[np.float64]


class SimulatedStalls(BaseModel):
    """The stalls of a group's saves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_stalls: int = Field(description="Saves that were completed in the simulation.")
    mean_seconds: float = Field(description="Mean seconds for which a save stalls its job.")
    mean_error_seconds: float | None = Field(
        description="Half the 95 % interval of the mean, in seconds, from 20 batches. Null when a batch has no save."
    )
    p50_seconds: float = Field(description="Median seconds for which a save stalls its job.")
    p99_seconds: float = Field(description="Seconds within which 99 % of the stalls end.")
    max_seconds: float = Field(description="Seconds for which the slowest save stalls its job.")
    percentile_seconds: list[float] = Field(
        description="Seconds at the percentiles 0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9 and 100."
    )


class SimulatedUse(BaseModel):
    """How the file system was used."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean_bytes_per_second: float = Field(description="Mean rate over the simulated time, in bytes per second.")
    p99_bytes_per_second: float = Field(description="Rate not exceeded for 99 % of the time, in bytes per second.")
    peak_bytes_per_second: float = Field(description="Max rate at any moment, in bytes per second.")
    limited_fraction: float = Field(description="Fraction of the time for which transfers could have taken more.")


class Moment(BaseModel):
    """The mean rates of some minutes of the busiest day."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_seconds: float = Field(description="Seconds from the start of the simulation.")
    write_bytes_per_second: float = Field(description="Mean write rate until the next entry, in bytes per second.")
    read_bytes_per_second: float = Field(description="Mean read rate until the next entry, in bytes per second.")

    def bytes_per_second(self, direction: Direction) -> float:
        """Of the writes, or of the reads."""
        return self.write_bytes_per_second if direction == "write" else self.read_bytes_per_second


def stalls_of(observed: Observed, *, horizon_seconds: float) -> SimulatedStalls | None:
    """The figures of a group's stalls, or None where no save was completed."""
    stalls = np.asarray(observed.stall_seconds)
    if not len(stalls):
        return None
    percentiles = [float(value) for value in np.percentile(stalls, PERCENTILES)]
    by_percentile = dict(zip(PERCENTILES, percentiles, strict=True))
    return SimulatedStalls(
        num_stalls=len(stalls),
        mean_seconds=float(stalls.mean()),
        mean_error_seconds=_batch_error(stalls, np.asarray(observed.at_seconds) / horizon_seconds),
        p50_seconds=by_percentile[50],
        p99_seconds=by_percentile[99],
        max_seconds=by_percentile[100],
        percentile_seconds=percentiles,
    )


def use_of(storage: SharedBandwidth, *, horizon_seconds: float) -> SimulatedUse:
    """How a file system was used over the horizon."""
    trace = _trace(storage, horizon_seconds)
    order = np.argsort(trace.rates)
    share = np.cumsum(trace.seconds[order]) / horizon_seconds
    return SimulatedUse(
        mean_bytes_per_second=float(trace.rates @ trace.seconds) / horizon_seconds,
        p99_bytes_per_second=float(trace.rates[order][min(int(np.searchsorted(share, 0.99)), len(order) - 1)]),
        peak_bytes_per_second=float(trace.rates.max()),
        limited_fraction=storage.limited_seconds / horizon_seconds,
    )


def busiest_day(write: SharedBandwidth, read: SharedBandwidth | None, *, horizon_seconds: float) -> list[Moment]:
    """Mean rates of every five minutes of the day with the max of bytes in five minutes."""
    num_bins = max(1, min(_MAX_BINS, round(horizon_seconds / _BIN_SECONDS)))
    edges = np.linspace(0, horizon_seconds, num_bins + 1)
    written = _mean_rates(_trace(write, horizon_seconds), edges)
    were_read = _mean_rates(_trace(read, horizon_seconds), edges) if read else np.zeros(num_bins)
    per_day = max(1, round(SECONDS_PER_DAY / horizon_seconds * num_bins))
    first = int(np.argmax(written + were_read)) // per_day * per_day
    return [
        Moment(at_seconds=edges[i], write_bytes_per_second=written[i], read_bytes_per_second=were_read[i])
        for i in range(first, min(first + per_day, num_bins))
    ]


class _Trace(NamedTuple):
    """Rates that held from each moment on, for so many seconds."""

    at: _Array
    seconds: _Array
    rates: _Array


def _trace(storage: SharedBandwidth, horizon_seconds: float) -> _Trace:
    at = np.asarray(storage.change_seconds)
    return _Trace(at, np.diff(at, append=horizon_seconds), np.asarray(storage.rates_after))


def _mean_rates(trace: _Trace, edges: _Array) -> _Array:
    moved = np.concatenate([[0.0], np.cumsum(trace.rates * trace.seconds)])
    at = np.append(trace.at, edges[-1])
    means: _Array = np.diff(np.interp(edges, at, moved)) / np.diff(edges)
    return means


def _batch_error(stalls: _Array, at_fraction: _Array) -> float | None:
    """Half the 95 % confidence interval of the mean from batch means.

    Source: Law and Kelton, Simulation Modeling and Analysis, section 9.5.3.
    """
    batch = np.minimum((at_fraction * _NUM_BATCHES).astype(int), _NUM_BATCHES - 1)
    sizes = np.bincount(batch, minlength=_NUM_BATCHES)
    if not sizes.all():
        return None
    means = np.bincount(batch, stalls, minlength=_NUM_BATCHES) / sizes
    return float(_STUDENT_T * means.std(ddof=1) / _NUM_BATCHES**0.5)
