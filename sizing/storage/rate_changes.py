"""Whether a storage system became slower or faster: rates of like runs over time, each against those before it.

Like are measurements of the same operation, setting and configuration: their `series` says all of it. Each new rate
alone, and the two latest together, are held against the level before: the geometric mean of up to 20 earlier runs. They
differ where they lie outside of what the spread of those runs explains.

Each source of runs has one voice, however many it publishes: its rates are held against its own level, and the series
is at a loss where the most voices say so.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Literal, NamedTuple, get_args

from sizing.storage.calibration.agreement import Publisher
from sizing.storage.calibration.fit_data import RunMeasurement, reasons_against
from sizing.storage.measurement import Measurement

Change = Literal["loss", "gain"]
CHANGES: tuple[Change, ...] = get_args(Change)

MAX_SERIES_CHARACTERS = 300
"""Max length of the name of a series: all numbers of a measurement and its words. Longer names end in a digest."""
FALSE_LOSSES_PER_RUN = 0.002
"""Runs that the tests call a loss though nothing changed: one in 500, more than a year of nightly runs. A choice: rarer
ones would let real losses wait for more runs. Runs once called so narrow the spread of the others; simulated, it is
one in 400."""
MIN_EARLIER_RUNS = 5
"""Before a rate is judged. A choice: with fewer, Student's t asks for changes of a multiple."""
MAX_EARLIER_RUNS = 20
"""Max of runs that a level rests on: more narrow the limits by less than 3 %, and let it lag behind slow drifts."""
MIN_CHANGE_FRACTION = 0.05
"""Smaller ones are not marked. A choice: nobody acts on them, and rates of a day and a night differ by as much."""
_MIN_CHANGE = -math.log1p(-MIN_CHANGE_FRACTION)
"""The same, of the logarithm of a rate."""
MIN_SPREAD = 0.01
"""Standard deviation of log rates below which no series is believed to be: a handful of runs may be alike by chance."""


DAYS_OF_A_LOSS = 30
"""For which a loss counts after the latest run of the source that saw it, against sources that see none since. A
choice: less would let storage that is measured every month go, more would keep the losses of tokens that are gone."""


def series_of(measurement: Measurement) -> str | None:
    """What a measurement may be compared with over time, in words; None where it tells nothing of the storage."""
    row = RunMeasurement("", measurement)
    if any(reasons_against(row, None)):
        return None
    facts = {
        "block bytes": measurement.block_bytes,
        "threads per rank": measurement.threads_per_rank,
        "nodes": measurement.num_nodes,
        "ranks": measurement.num_ranks,
        "bytes per rank": measurement.payload_bytes_per_rank or measurement.bytes_per_rank,
        "files": row.num_files,
    }
    operation = f"{measurement.operation} by {measurement.engine}"
    words = [operation, measurement.cache_policy, row.setting[3]]
    text = ", ".join([*filter(None, words), *(f"{name} {value}" for name, value in facts.items() if value is not None)])
    if len(text) <= MAX_SERIES_CHARACTERS:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return text[: MAX_SERIES_CHARACTERS - len(digest)] + digest


@dataclass(frozen=True, slots=True)
class RateVerdict:
    """How a rate compares with the level that its series had before it."""

    expected: float | None
    """The level, in the unit of the rate; None before there are enough earlier runs."""
    change: Change | None
    is_lost: bool
    """Whether the series is at a loss with this run: the run is one, or its level began with one.

    Where sources differ: whether the most of them say so, or else the senior one.
    """


@dataclass(slots=True)
class _Series:
    """What is known of a series before the next rate: log rates of its level and of the level before."""

    level: list[float] = field(default_factory=list)
    former: list[float] = field(default_factory=list)
    outside: list[float] = field(default_factory=list)
    """The latest runs that differed from the level, one after the other."""
    began_with: Change | None = None

    def judge(self, log_rate: float, num_tests: int) -> RateVerdict:
        """Judge the next rate, which then belongs to what is known."""
        if not self._is_known():
            self.level = [*self.level, log_rate][-MAX_EARLIER_RUNS:]
            return RateVerdict(None, None, self.began_with == "loss")
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
        return RateVerdict(expected, change, change == "loss" or (change is None and self.began_with == "loss"))

    @property
    def has_had_level(self) -> bool:
        """Whether a run was ever held against a level, or the next one would be."""
        return self.began_with is not None or self._is_known()

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


class RunPublication(NamedTuple):
    """Who published a run, and when."""

    source: Publisher
    at: datetime


def judge_rates(
    rates: Sequence[float], num_tests: Sequence[int] | None = None, published: Sequence[RunPublication] | None = None
) -> list[RateVerdict]:
    """Each rate of a series, the earliest first, beside the level that its source had before it.

    A source that is new begins with the level of the senior one, so that a new token forgets nothing.
    Args: `rates` > 0, of any one unit. `num_tests`, one per rate, how many series the run of that rate has: a run
    raises a false alarm no oftener for having many. Default: 1. `published`, one per rate. Default: all by one source.
    """
    tests = num_tests or [1] * len(rates)
    if published is None:
        series = _Series()
        return [series.judge(math.log(rate), count) for rate, count in zip(rates, tests, strict=True)]
    voices: dict[Publisher, _Voice] = {}
    verdicts = []
    for rate, count, (source, at) in zip(rates, tests, published, strict=True):
        if source not in voices:
            known = [voice for voice in voices.values() if voice.series.has_had_level]
            series = copy.deepcopy(min(known, key=lambda voice: voice.rank).series) if known else _Series()
            voices[source] = _Voice(source, series, at)
        verdict = voices[source].judge(math.log(rate), count, at)
        verdicts.append(replace(verdict, is_lost=_is_lost(voices.values(), at)))
    return verdicts


@dataclass(slots=True)
class _Voice:
    """What the runs of one publisher say of a series."""

    source: Publisher
    series: _Series
    heard_at: datetime
    lost_since: datetime | None = None
    """Since when it sees a loss; None where it sees none."""

    @property
    def rank(self) -> tuple[bool, datetime, str]:
        """The least is the senior one: that of an owner, or else of the source that was admitted first."""
        return not self.source.is_owner, self.source.since, self.source.name

    def judge(self, log_rate: float, num_tests: int, at: datetime) -> RateVerdict:
        """Judge the next rate of this source by its own series alone."""
        verdict = self.series.judge(log_rate, num_tests)
        self.heard_at, self.lost_since = at, (self.lost_since or at) if verdict.is_lost else None
        return verdict


def _is_lost(voices: Collection[_Voice], now: datetime) -> bool:
    """Whether more sources see a loss than have published since it began and see none; of as many, the senior's."""
    lost = [voice for voice in voices if voice.lost_since is not None]
    begin = min((voice.lost_since for voice in lost if voice.lost_since is not None), default=now)
    unhurt = [
        voice for voice in voices if voice.lost_since is None and voice.heard_at >= begin and voice.series.has_had_level
    ]
    if not lost or not unhurt:
        return bool(lost)
    lasting = [voice for voice in lost if now - voice.heard_at <= timedelta(days=DAYS_OF_A_LOSS)]
    if len(lasting) != len(unhurt):
        return len(lasting) > len(unhurt)
    return min([*lasting, *unhurt], key=lambda voice: voice.rank).lost_since is not None


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
    judged: RateVerdict


@dataclass(frozen=True, slots=True)
class RatedSeries:
    """The rates of like runs, the earliest first; at least one. `earlier` are those before, which are not shown."""

    series: str
    rates: Sequence[RatedRun]
    earlier: Sequence[RatedRun] = ()

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
        every = [*self.earlier, *self.rates]
        if not every[-1].judged.is_lost:
            return None
        losses = [rated for rated in every if rated.judged.change == "loss"]
        return ([rated for rated in losses if rated.judged.is_lost] or losses)[-1]  # rather one that sources agree on
