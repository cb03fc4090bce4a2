"""From result documents to a Calibration: fits, grade, mixed load and warnings."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import get_args

import numpy as np

from sizing.errors import InvalidInput
from sizing.storage.calibration import suggestions
from sizing.storage.calibration.agreement import find_doubts, find_odd_run
from sizing.storage.calibration.calibration import (
    BEYOND,
    MAX_USEFUL_RATIO,
    Calibration,
    DirectionFit,
    FittedPoint,
    Grade,
    MixedLoad,
    MixedVerdict,
    UseGrade,
)
from sizing.storage.calibration.fit import fit_direction
from sizing.storage.calibration.fit_data import (
    MIN_CONFIGURATIONS,
    OPERATIONS,
    UNTIL_VERIFIED,
    FitData,
    configuration_text,
    contradiction_text,
    corruption_sentence,
    dates_of,
    select_fit_data,
    unlike_pairs,
)
from sizing.storage.calibration.prediction import predict_by_fit
from sizing.storage.calibration.uncertainty import student_quantile
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.profile import StorageProfile
from sizing.storage.rates import Direction
from sizing.storage.terms import Demand
from sizing.storage.workload_shape import BackgroundLosses
from sizing.units import decimal_bytes_text, percent_text

MAX_OF_ONE_LIMIT = 1.25
"""Max sum of both fractions that tells of one limit, where it is 1. A choice: half way to 1.5."""
MIN_OF_OWN_LIMITS = 1.75
"""Min sum of both fractions that tells of a limit for each, where it is 2. A choice, as far from 1.5."""
MIN_REPETITIONS = 3
"""Min of repetitions: of two the spread is unknown within a factor of ten, as Student's t is 6.3."""

GRADES: tuple[tuple[Grade, float, int, int], ...] = (("A", 0.05, 2, 12), ("B", 0.10, 1, 8), ("C", 0.25, 0, 4))
"""Grade, max held-out error, min measured shared limits, min configurations; the first that fits."""

MAX_FRONTIER_ERRORS: dict[Grade, float] = {"A": 0.10, "B": 0.10, "C": 0.25, "D": float("inf")}
"""Max error of the worst prediction for a largest configuration; as the max of many, no grade asks for below 10 %."""

MAX_RATIOS: dict[Grade, float] = {"A": 2.0, "B": MAX_USEFUL_RATIO, "C": MAX_USEFUL_RATIO**2, "D": float("inf")}
"""Max ratio of the ends of the interval at BEYOND times the nodes. Storage is bought in steps of two; below B no
prediction is useful."""

MISSED_FRACTION = 0.08
"""Fraction of measurements outside of their own 90 % intervals where the model is right: below a tenth, as a fit moves
towards what it fits. Measured: 2.4 of 40 in simulated scans of rooflines."""
MISSED_CHANCE = 0.1
"""Probability with which a model that is right would be taken for a wrong one."""

MAX_OUTLIERS_FRACTION = 0.05
MIN_OUTLIERS = 3
"""Outliers that say that others used the storage: at least so many, and more than that fraction of the measurements.
Two or three of forty may be single events; more come back in what is predicted."""

SERVER_MEMORY_BYTES = 4_000_000_000_000
"""Bytes below which reads may have come from the memory of servers, which hold what was just written. A guess: sixteen
servers of 256 GB."""

_ORDER: tuple[Grade, ...] = get_args(Grade)

DEFAULT_DRAWS = 1_000
"""Ends of a 90 % interval from 1,000 draws rest on the outer 50 on either side."""

NOTABLE_MISS_FRACTION = 0.25
NOTABLE_MISS_DEVIATIONS = 4
"""Distances of a measured time from its prediction that make an outlier: both must be exceeded. A choice: of normal
noise, one in 16,000 lies four deviations off, and where storage is calm a few percent are no reason to doubt a run."""

MAX_REASONS = 100
"""Max of reasons for a grade in a document; there are some for each thing that differs between runs."""

MAX_WARNINGS_OF_A_RUN = 3
"""Max of warnings of one result document; a scan has one for each configuration, mostly alike."""

MIN_RATIO_OF_SIZES = 1.5
"""Between bytes per rank that count as two sizes. A guess: closer, a fixed time changes the rate by less than noise
does."""


def calibrate(
    results: Sequence[BenchmarkResult], *, engine: str | None = None, num_draws: int = DEFAULT_DRAWS, seed: int = 0
) -> Calibration:
    """The Calibration of one storage system by all given runs; equal input and seed give equal output.

    Args: `engine`, where the runs have several, another than that with the max of configurations; `num_draws` of the
    bootstrap.
    Raises InvalidInput where too few configurations are left to fit, where runs contradict each other, or where two
    that differ have one id.
    """
    given, results = Counter(result.run_id for result in results), select_distinct(results)
    writes = select_fit_data(results, "write", engine=engine)
    reads = select_fit_data(results, "read", engine=writes.engine if writes.rows else engine)
    both = (writes, reads)
    used = [data for data in both if data.num_configurations >= MIN_CONFIGURATIONS]
    corruption = corruption_sentence(results)
    if not used:
        raise _too_few(both, is_corrupt=corruption is not None)
    fits = {data.direction: fit_direction(data, num_draws=num_draws, seed=seed) for data in used}
    run_ids = tuple(dict.fromkeys(row.run_id for data in used for row in data.rows))
    fitted_results = [result for result in results if result.run_id in run_ids]
    doubts = (*find_doubts(fitted_results), *_one_size(fits))
    profile = _profile(fits.values())
    inside, beyond = grade_uses(fits, profile, doubts=doubts, corruption=corruption)
    worse = max(inside, beyond, key=lambda use: _ORDER.index(use.grade))
    mixed = mixed_load(results, engine=used[0].engine)
    warnings = chain(
        [corruption] if corruption else [],
        (f"run {run_id} was given {count} times and counts once" for run_id, count in given.items() if count > 1),
        doubts,
        [mixed_sentence(mixed)] if mixed else [],
        *map(find_odd_run, both),
        *map(_data_warnings, both),
        *map(_fit_warnings, fits.values()),
        *map(_run_warnings, fitted_results),
    )
    return Calibration(
        profile=profile,
        engine=used[0].engine,
        run_ids=run_ids,
        measured_on=max(dates_of(fitted_results), default=None),
        grade=worse.grade,
        grade_reasons=beyond.reasons,
        inside=inside,
        beyond=beyond,
        write=fits.get("write"),
        read=fits.get("read"),
        mixed_load=mixed,
        warnings=tuple(dict.fromkeys(warnings)),
    )


def select_distinct(results: Sequence[BenchmarkResult]) -> list[BenchmarkResult]:
    """Each run once, however many copies of its document there are: a copy is no evidence.

    Raises InvalidInput where two documents of one id differ.
    """
    by_id: dict[str, BenchmarkResult] = {}
    for result in results:
        if by_id.setdefault(result.run_id, result) != result:
            raise InvalidInput.of(
                "run_id",
                "must differ between result documents that say different things",
                value=result.run_id,
                remedy="remove the document that was changed, or give each run its own id",
            )
    return list(by_id.values())


def _profile(fits: Iterable[DirectionFit]) -> StorageProfile:
    """The limits that predictions compute with: those by which the fits' own tables are predicted."""
    fields: dict[str, float] = {}
    for fit in fits:
        fields |= fit.chosen
        fields |= {limit.field: limit.profile_value for limit in fit.limits if limit.profile_value is not None}
    return StorageProfile.model_validate(fields)


def _too_few(both: Sequence[FitData], *, is_corrupt: bool) -> InvalidInput:
    configurations = {row.configuration for data in both for row in data.rows}
    reasons = "; ".join(note for data in both for note in data.left_out)
    found = ", ".join(sorted(map(configuration_text, configurations))) or "none"
    rule = f"must have at least {MIN_CONFIGURATIONS} configurations of the same operation and settings, found {found}"
    remedy = (
        f"{UNTIL_VERIFIED}, and measure again then"
        if is_corrupt
        else suggestions.further_runs([row for data in both for row in data.rows])
    )
    return InvalidInput.of("measurements", rule + (f" ({reasons})" if reasons else ""), value=None, remedy=remedy)


def _one_size(fits: Mapping[Direction, DirectionFit]) -> Iterator[str]:
    """Without a second size the rates may hold the times that do not grow with bytes."""
    of_size: dict[str, list[str]] = {}
    for direction, fit in fits.items():
        low, high = fit.covered.bytes_per_stream
        if high < MIN_RATIO_OF_SIZES * low:
            of_size.setdefault(decimal_bytes_text(high), []).append(f"{OPERATIONS[direction]}s")
    for size, operations in of_size.items():
        yield (
            f"One size: all {' and '.join(operations)} moved about {size} per rank, so times that do not grow with "
            "bytes cannot be separated from the rates. Measure a second size"
        )


def _data_warnings(data: FitData) -> Iterator[str]:
    """What was left out, what is missing, like runs that differ the most, and what the client limited."""
    for note in data.left_out:
        yield f"left out: {note}"
    if data.num_configurations < MIN_CONFIGURATIONS:
        yield (
            f"No {OPERATIONS[data.direction]} limits: {data.num_configurations} usable configuration(s), "
            f"{MIN_CONFIGURATIONS} are required; {suggestions.further_runs(data.rows)}"
        )
    pairs = unlike_pairs(data.rows)
    for slow, fast in sorted(pairs, key=lambda pair: pair[1].seconds / pair[0].seconds)[:1]:
        yield (
            f"Like runs differ by a factor of {slow.seconds / fast.seconds:.3g}: {contradiction_text(slow, fast)}. As "
            "the spread of their own repetitions may explain it, both count, and every interval of a prediction is at "
            "least so wide to either side"
        )
    if count := sum(m.headline_bytes_per_second < m.bytes_per_second for m in (row.measurement for row in data.rows)):
        yield (
            f"{count} {OPERATIONS[data.direction]} measurement(s) fell to a lower rate, as where a cache is full. They "
            "count with the rate that went on, not with the median of their repetitions"
        )
    count = sum(row.measurement.limited_by == "client" for row in data.rows)
    if count:
        yield (
            f"{count} {OPERATIONS[data.direction]} measurement(s) were limited by the client. Their writer and node "
            "limits are those of the clients and the engine; the storage may be faster"
        )


def _fit_warnings(fit: DirectionFit) -> Iterator[str]:
    """Configurations that say that the model is wrong, then other measurements that the fit does not explain."""
    for found in fit.wrong_here[:MAX_WARNINGS_OF_A_RUN]:
        where = configuration_text(
            (found.num_nodes, found.num_streams, found.total_bytes // found.num_streams, found.num_streams, 0)
        )
        yield (
            f"The model is wrong here: {where} took {percent_text(abs(found.miss_fraction))} "
            f"{'longer' if found.miss_fraction > 0 else 'less'} than predicted: {found.reason}"
        )
    if (more := len(fit.wrong_here) - MAX_WARNINGS_OF_A_RUN) > 0:
        yield f"The model is wrong in {more} more configuration(s)"
    for point, miss in _outliers(fit):
        size = point.total_bytes // point.num_streams
        where = configuration_text((point.num_nodes, point.num_streams, size, point.num_files, 0))
        yield (
            f"Outlier: {where} (run {point.run_id}) took {percent_text(abs(miss))} "
            f"{'longer' if miss > 0 else 'less'} than predicted"
        )


def _outliers(fit: DirectionFit) -> Iterator[tuple[FittedPoint, float]]:
    """Measurements that the fit does not explain and that do not say that the model is wrong, each with its miss."""
    wrong = {(found.num_nodes, found.num_streams, found.total_bytes) for found in fit.wrong_here}
    for point in fit.points:
        miss = point.seconds / point.predicted_seconds - 1
        is_outlier = abs(miss) > max(NOTABLE_MISS_FRACTION, NOTABLE_MISS_DEVIATIONS * fit.noise_fraction)
        if is_outlier and (point.num_nodes, point.num_streams, point.total_bytes) not in wrong:
            yield point, miss


def _run_warnings(result: BenchmarkResult) -> Iterator[str]:
    """What a run warned of; of many warnings the first and their number."""
    warnings = result.warnings_by_kind
    if len(warnings) > MAX_WARNINGS_OF_A_RUN:
        warnings = [f"{len(warnings)} warnings in its document. The first: {warnings[0]}"]
    for warning in warnings:
        yield f"run {result.run_id}: {warning}"


def grade_uses(
    fits: Mapping[Direction, DirectionFit], profile: StorageProfile, *, doubts: Sequence[str], corruption: str | None
) -> tuple[UseGrade, UseGrade]:
    """The grade of predictions inside what was measured and beyond it, and what keeps each below A.

    The worse of the fits to writes and to reads counts. Inside, A: held-out error up to 5 %, two shared limits
    measured, 12 configurations. B: 10 %, one, 8. C: 25 %, none, 4. Where the model is wrong somewhere, where single
    nodes or ranks were late, or where intervals miss what was measured it is C at most. Beyond it is as inside, and
    bounded by the worst miss of a frontier, by limits that a frontier alone shows, by the width of the interval at four
    times the nodes, and by what servers may hold of what is read. `doubts`, of mixed or stale runs and of a single
    size, cost one. With `corruption`, data that came back other than it was written, it is D: no use has that storage.
    """
    inside: list[_Reason] = [("D", corruption)] if corruption else []
    beyond = list[_Reason]()
    for direction, fit in fits.items():
        inside += ((grade, f"{direction}s: {text}") for grade, text in _inside_reasons(direction, fit, profile))
        beyond += ((grade, f"{direction}s: {text}") for grade, text in _beyond_reasons(direction, fit, profile))
    return _use_grade(inside, doubts), _use_grade([*inside, *beyond], doubts)


_Reason = tuple[Grade, str]
"""The best grade with it, and a sentence."""


def _use_grade(reasons: Sequence[_Reason], doubts: Sequence[str]) -> UseGrade:
    place = max(_ORDER.index(grade) for grade, _ in reasons)
    below_a = sorted((each for each in reasons if each[0] != "A"), key=lambda each: -_ORDER.index(each[0]))
    texts = (*dict.fromkeys(text for _, text in below_a), *doubts)
    return UseGrade(grade=_ORDER[min(place + bool(doubts), len(_ORDER) - 1)], reasons=texts[:MAX_REASONS])


def _inside_reasons(direction: Direction, fit: DirectionFit, profile: StorageProfile) -> Iterator[_Reason]:
    """What bounds the grade of predictions inside what was measured."""
    measured = sum(limit.verdict == "measured" and limit.num_binding > 0 for limit in fit.limits)
    error = fit.held_out_error_fraction
    _, max_error, min_measured, min_configurations = GRADES[0]
    yield (
        _first(lambda row: error <= row[1]),
        f"median error on held-out configurations {percent_text(error)}, max {percent_text(max_error)} for A",
    )
    yield _first(lambda row: measured >= row[2]), f"{measured} shared limit(s) measured, min {min_measured} for A"
    yield (
        _first(lambda row: fit.num_configurations >= row[3]),
        f"{fit.num_configurations} configurations, min {min_configurations} for A",
    )
    if fit.wrong_here:
        worst_here = fit.wrong_here[0]
        way = "slower" if worst_here.miss_fraction > 0 else "faster"
        yield (
            "C",
            f"the model is wrong in {len(fit.wrong_here)} configuration(s), at worst "
            f"{percent_text(abs(worst_here.miss_fraction))} {way} than predicted",
        )
    if _is_too_many(missed := _num_missed(direction, fit, profile), len(fit.points)):
        yield "C", f"{missed} of {len(fit.points)} measurements lie outside of their own 90 % intervals"
    num_outliers = len(list(_outliers(fit)))
    if num_outliers >= MIN_OUTLIERS and num_outliers > MAX_OUTLIERS_FRACTION * len(fit.points):
        yield "C", f"{num_outliers} of {len(fit.points)} measurements are outliers, as where others use the storage too"
    yield from (("C", text) for text in fit.stragglers)


def _is_too_many(num_missed: int, num_points: int) -> bool:
    """Whether chance would not make a fit miss so many of its own measurements: a binomial test."""
    from scipy.special import bdtrc  # noqa: PLC0415 - only fitting needs it

    return num_missed > 0 and float(bdtrc(num_missed - 1, num_points, MISSED_FRACTION)) < MISSED_CHANCE


def _num_missed(direction: Direction, fit: DirectionFit, profile: StorageProfile) -> int:
    """Number of measurements that lie outside of their prediction's interval.

    The interval is taken as wide as without stripes and planning, of which points say nothing.
    """
    names = ("total_bytes", "num_streams", "num_nodes", "num_files", "seconds", "predicted_seconds")
    total_bytes, num_streams, num_nodes, num_files, seconds, predicted = np.array(
        [[getattr(point, name) for point in fit.points] for name in names], dtype=np.float64
    )
    demand = Demand(total_bytes, num_streams, num_nodes, num_files)
    found = predict_by_fit(fit, profile.rates(direction), [demand], direction)
    ratios = seconds / predicted * found.seconds
    return int(np.sum((ratios < found.low_seconds) | (ratios > found.high_seconds)))


def _beyond_reasons(direction: Direction, fit: DirectionFit, profile: StorageProfile) -> Iterator[_Reason]:
    """What bounds the grade of predictions beyond what was measured, besides what bounds it inside."""
    yield from (("D", text) for text in fit.stragglers)
    for frontier in fit.frontiers:
        worst = frontier.worst_error_fraction
        grade = next(grade for grade in _ORDER if worst <= MAX_FRONTIER_ERRORS[grade])
        most = percent_text(MAX_FRONTIER_ERRORS["A"])
        yield grade, f"largest {frontier.axis} left out: predicted up to {percent_text(worst)} off, max {most} for A"
    for fields in dict.fromkeys(frontier.only_here for frontier in fit.frontiers if frontier.only_here):
        axes = " or ".join(frontier.axis for frontier in fit.frontiers if frontier.only_here == fields)
        yield "C", f"only the runs with the largest {axes} show {', '.join(fields)}, so no smaller run confirms it"
    num_nodes = BEYOND * fit.covered.num_nodes[1]
    num_streams = num_nodes * fit.covered.streams_per_node[1]
    total_bytes = num_streams * fit.covered.bytes_per_stream[1]
    demand = Demand(total_bytes, num_streams, num_nodes, num_streams * fit.covered.files_per_stream[1])
    ratio = predict_by_fit(fit, profile.rates(direction), [demand], direction).ratio
    yield (
        next(grade for grade in _ORDER if ratio <= MAX_RATIOS[grade]),
        f"at {num_nodes:,.0f} nodes the ends of the interval differ by a factor of {ratio:.3g}, "
        f"max {MAX_RATIOS['A']:g} for A",
    )
    most_bytes = max(point.total_bytes for point in fit.points)
    if direction == "read" and most_bytes < SERVER_MEMORY_BYTES and not fit.holds("write-back-cache"):
        yield (
            "C",
            f"no run read more than {decimal_bytes_text(most_bytes)} in all, which the memory of servers may have "
            f"held; read {decimal_bytes_text(SERVER_MEMORY_BYTES)} or more",
        )


def _first(fits: Callable[[tuple[Grade, float, int, int]], bool]) -> Grade:
    return next((row[0] for row in GRADES if fits(row)), "D")


def mixed_load(results: Sequence[BenchmarkResult], *, engine: str | None) -> MixedLoad | None:
    """What saves beside batches say of a shared limit; None where there are too few.

    Args: `engine` whose saves count. The interval is Student's, of independent repetitions.
    """
    found = list[float]()
    for measurement in chain.from_iterable(result.measurements for result in results):
        beside = measurement.shape.beside if measurement.shape else None
        is_asked = engine in (None, measurement.engine) and measurement.operation == "write"
        if beside is not None and beside.unit == "bytes" and is_asked and measurement.verified:
            found += used_fractions(measurement.seconds, beside)
    if len(found) < MIN_REPETITIONS:
        return None
    mean = statistics.fmean(found)
    error = student_quantile(len(found) - 1) * statistics.stdev(found) / len(found) ** 0.5
    low, high = mean - error, mean + error
    verdict: MixedVerdict = "not-told-apart"
    if high <= MAX_OF_ONE_LIMIT:
        verdict = "one-limit"
    elif low >= MIN_OF_OWN_LIMITS:
        verdict = "own-limits"
    return MixedLoad(verdict=verdict, used_fraction=mean, interval=(low, high), num_repetitions=len(found))


def used_fractions(save_seconds: Sequence[float], load: BackgroundLosses) -> list[float]:
    """The fractions of their rates that a save and the reads beside it kept, added: r_w / R_w + r_r / R_r.

    Args: `save_seconds` of each repetition with the reads beside it; `load` has each alone, by repetition.
    Source: utilization law, Lazowska et al. 1984, Quantitative System Performance, section 3.3: of one resource, busy
    all the time, the fractions that each load takes of it add to 1; of one resource each they add to 2.

    >>> load = BackgroundLosses(name="batches", unit="bytes", alone_rates=[100.0], rates=[50.0], loss_fraction=0.5,
    ...     save_alone_seconds=[2.0], save_loss_fraction=0.5)
    >>> used_fractions([4.0], load)
    [1.0]
    """
    rows = zip(save_seconds, load.save_alone_seconds, load.rates, load.alone_rates, strict=True)
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
