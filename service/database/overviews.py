"""What belongs to storage systems, counted: for lists, in three queries however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.database.connection import Database
from service.database.storage_systems import list_storage_systems
from service.database.tables import CalibrationRow, RunRow, StorageSystemRow
from service_client.documents import LatestCalibration


class SystemOverview(NamedTuple):
    """A storage system, and what belongs to it."""

    system: StorageSystemRow
    num_runs: int
    latest_run_at: datetime | None
    num_calibrations: int
    latest_calibration: LatestCalibration | None


def list_overviews(database: Database, *, limit: int, after: str | None) -> list[SystemOverview]:
    """At most `limit` storage systems by name, from those whose name comes after `after`, with what they have."""
    rows = list_storage_systems(database, limit=limit, after=after)
    ids = [row.id for row in rows]
    with database.reading() as session:
        runs, calibrations = _runs(session, ids), _calibrations(session, ids)
    return [SystemOverview(row, *runs.get(row.id, (0, None)), *calibrations.get(row.id, (0, None))) for row in rows]


def _runs(session: Session, ids: Sequence[int]) -> dict[int, tuple[int, datetime | None]]:
    """Of each system with runs: how many it has, withdrawn ones too, and when the newest was published."""
    query = (
        select(RunRow.system_id, func.count(), func.max(RunRow.published_at))
        .where(RunRow.system_id.in_(ids))
        .group_by(RunRow.system_id)
    )
    return {system_id: (num, latest) for system_id, num, latest in session.execute(query)}


def _calibrations(session: Session, ids: Sequence[int]) -> dict[int, tuple[int, LatestCalibration | None]]:
    """Of each calibrated system: how many calibrations it has, and the newest."""
    row, document = CalibrationRow, CalibrationRow.calibration
    place = func.row_number().over(partition_by=row.system_id, order_by=row.id.desc()).label("place")
    ranked = select(
        row.system_id,
        row.id,
        row.created_at,
        document["engine"].as_string().label("engine"),
        document["grade"].as_string().label("grade"),
        func.count().over(partition_by=row.system_id).label("num"),
        place,
    ).where(row.system_id.in_(ids))
    found = ranked.subquery()
    newest = session.execute(select(found).where(found.c.place == 1))
    return {each.system_id: (each.num, LatestCalibration.model_validate(each)) for each in newest}
