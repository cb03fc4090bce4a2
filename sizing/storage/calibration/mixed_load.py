"""Whether reads and writes share one limit: from saves beside which batches were read."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from sizing.storage.calibration.calibration import MixedLoad, MixedVerdict
from sizing.storage.calibration.uncertainty import student_quantile
from sizing.storage.measurement import BenchmarkResult, Measurement
from sizing.storage.workload_shape import Company

MAX_OF_ONE_LIMIT = 1.25
"""Of the sum of both fractions, 1 where one limit is shared. A choice: half way to 1.5, where each loses a quarter."""
MIN_OF_OWN_LIMITS = 1.75
"""Of the same, 2 where each has a limit of its own. A choice, as far from 1.5."""
MIN_REPETITIONS = 3
"""Of two the spread is unknown within a factor of ten: Student's t is 6.3."""


def mixed_load(results: Sequence[BenchmarkResult], *, engine: str | None) -> MixedLoad | None:
    """What saves beside batches say of a shared limit; None where there are too few.

    Args: `engine` whose saves count. The interval is Student's, of independent repetitions.
    """
    found = [
        fraction
        for measurement, company in _mixed(results, engine)
        for fraction in used_fractions(measurement.seconds, company)
    ]
    if len(found) < MIN_REPETITIONS:
        return None
    mean = statistics.fmean(found)
    error = student_quantile(len(found) - 1) * statistics.stdev(found) / len(found) ** 0.5
    low, high = mean - error, mean + error
    return MixedLoad(verdict=_verdict(low, high), used_fraction=mean, interval=(low, high), num_repetitions=len(found))


def used_fractions(save_seconds: Sequence[float], company: Company) -> list[float]:
    """The fractions of their rates that a save and the reads beside it kept, added: r_w / R_w + r_r / R_r.

    Args: `save_seconds` of each repetition with the reads beside it; `company` has each alone, by repetition.
    Source: utilization law, Lazowska et al. 1984, Quantitative System Performance, section 3.3: of one resource, busy
    all the time, the fractions that each load takes of it add to 1; of one resource each they add to 2.

    >>> company = Company(name="batches", unit="bytes", alone_rates=[100.0], rates=[50.0], loss_fraction=0.5,
    ...     save_alone_seconds=[2.0], save_loss_fraction=0.5)
    >>> used_fractions([4.0], company)
    [1.0]
    """
    rows = zip(save_seconds, company.save_alone_seconds, company.rates, company.alone_rates, strict=True)
    return [alone / seconds + rate / alone_rate for seconds, alone, rate, alone_rate in rows if alone_rate > 0]


def mixed_sentence(found: MixedLoad) -> str:
    """What it means to whoever predicts saves that data is read beside."""
    low, high = found.interval
    kept = f"beside each other they kept {found.used_fraction:.2f} of their rates in sum ({low:.2f} to {high:.2f})"
    if found.verdict == "one-limit":
        return f"Reads and writes share one limit: {kept}. A save beside reads takes longer than predicted"
    if found.verdict == "own-limits":
        return f"Reads and writes took nothing from each other: {kept}, so no limit was seen that both share"
    return f"Whether reads and writes share a limit cannot be told: {kept}"


def _mixed(results: Sequence[BenchmarkResult], engine: str | None) -> Iterator[tuple[Measurement, Company]]:
    for result in results:
        for measurement in result.measurements:
            company = measurement.shape.beside if measurement.shape else None
            is_asked = engine in (None, measurement.engine) and measurement.operation == "write"
            if company is not None and company.unit == "bytes" and is_asked and measurement.verified:
                yield measurement, company


def _verdict(low: float, high: float) -> MixedVerdict:
    if high <= MAX_OF_ONE_LIMIT:
        return "one-limit"
    return "own-limits" if low >= MIN_OF_OWN_LIMITS else "not-told-apart"
