"""Whether a storage system became slower or faster: rates of like runs over time, each against those before it.

Like are measurements of the same operation, setting and configuration: their `series` says all of it. Each new rate
alone, and the two latest together, are held against the level before: the geometric mean of up to 20 earlier runs. They
differ where they lie outside of what the spread of those runs explains.
"""

from __future__ import annotations

import functools
import hashlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from sizing.storage.calibration.rows import Row, reasons_against
from sizing.storage.measurement import Measurement

Change = Literal["loss", "gain"]
CHANGES: tuple[Change, ...] = get_args(Change)

MAX_SERIES_CHARACTERS = 300
"""Of a series: all numbers of a measurement and its words. What is longer ends in a digest."""
FALSE_LOSSES_PER_RUN = 0.002
"""Runs that the tests call a loss though nothing changed: one in 500, more than a year of nightly runs. A choice: rarer
ones would let real losses wait for more runs. Runs once called so narrow the spread of the others; simulated, it is
one in 400."""
MIN_EARLIER_RUNS = 5
"""Before a rate is judged. A choice: with fewer, Student's t asks for changes of a multiple."""
MAX_EARLIER_RUNS = 20
"""That a level rests on: more narrow the limits by less than 3 %, and let it lag behind slow drifts."""
MIN_CHANGE_FRACTION = 0.05
"""Smaller ones are not marked. A choice: nobody acts on them, and rates of a day and a night differ by as much."""
_MIN_CHANGE = -math.log1p(-MIN_CHANGE_FRACTION)
"""The same, of the logarithm of a rate."""
MIN_SPREAD = 0.01
"""Standard deviation of log rates below which no series is believed to be: a handful of runs may be alike by chance."""


def series_of(measurement: Measurement) -> str | None:
    """What a measurement may be compared with over time, in words; None where it tells nothing of the storage."""
    found = measurement
    row = Row("", found)
    if any(reasons_against(row, None)):
        return None
    asked = found.payload_bytes_per_rank or found.bytes_per_rank
    facts = {
        "block bytes": found.block_bytes,
        "threads per rank": found.threads_per_rank,
        "nodes": found.num_nodes,
        "ranks": found.num_ranks,
        "bytes per rank": asked,
        "files": row.num_files,
    }
    words = [f"{found.operation} by {found.engine}", found.cache_policy, row.setting[3]]
    text = ", ".join([*filter(None, words), *(f"{name} {value}" for name, value in facts.items() if value is not None)])
    if len(text) <= MAX_SERIES_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text[: MAX_SERIES_CHARACTERS - len(digest)] + digest


@dataclass(frozen=True, slots=True)
class Judged:
    """A rate beside the level before it."""

    expected: float | None
    """The level, in the unit of the rate; None before there are enough earlier runs."""
    change: Change | None
    is_lost: bool
    """Whether the series is at a loss with this run: the run is one, or its level began with one."""


@dataclass(slots=True)
class _Series:
    """What is known of a series before the next rate: log rates of its level and of the level before."""

    level: list[float] = field(default_factory=list)
    former: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)
    """The latest runs that differed from the level, one after the other."""
    began_with: Change | None = None

    def judged(self, log_rate: float, num_tests: int) -> Judged:
        """The verdict on the next rate, which then belongs to what is known."""
        if not self._is_known():
            self.level = [*self.level, log_rate][-MAX_EARLIER_RUNS:]
            return Judged(None, None, self.began_with == "loss")
        expected = math.exp(statistics.fmean(self.level))
        alone = self._departure([log_rate], self.level, num_tests)
        together = self._lasting(log_rate, num_tests)
        change = together or alone
        if together:
            self._begin([self._latest(), log_rate], together)
        elif alone:
            self.outside.append(log_rate)
            if len(self.outside) == MIN_EARLIER_RUNS:  # no level any more, only a wider spread
                self._begin(self.outside, alone)
        else:
            self.level, self.outside = [*self.level, log_rate][-MAX_EARLIER_RUNS:], []
        return Judged(expected, change, change == "loss" or (change is None and self.began_with == "loss"))

    def _is_known(self) -> bool:
        return len(self.level) >= 2 and self._freedom(self.level) >= MIN_EARLIER_RUNS - 1

    def _freedom(self, level: Sequence[float]) -> int:
        return len(level) - 1 + max(len(self.former) - 1, 0)

    def _begin(self, level: list[float], change: Change) -> None:
        self.former, self.level, self.outside, self.began_with = self.level, list(level), [], change

    def _latest(self) -> float:
        return self.outside[-1] if self.outside else self.level[-1]

    def _lasting(self, log_rate: float, num_tests: int) -> Change | None:
        """The change of the two latest runs together, where it is not one of them that makes it."""
        before = self.level if self.outside else self.level[:-1]
        if len(before) < 2 or self._freedom(before) < MIN_EARLIER_RUNS - 1:
            return None
        latest, mean = self._latest(), statistics.fmean(before)
        both = (latest - mean, log_rate - mean)
        if min(both) * max(both) <= 0 or min(map(abs, both)) < max(map(abs, both)) / 3:
            return None
        return self._departure([latest, log_rate], before, num_tests)

    def _departure(self, rates: Sequence[float], level: Sequence[float], num_tests: int) -> Change | None:
        """Whether the mean of log rates lies outside of its prediction interval, and far enough to matter."""
        departure = statistics.fmean(rates) - statistics.fmean(level)
        if abs(departure) <= _MIN_CHANGE:  # of most rates, which need no spread then
            return None
        squares = _squares(level) + _squares(self.former)
        spread = max(math.sqrt(squares / self._freedom(level)), MIN_SPREAD)
        limit = prediction_limit(len(rates), len(level), self._freedom(level), FALSE_LOSSES_PER_RUN / 2 / num_tests)
        if abs(departure) <= limit * spread:
            return None
        return "loss" if departure < 0 else "gain"


def judged_rates(rates: Sequence[float], num_tests: Sequence[int] | None = None) -> list[Judged]:
    """Each rate of a series, the earliest first, beside the level before it.

    Args: `rates` > 0, of any one unit. `num_tests`, one per rate, how many series the run of that rate has: a run
    raises a false alarm no oftener for having many. Default: 1.
    """
    series = _Series()
    tests = num_tests or [1] * len(rates)
    return [series.judged(math.log(rate), count) for rate, count in zip(rates, tests, strict=True)]


def _squares(level: Sequence[float]) -> float:
    """Sum of the squared distances to the mean."""
    mean = sum(level) / max(len(level), 1)
    return sum((value - mean) ** 2 for value in level)


@functools.lru_cache(maxsize=10_000)
def prediction_limit(num_new: int, num_earlier: int, degrees_of_freedom: int, probability: float) -> float:
    """How far the mean of new values may lie from that of earlier ones, in standard deviations: t sqrt(1/m + 1/n).

    Args: m = `num_new` values, n = `num_earlier`; t is the quantile of Student's t at 1 - `probability`, with the
    degrees of freedom of the standard deviation. No units.
    Source: Hahn and Meeker 1991, Statistical Intervals, chapter 4 (prediction interval of the mean of m future
    observations of a normal population); one-sided.

    >>> round(prediction_limit(1, 10, 9, 0.001), 2), round(prediction_limit(2, 10, 9, 0.001), 2)
    (4.51, 3.33)
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - only fits and trends need it

    return float(stdtrit(degrees_of_freedom, 1 - probability)) * math.sqrt(1 / num_new + 1 / num_earlier)


class RatedRun(NamedTuple):
    """The rate of one run in bytes per second, when it was published, and the verdict on it."""

    run_id: str
    published_at: datetime
    bytes_per_second: float
    judged: Judged


@dataclass(frozen=True, slots=True)
class RatedSeries:
    """The rates of like runs, the earliest first; at least one."""

    series: str
    rates: Sequence[RatedRun]

    @property
    def operation(self) -> str:
        """What was timed, and by which engine: the first words of the series.

        >>> RatedSeries("write by direct, nodes 1", ()).operation
        'write by direct'
        """
        return self.series.partition(", ")[0]

    @property
    def conditions(self) -> str:
        """What else its runs have in common: the other words."""
        return self.series.partition(", ")[2]

    @property
    def latest_loss(self) -> RatedRun | None:
        """The run that was the latest loss of a series that is at a loss now; None of any other."""
        if not self.rates[-1].judged.is_lost:
            return None
        return [rated for rated in self.rates if rated.judged.change == "loss"][-1]
