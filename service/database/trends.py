"""The rates of a storage system over time, by series of like runs, with the changes marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import aliased

from service.database.connection import Database
from service.database.storage_systems import storage_system
from service.database.tables import MeasurementRow, RunRow
from sizing.storage.rate_changes import Judged, RatedRun, RatedSeries, judged_rates

MAX_RUNS = 1000
"""The newest that are looked at: nearly three years of nightly runs. Older ones have no part in the level of today."""
MAX_RATES = 10_000
"""Of these runs, the newest: they are judged in 0.2 s."""


@dataclass(frozen=True, slots=True)
class Rate:
    """One rate, as it is stored."""

    run_id: str
    published_at: datetime
    series: str
    engine: str
    operation: str
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Trend:
    """The rates of a series, the earliest first, each with its verdict."""

    rates: Sequence[Rate]
    judged: Sequence[Judged]

    @property
    def series(self) -> str:
        """What its runs have in common."""
        return self.rates[0].series

    def since(self, moment: datetime | None) -> RatedSeries:
        """Its rates as charts and words take them: those published since a moment, or all."""
        found = [
            RatedRun(rate.run_id, rate.published_at, rate.bytes_per_second, judged)
            for rate, judged in zip(self.rates, self.judged, strict=True)
            if moment is None or rate.published_at >= moment
        ]
        return RatedSeries(self.series, found)

    @property
    def is_lost(self) -> bool:
        """Whether the series is at a loss now."""
        return self.judged[-1].is_lost

    @property
    def latest_loss(self) -> tuple[Rate, Judged]:
        """The rate that was the latest loss; of a series that is lost."""
        return [(rate, found) for rate, found in zip(self.rates, self.judged, strict=True) if found.change == "loss"][
            -1
        ]


def trends(database: Database, system_name: str, *, of_run: str | None = None) -> list[Trend]:
    """The trend of every series of a storage system, without runs that were withdrawn; of_run, of the run's series.

    Raises NotFound for the storage system.
    """
    rates = _rates(database, storage_system(database, system_name).id)
    per_run = Counter(rate.run_id for rate in rates)
    wanted = {rate.series for rate in rates if of_run in (None, rate.run_id)}
    return [_trend(found, per_run) for found in _by_series(rates, wanted)]


def _trend(rates: Sequence[Rate], per_run: Counter[str]) -> Trend:
    judged = judged_rates([rate.bytes_per_second for rate in rates], [per_run[rate.run_id] for rate in rates])
    return Trend(rates, judged)


def _by_series(rates: Sequence[Rate], wanted: Collection[str]) -> Collection[list[Rate]]:
    by_series: dict[str, list[Rate]] = {}
    for rate in rates:
        if rate.series in wanted:
            by_series.setdefault(rate.series, []).append(rate)
    return by_series.values()


def _rates(database: Database, system_id: int) -> list[Rate]:
    """The newest rates that tell of the storage, the earliest first."""
    newest = select(RunRow.id, RunRow.run_id, RunRow.published_at).where(
        RunRow.system_id == system_id, ~RunRow.withdrawal.has()
    )
    run = aliased(RunRow, newest.order_by(RunRow.id.desc()).limit(MAX_RUNS).subquery())
    found = MeasurementRow
    query = (
        select(run.run_id, run.published_at, found.series, found.engine, found.operation, found.bytes_per_second)
        .join(found, found.run_id == run.id)
        .where(found.series.is_not(None))
        .order_by(run.id.desc(), found.position)
        .limit(MAX_RATES)
    )
    with database.reading() as session:
        rows = session.execute(query).all()[::-1]
    return [Rate(row[0], row[1], row[2] or "", *row[3:]) for row in rows]
