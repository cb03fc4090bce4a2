"""Trends of a storage system: rates over time by series of like runs, with their changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from service.database.connection import Database
from service.database.storage_systems import storage_system
from service.database.tables import MeasurementRow, RunRow, StorageSystemRow, TokenRow
from sizing.storage.calibration import Publisher
from sizing.storage.rate_changes import RatedRun, RatedSeries, RunPublication, judge_rates

MAX_RUNS = 1000
"""Max runs that are looked at, the newest of each token in turn: nearly three years of nightly runs. Older ones have no
part in the level of today."""
MAX_RATES = 10_000
"""Max rates of these runs: they are judged in 0.3 s."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate of one measurement, as it is stored."""

    run_id: str
    published: RunPublication
    series: str
    engine: str
    operation: str
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Trend:
    """Trend of a series: its rates, the earliest first, each with its verdict."""

    engine: str
    operation: str
    whole: RatedSeries
    publishers: Mapping[str, str]
    """Who published each run, by its id."""

    @property
    def is_lost(self) -> bool:
        """Whether the series is at a loss now."""
        return self.whole.latest_loss is not None

    def since(self, moment: datetime | None) -> RatedSeries:
        """Return the rates published since a time, or all. Where the clock was set back, all since the first."""
        every = self.whole.rates
        first = next((n for n, rated in enumerate(every) if moment is None or rated.published_at >= moment), len(every))
        return RatedSeries(self.whole.series, every[first:], every[:first])


def judge_trends(database: Database, system_name: str, *, of_run: str | None = None) -> list[Trend]:
    """Judge every series of a storage system, or the series of one run, without withdrawn runs.

    Raises NotFound for the storage system.
    """
    rates = _read_rates(database, storage_system(database, system_name))
    num_of_run = Counter(rate.run_id for rate in rates)
    names = {rate.series for rate in rates if of_run in (None, rate.run_id)}
    by_series: dict[str, list[Rate]] = {}
    for rate in rates:
        if rate.series in names:
            by_series.setdefault(rate.series, []).append(rate)
    return [_judge_series(series, num_of_run) for series in by_series.values()]


def _judge_series(rates: Sequence[Rate], num_of_run: Counter[str]) -> Trend:
    verdicts = judge_rates(
        [rate.bytes_per_second for rate in rates],
        [num_of_run[rate.run_id] for rate in rates],
        [rate.published for rate in rates],
    )
    runs = [
        RatedRun(rate.run_id, rate.published.at, rate.bytes_per_second, verdict)
        for rate, verdict in zip(rates, verdicts, strict=True)
    ]
    publishers = {rate.run_id: rate.published.source.name for rate in rates}
    return Trend(rates[0].engine, rates[0].operation, RatedSeries(rates[0].series, runs), publishers)


def _read_rates(database: Database, system: StorageSystemRow) -> list[Rate]:
    """Read the rates that tell of the storage, the earliest first, from the newest run of each token in turn."""
    turn = func.row_number().over(partition_by=RunRow.token_id, order_by=RunRow.id.desc()).label("turn")
    newest = (
        select(RunRow.id, RunRow.run_id, RunRow.published_at, RunRow.token_id, turn)
        .where(RunRow.system_id == system.id, ~RunRow.withdrawal.has())
        .order_by(turn, RunRow.id.desc())
        .limit(MAX_RUNS)
    )
    run, rate = newest.subquery("newest").c, MeasurementRow
    query = (
        select(
            *(run.id, rate.position, run.run_id, run.published_at, TokenRow.name, TokenRow.created_at),
            *(rate.series, rate.engine, rate.operation, rate.bytes_per_second),
        )
        .join(rate, rate.run_id == run.id)
        .join(TokenRow, TokenRow.id == run.token_id)
        .where(rate.series.is_not(None))
        .order_by(run.turn, run.id.desc(), rate.position)
        .limit(MAX_RATES)
    )
    with database.reading() as session:
        rows = session.execute(query).all()
    owners, rows = set(system.owners), sorted(rows, key=lambda row: (row[0], row[1]))
    return [
        Rate(
            run_id,
            RunPublication(Publisher(name, name in owners, created_at), published_at),
            series or "",
            engine,
            operation,
            bytes_per_second,
        )
        for _, _, run_id, published_at, name, created_at, series, engine, operation, bytes_per_second in rows
    ]
