"""Calibrations: what was fitted, from which runs, by which version of the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from service.database.audit import Actor
from service.database.connection import Database
from service.database.newest_first import newest_first
from service.database.storage_systems import storage_system, system_named
from service.database.tables import CalibrationRow, CalibrationRunRow, RunRow, new_id, now
from service.errors import Conflict, NotFound
from service_client.documents import CalibrationSummary
from sizing import __version__
from sizing.errors import InvalidInput
from sizing.storage.calibration import Calibration

MAX_LEFT_OUT = 100
"""Runs that a calibration names as left out; of more it says how many."""


def save_calibration(
    database: Database,
    system_name: str,
    calibration: Calibration,
    *,
    runs: Sequence[RunRow],
    left_out: dict[str, str],
    by: Actor,
) -> CalibrationRow:
    """The row of a new calibration, made from `runs` by this version; of others, by their ids, why they are left out.

    Raises NotFound for the storage system, Conflict where one of the runs has just been deleted.
    """
    try:
        return _saved(database, system_name, calibration, runs, left_out, by)
    except IntegrityError:
        rule = "must be there until they are fitted; one has just been deleted"
        raise Conflict.of("run_ids", rule, value=None, remedy="ask again") from None


def _saved(
    database: Database,
    system_name: str,
    calibration: Calibration,
    runs: Sequence[RunRow],
    left_out: dict[str, str],
    by: Actor,
) -> CalibrationRow:
    with database.writing() as session:
        row = CalibrationRow(
            id=new_id(),
            system=system_named(session, system_name),
            calibration=calibration.model_dump(mode="json"),
            left_out=_named(left_out),
            code_version=__version__,
            created_at=now(),
            token_id=by.token_id,
        )
        session.add(row)
        session.flush()
        session.add_all(CalibrationRunRow(calibration_id=row.id, run_id=run.id) for run in runs)
        by.record(session, "calibrate", f"storage system {system_name}: calibration {row.id}")
    return row


def _named(left_out: dict[str, str]) -> dict[str, Any]:
    """How many runs are left out, and the first of them with their reasons."""
    first = [{"run_id": run_id, "reason": reason} for run_id, reason in [*left_out.items()][:MAX_LEFT_OUT]]
    return {"num_left_out": len(left_out), "left_out": first}


def saved_calibration(database: Database, system_name: str, calibration_id: UUID) -> CalibrationRow:
    """The calibration of that id. Raises NotFound."""
    system = storage_system(database, system_name)
    with database.reading() as session:
        row = session.get(CalibrationRow, calibration_id)
    if row is None or row.system_id != system.id:
        raise NotFound.of(
            "id",
            f"must be the id of a calibration of {system_name}",
            value=calibration_id,
            remedy="list them with GET /v1/storage-systems/NAME/calibrations",
        )
    return row


def calibration_of_id(database: Database, text: str) -> Calibration:
    """The calibration that a scenario names by its id. Raises InvalidInput where there is none."""
    found = None
    if _is_id(text):
        with database.reading() as session:
            found = session.scalar(select(CalibrationRow.calibration).filter_by(id=UUID(text)))
    if found is None:
        raise InvalidInput.of(
            "storage.calibration",
            "must be the id of a stored calibration",
            value=text,
            remedy="list them with GET /v1/storage-systems/NAME/calibrations",
        )
    return Calibration.model_validate(found)


def list_calibrations(
    database: Database, system_name: str, *, limit: int, before: UUID | None
) -> Sequence[CalibrationRow]:
    """At most `limit` calibrations of a storage system, the newest first. Raises NotFound for the system."""
    system = storage_system(database, system_name)
    query = select(CalibrationRow).where(CalibrationRow.system_id == system.id)
    with database.reading() as session:
        return newest_first(session, query, CalibrationRow.id, limit=limit, before=before)


def calibration_summary(row: CalibrationRow) -> CalibrationSummary:
    """A calibration without its fit."""
    return CalibrationSummary(
        id=row.id,
        created_at=row.created_at,
        code_version=row.code_version,
        run_ids=row.calibration["run_ids"],
        **(row.left_out or {}),
        engine=row.calibration["engine"],
        grade=row.calibration["grade"],
        profile=row.calibration["profile"],
    )


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
