"""Limits of a rate, with probabilities: the storage, the client, the network, the generator; or not told apart.

Each repetition says what fraction of its time, or of a resource, was in use. The limit is where that lies beyond a
threshold; how far beyond, and how well repetitions agree, says how sure it is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from io_bench.measure.stopwatch import OperationSample
from io_bench.results.series import Series
from sizing.storage.measurement import LimitedBy, Suspect

GENERATOR_BOUND_FRACTION = 0.05
"""A choice: below, the rate is at most that much too low, which is about the noise of storage."""
CLIENT_BOUND_CPU_FRACTION = 0.9
"""A choice: the rest of a CPU goes to interrupts and to what else runs on a node, so that no process sees all of it."""
STORAGE_BOUND_RATIO = 2.0
"""The client without storage is this much faster where storage takes more of the time than the client does."""


def cpu_fractions(series: Series) -> list[float]:
    """CPU time of a node's ranks over the time of their CPUs: the busiest node, in each repetition."""
    nodes, cpus_of_node = series.ranks.nodes, series.cpus_of_node

    def busiest(operation: OperationSample) -> float:
        cpu_seconds = dict.fromkeys(nodes, 0.0)
        for node, rank in zip(nodes, operation.ranks, strict=True):
            cpu_seconds[node] += rank.cpu_seconds
        return max(seconds / (operation.seconds * cpus_of_node[node]) for node, seconds in cpu_seconds.items())

    return [min(1.0, busiest(each)) for each in series.repetitions]


def thread_fractions(series: Series) -> list[float]:
    """CPU time of the busiest rank over the time of one CPU, in each repetition."""
    return [min(1.0, max(rank.cpu_seconds for rank in each.ranks) / each.seconds) for each in series.repetitions]


def busy_thread_fractions(series: Series) -> list[float] | None:
    """The part of its time in which the busiest thread of the slowest rank needed a CPU, in each repetition."""
    return _fractions_of_time(series, lambda each: [each.ranks[each.slowest].ready_seconds])


def run_delay_fractions(series: Series) -> list[float] | None:
    """The part of its time for which the busiest thread of a rank had no CPU: the worst rank, in each repetition."""
    return _fractions_of_time(series, lambda each: [rank.delay_seconds for rank in each.ranks])


def throttled_fractions(series: Series) -> list[float] | None:
    """The part of the time in whose periods a control group had no CPU time left: the worst rank, each repetition."""
    return _fractions_of_time(series, lambda each: [rank.throttled_seconds for rank in each.ranks])


def link_fractions(series: Series) -> list[float] | None:
    """The part of its link's rate that the busiest network adapter of any node carried, in each repetition."""
    return _fractions_of_time(series, lambda each: [rank.link_seconds for rank in each.ranks])


def rank_cpu_seconds(series: Series) -> list[float]:
    """CPU time of each rank, the median over the repetitions."""
    by_repetition = [[rank.cpu_seconds for rank in each.ranks] for each in series.repetitions]
    return [statistics.median(seconds) for seconds in zip(*by_repetition, strict=True)]


def _fractions_of_time(
    series: Series, seconds_of: Callable[[OperationSample], Sequence[float | None]]
) -> list[float] | None:
    """Largest time of any rank as a part of each repetition; None unless every repetition has one."""
    fractions = []
    for each in series.repetitions:
        known = [seconds for seconds in seconds_of(each) if seconds is not None]
        if not known:
            return None
        fractions.append(min(1.0, max(known) / each.seconds))
    return fractions


DECIDED_PROBABILITY = 0.9
"""A choice: below, one verdict in ten or more would be another one the next time."""
THREAD_BOUND_FRACTION = 1 / STORAGE_BOUND_RATIO
"""Part of a thread's time from which on it bounds the rate, by the same reasoning."""
LINK_BOUND_FRACTION = 0.9
"""A choice: headers of frames and acknowledgements take the rest of a link."""

_PRECISION = 0.1
"""Precision of log odds: what was counted is that far off, whatever the repetitions say. Near one half it is 2.5 points
of the time, as much as the watch of threads loses on average where they end with the operation."""
_MAX_ODDS = math.log(99)
"""Beyond 1 % and 99 % it matters no more how far."""


@dataclass(frozen=True, slots=True)
class Use:
    """Use of each resource in one repetition, as fractions; None of what was not measured.

    `busy_thread` of the slowest rank's time, in which its busiest thread needed a CPU; `cpus` of the CPU time of the
    busiest node; `without_storage` is the time of the client with writes discarded over that of the repetition;
    `generator` is waiting for bytes to write; `link` is of the busiest network adapter's rate; `throttled` is the time
    in periods without CPU time left.
    """

    cpus: float
    busy_thread: float | None = None
    without_storage: float | None = None
    generator: float | None = None
    link: float | None = None
    throttled: float | None = None

    @property
    def client_log_odds(self) -> float:
        """Log odds of the evidence that speaks most for the client; of throttling where threads are not counted."""
        throttled = self.throttled if self.busy_thread is None else None
        times = (self.busy_thread, self.without_storage, throttled)
        of_times = [_log_odds(each, THREAD_BOUND_FRACTION) for each in times if each is not None]
        return max([*of_times, _log_odds(self.cpus, CLIENT_BOUND_CPU_FRACTION)])

    @property
    def tells_of_storage(self) -> bool:
        """Whether a client that was not the limit would have shown."""
        return self.busy_thread is not None or self.without_storage is not None


def limit_probabilities(uses: Sequence[Use]) -> dict[Suspect, float] | None:
    """Compute for each suspect the probability that it was the limit, in sum 1; None where nothing speaks for any.

    The generator takes its probability first. The client takes its own of the rest, then the network of that rest. The
    storage has what remains: it stands for everything behind the network adapters of the nodes.

    >>> busy, idle = Use(cpus=0.3, busy_thread=0.9), Use(cpus=0.1, busy_thread=0.1)
    >>> limit_probabilities([busy] * 5)["client"] > 0.99, limit_probabilities([idle] * 5)["storage"] > 0.99
    (True, True)
    >>> 0.1 < limit_probabilities([busy, idle, busy, idle])["client"] < 0.9
    True
    """
    evidence: dict[Suspect, list[float]] = {
        "generator": [_log_odds(use.generator, GENERATOR_BOUND_FRACTION) for use in uses if use.generator is not None],
        "client": [use.client_log_odds for use in uses],
        "network": [_log_odds(use.link, LINK_BOUND_FRACTION) for use in uses if use.link is not None],
    }
    probabilities: dict[Suspect, float] = {}
    rest = 1.0
    for suspect, log_odds in evidence.items():
        probability = rest * probability_above(log_odds) if log_odds else 0.0
        probabilities[suspect], rest = probability, rest - probability
    probabilities["storage"] = rest
    is_telling = all(use.tells_of_storage for use in uses) or rest < 1 - DECIDED_PROBABILITY
    return {suspect: round(each, 4) for suspect, each in probabilities.items()} if is_telling else None


def limited_by(probabilities: Mapping[Suspect, float] | None) -> LimitedBy | None:
    """Name the limit where one is probable enough; None where nothing was known.

    >>> limited_by({"client": 0.95, "storage": 0.05}), limited_by({"client": 0.6, "storage": 0.4})
    ('client', 'not-told-apart')
    """
    if probabilities is None:
        return None
    suspect = max(probabilities, key=lambda each: probabilities[each])
    return suspect if probabilities[suspect] >= DECIDED_PROBABILITY else "not-told-apart"


def probability_above(log_odds: Sequence[float]) -> float:
    """The probability that the mean of what repetitions scatter around is above 0: T_n(m / sqrt(s^2 / n + e^2)).

    T_n is Student's distribution with n degrees of freedom for n repetitions, m their mean, e the precision of one
    count; s^2 = ((n - 1) v + e^2) / n has their variance v, and e^2 as one repetition more: it stands for all where
    there is but one.
    Source: Gelman et al. 2013, Bayesian Data Analysis, third edition, section 3.3: the mean of a normal distribution
    under a conjugate prior, here with one observation's worth of variance and none of the mean.

    >>> [round(probability_above([each] * 5), 2) for each in (-0.3, 0.0, 0.3)]
    [0.02, 0.5, 0.98]
    >>> round(probability_above([0.3]), 2), round(probability_above([-1.0, 1.6, -0.5, 1.1]), 2)
    (0.86, 0.69)
    """
    from scipy.special import stdtr  # noqa: PLC0415 - only a result needs it

    count, mean = len(log_odds), statistics.fmean(log_odds)
    squares = math.fsum((each - mean) ** 2 for each in log_odds)
    variance = (squares + _PRECISION**2) / count
    return float(stdtr(count, mean / math.sqrt(variance / count + _PRECISION**2)))


def _log_odds(fraction: float, threshold: float) -> float:
    """How far a fraction lies beyond its threshold: ln(f / (1 - f)) - ln(t / (1 - t)); 0 where it is the threshold."""
    return _logit(fraction) - _logit(threshold)


def _logit(fraction: float) -> float:
    if fraction <= 0 or fraction >= 1:
        return math.copysign(_MAX_ODDS, fraction - THREAD_BOUND_FRACTION)
    return min(max(math.log(fraction / (1 - fraction)), -_MAX_ODDS), _MAX_ODDS)


def limits(series: Series) -> dict[str, Any]:
    """Name what limited the rate, with probabilities, and the evidence as medians over the repetitions."""
    null_sink_seconds = series.samples.null_sink_seconds if series.is_write else None
    probabilities = limit_probabilities(_collect_uses(series, null_sink_seconds))
    return {
        "limited_by": limited_by(probabilities),
        "limit_probabilities": probabilities,
        "null_sink_bytes_per_second": sum(series.rank_bytes) / null_sink_seconds if null_sink_seconds else None,
        "generator_wait_fraction": _median(_generator_waits(series)),
        "client_cpu_fraction": _median(cpu_fractions(series)),
        "busy_thread_fraction": _median(busy_thread_fractions(series)),
        "run_delay_fraction": _median(run_delay_fractions(series)),
        "throttled_fraction": _median(throttled_fractions(series)),
        "link_fraction": _median(link_fractions(series)),
        "rank_cpu_seconds": rank_cpu_seconds(series),
    }


def _collect_uses(series: Series, null_sink_seconds: float | None) -> list[Use]:
    """Collect what was in use in each repetition."""
    # Object stores are talked to from one thread, which is as fast as one CPU.
    cpus = thread_fractions(series) if series.plan.transfer else cpu_fractions(series)
    unknown: list[None] = [None] * len(series.repetitions)
    without_storage = [null_sink_seconds / seconds if null_sink_seconds else None for seconds in series.seconds]
    columns = (
        cpus,
        busy_thread_fractions(series) or unknown,
        without_storage,
        _generator_waits(series) or unknown,
        link_fractions(series) or unknown,
        throttled_fractions(series) or unknown,
    )
    return [Use(*row) for row in zip(*columns, strict=True)]


def _generator_waits(series: Series) -> list[float] | None:
    """Largest fraction of each repetition that a rank waited for bytes; None for engines without a generator."""
    waits = [[report.generator_wait_fraction for report in ranks] for ranks in series.reports]
    known = [max(waited) for ranks in waits if (waited := [each for each in ranks if each is not None])]
    return known if len(known) == len(waits) else None


def _median(values: Sequence[float] | None) -> float | None:
    return statistics.median(values) if values else None
