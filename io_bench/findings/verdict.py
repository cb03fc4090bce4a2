"""What limited a rate, with a probability: the storage, the client, the network, the generator; or not told apart.

Each repetition says what fraction of its time, or of a resource, was in use. The limit is where that lies beyond a
threshold; how far beyond, and how well repetitions agree, says how sure it is.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from io_bench.findings.client_limit import CLIENT_BOUND_CPU_FRACTION, GENERATOR_BOUND_FRACTION, STORAGE_BOUND_RATIO
from sizing.storage.measurement import LimitedBy, Suspect

DECIDED_PROBABILITY = 0.9
"""A choice: below, one verdict in ten or more would be another one the next time."""
THREAD_BOUND_FRACTION = 1 / STORAGE_BOUND_RATIO
"""Of the time of a thread, by the same reasoning."""
LINK_BOUND_FRACTION = 0.9
"""A choice: headers of frames and acknowledgements take the rest of a link."""

_PRECISION = 0.1
"""Of log odds: what was counted is that far off, whatever the repetitions say. Near one half it is 2.5 points of the
time, as much as the watch of threads loses on average where they end with the operation."""
_MAX_ODDS = math.log(99)
"""Beyond 1 % and 99 % it matters no more how far."""


@dataclass(frozen=True, slots=True)
class Use:
    """What was in use in one repetition, as fractions; None of what was not measured.

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
        """Of the evidence that speaks most for the client. Throttling alone, where threads are not counted."""
        throttled = self.throttled if self.busy_thread is None else None
        times = (self.busy_thread, self.without_storage, throttled)
        of_times = [_log_odds(each, THREAD_BOUND_FRACTION) for each in times if each is not None]
        return max([*of_times, _log_odds(self.cpus, CLIENT_BOUND_CPU_FRACTION)])

    @property
    def tells_of_storage(self) -> bool:
        """Whether a client that was not the limit would have shown."""
        return self.busy_thread is not None or self.without_storage is not None


def limit_probabilities(uses: Sequence[Use]) -> dict[Suspect, float] | None:
    """How probable it is that each was the limit, in sum 1; None where nothing speaks for any of them.

    Who is asked first takes its probability, the next takes it of the rest: generator, client, network; the storage
    has what is left, as everything behind the network adapters of the nodes.

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
    found: dict[Suspect, float] = {}
    rest = 1.0
    for suspect, log_odds in evidence.items():
        share = rest * probability_above(log_odds) if log_odds else 0.0
        found[suspect], rest = share, rest - share
    found["storage"] = rest
    is_telling = all(use.tells_of_storage for use in uses) or rest < 1 - DECIDED_PROBABILITY
    return {suspect: round(share, 4) for suspect, share in found.items()} if is_telling else None


def limited_by(probabilities: Mapping[Suspect, float] | None) -> LimitedBy | None:
    """The limit where one is probable enough; None where nothing was known.

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
