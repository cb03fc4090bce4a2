"""From result documents to a Calibration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from sizing.errors import InvalidInput
from sizing.storage.calibration.calibration import Calibration, DirectionFit, FittedPoint
from sizing.storage.calibration.conditions import doubts_about
from sizing.storage.calibration.fit import fit_of
from sizing.storage.calibration.grade import grade_of
from sizing.storage.calibration.mixed_load import mixed_load, mixed_sentence
from sizing.storage.calibration.rows import OPERATIONS, configuration_text
from sizing.storage.calibration.series import MIN_CONFIGURATIONS, Series, dates_of, series_of
from sizing.storage.measurement import BenchmarkResult
from sizing.storage.profile import StorageProfile
from sizing.units import decimal_bytes_text, percent_text

DEFAULT_DRAWS = 1_000
"""Ends of a 90 % interval from 1,000 draws rest on the outer 50 on either side."""
NOTABLE_MISS_FRACTION = 0.25
NOTABLE_MISS_DEVIATIONS = 4
"""Of a measured time from its prediction: both must be exceeded. A choice: of normal noise, one in 16,000 lies four
deviations off, and where storage is calm a few percent are no reason to doubt a run."""
MAX_REASONS = 100
"""Of a grade, that a document holds; there are some for each thing that differs between runs."""
MAX_WARNINGS_OF_A_RUN = 3
"""Of one document; a scan has one for each configuration, and they are mostly alike."""
MIN_RATIO_OF_SIZES = 1.5
"""Between bytes per rank that count as two sizes. A guess: closer, a fixed time changes the rate by less than noise
does."""

_MISSING = (
    "measure more: 1 and several nodes, each with 1 and with many ranks, for example "
    "ckpt-bench scan --nodes 1,2,4,8 --writers 1,2,4,8"
)


def calibrate(
    results: Sequence[BenchmarkResult], *, engine: str | None = None, num_draws: int = DEFAULT_DRAWS, seed: int = 0
) -> Calibration:
    """The Calibration of one storage system by all given runs; equal input and seed give equal output.

    Args: `engine`, where the runs have several, another than that with the max of configurations; `num_draws` of the
    bootstrap.
    Raises InvalidInput where too few configurations are left to fit, or where runs contradict each other.
    """
    series = _both_series(results, engine)
    fitted = {s.direction: fit_of(s, num_draws=num_draws, seed=seed) for s in series if _is_enough(s)}
    if not fitted:
        raise _too_few(series)
    used = [s for s in series if s.direction in fitted]
    run_ids = tuple(dict.fromkeys(row.run_id for s in used for row in s.rows))
    fitted_results = [result for result in results if result.run_id in run_ids]
    doubts = (*doubts_about(fitted_results), *chain.from_iterable(map(_one_size, fitted.values())))
    grade, reasons = grade_of(fitted, doubts=doubts)
    mixed = mixed_load(results, engine=used[0].engine)
    said = [mixed_sentence(mixed)] if mixed else []
    return Calibration(
        profile=_profile(fitted.values()),
        engine=used[0].engine,
        run_ids=run_ids,
        measured_on=max(dates_of(fitted_results), default=None),
        grade=grade,
        grade_reasons=reasons[:MAX_REASONS],
        write=fitted.get("write"),
        read=fitted.get("read"),
        mixed_load=mixed,
        warnings=tuple(dict.fromkeys([*doubts, *said, *_warnings(series, fitted.values(), fitted_results)])),
    )


def _both_series(results: Sequence[BenchmarkResult], engine: str | None) -> tuple[Series, Series]:
    """The writes, and the reads of what the same engine wrote."""
    writes = series_of(results, "write", engine=engine)
    return writes, series_of(results, "read", engine=writes.engine if writes.rows else engine)


def _warnings(
    series: Iterable[Series], fits: Iterable[DirectionFit], results: Iterable[BenchmarkResult]
) -> Iterator[str]:
    """What was left out or is missing, what the fits do not explain, and what the runs warned of."""
    for each in series:
        yield from _left_out(each)
        yield from _missing(each)
        yield from _by_client(each)
    for fit in fits:
        yield from _wrong(fit)
        yield from _misses(fit)
    for result in results:
        yield from _of_run(result)


def _profile(fits: Iterable[DirectionFit]) -> StorageProfile:
    """The limits that the data need; where two cannot be told apart, both at their min."""
    fields: dict[str, float] = {}
    for fit in fits:
        fields |= fit.chosen
        rivals = {field for rival in fit.rivals for field in rival}
        for limit in fit.limits:
            if limit.value is not None and (limit.field in fit.draws or limit.field in rivals):
                fields[limit.field] = limit.value
    return StorageProfile.model_validate(fields)


def _is_enough(series: Series) -> bool:
    return series.num_configurations >= MIN_CONFIGURATIONS


def _too_few(series: Sequence[Series]) -> InvalidInput:
    found = {row.configuration for s in series for row in s.rows}
    reasons = "; ".join(note for s in series for note in s.left_out)
    had = ", ".join(sorted(map(configuration_text, found))) or "none"
    rule = f"must have at least {MIN_CONFIGURATIONS} configurations of the same operation and settings, found {had}"
    return InvalidInput.of("measurements", rule + (f" ({reasons})" if reasons else ""), value=None, remedy=_MISSING)


def _one_size(fit: DirectionFit) -> Iterator[str]:
    """Without a second size the rates may hold the times that do not grow with bytes."""
    low, high = fit.covered.bytes_per_stream
    if high < MIN_RATIO_OF_SIZES * low:
        yield (
            f"One size: all runs moved about {decimal_bytes_text(high)} per rank, so times that do not grow with bytes "
            "cannot be separated from the rates. Measure a second size"
        )


def _of_run(result: BenchmarkResult) -> Iterator[str]:
    """What a run warned of; of many warnings the first and their number."""
    warnings = result.warnings
    if len(warnings) > MAX_WARNINGS_OF_A_RUN:
        warnings = [f"{len(warnings)} warnings in its document. The first: {warnings[0]}"]
    for warning in warnings:
        yield f"run {result.run_id}: {warning}"


def _left_out(series: Series) -> Iterator[str]:
    for note in series.left_out:
        yield f"left out: {note}"


def _by_client(series: Series) -> Iterator[str]:
    count = sum(row.measurement.limited_by == "client" for row in series.rows)
    if count:
        yield (
            f"{count} {OPERATIONS[series.direction]} measurement(s) were limited by the client. Their writer and node "
            "limits are those of the clients and the engine; the storage may be faster"
        )


def _missing(series: Series) -> Iterator[str]:
    if not _is_enough(series):
        yield (
            f"No {OPERATIONS[series.direction]} limits: {series.num_configurations} usable configuration(s), "
            f"{MIN_CONFIGURATIONS} are required; {_MISSING}"
        )


def _configuration_text(point: FittedPoint) -> str:
    streams = point.num_streams
    return configuration_text((point.num_nodes, streams, point.total_bytes // streams, point.num_files, 0))


def _wrong(fit: DirectionFit) -> Iterator[str]:
    """Configurations that say that the model is wrong."""
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


def _misses(fit: DirectionFit) -> Iterator[str]:
    """Measurements that the fit does not explain, and where nothing else says that the model is wrong."""
    wrong = {(found.num_nodes, found.num_streams, found.total_bytes) for found in fit.wrong_here}
    for point in fit.points:
        if (point.num_nodes, point.num_streams, point.total_bytes) in wrong:
            continue
        miss = point.seconds / point.predicted_seconds - 1
        if abs(miss) > max(NOTABLE_MISS_FRACTION, NOTABLE_MISS_DEVIATIONS * fit.noise_fraction):
            yield (
                f"Outlier: {_configuration_text(point)} (run {point.run_id}) took "
                f"{percent_text(abs(miss))} {'longer' if miss > 0 else 'less'} than predicted"
            )
