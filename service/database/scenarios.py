"""Saved scenarios: stored as given, listed newest first."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import JSON, or_, select, type_coerce
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, defer

from service.database.audit import Actor, require_own
from service.database.connection import Database, list_newest
from service.database.idempotency import digest_of, find_made, keep_key
from service.database.tables import CalibrationRow, ScenarioRow, StorageSystemRow, new_id, now
from service.errors import Conflict, NotFound
from sizing import __version__
from sizing.errors import InvalidInput
from sizing.schema_versions import SCHEMA_VERSION

_CALIBRATION = type_coerce(ScenarioRow.scenario, JSON)[("storage", "calibration")].as_string()
"""Id of the calibration that a scenario names; null where it names none."""


def save_scenario(
    database: Database,
    name: str,
    document: dict[str, Any],
    *,
    by: Actor,
    key: str | None = None,
    figures: dict[str, Any] | None = None,
) -> tuple[ScenarioRow, bool]:
    """Save a scenario, with today's defaults unless it states others, and tell whether it is new.

    Args: `key`, with which the same request sent again finds the scenario that the first one saved; `figures` of the
    answer of this version, to tell later what changed.
    Raises Conflict where the key stands for another request, or for a scenario that was deleted.
    """
    digest = digest_of(json.dumps([name, document]).encode())
    row = ScenarioRow(
        id=new_id(),
        name=name,
        scenario={"schema_version": SCHEMA_VERSION} | document,
        created_at=now(),
        token_id=by.token_id,
        code_version=__version__,
        figures=figures,
    )
    try:
        with database.writing() as session:
            known_id = find_made(session, key, digest, by=by) if key else None
            if known_id:
                return _require_kept(session.get(ScenarioRow, known_id), str(key)), False
            session.add(row)
            if key:
                keep_key(session, key, digest, row.id, by=by)
            session.flush()
            by.record(session, "save", f"scenario {row.id}")
    except IntegrityError:  # the same key at the same moment: it is there now
        if key is None:
            raise
        with database.reading() as session:
            return _require_kept(session.get(ScenarioRow, find_made(session, key, digest, by=by)), key), False
    return row, True


def read_scenario(database: Database, scenario_id: UUID) -> ScenarioRow:
    """Read a scenario by its id. Raises NotFound."""
    with database.reading() as session:
        return require_scenario(session.get(ScenarioRow, scenario_id), scenario_id)


def list_scenarios(
    database: Database, *, limit: int, before: UUID | None, among: Collection[str] | None = None
) -> Sequence[ScenarioRow]:
    """List at most `limit` scenarios, the newest first, from those saved before the one that has the id `before`.

    Args: `among`, names of the storage systems on whose calibrations they may rest; None for all.
    The rows have the stored figures, and not the documents.
    """
    query = select(ScenarioRow).options(defer(ScenarioRow.scenario))
    with database.reading() as session:
        if among is not None:
            query = query.where(or_(_CALIBRATION.is_(None), _CALIBRATION.in_(_calibration_ids(session, among))))
        return list_newest(session, query, ScenarioRow.id, limit=limit, before=before)


def names_resting_on(database: Database, system_name: str) -> list[str]:
    """List the names of the scenarios whose storage is a calibration of a storage system, the newest first."""
    with database.reading() as session:
        is_among = _CALIBRATION.in_(_calibration_ids(session, [system_name]))
        query = select(ScenarioRow.name).where(is_among).order_by(ScenarioRow.id.desc())
        return list(dict.fromkeys(session.scalars(query)))


def _calibration_ids(session: Session, system_names: Collection[str]) -> list[str]:
    """List the ids of the calibrations of storage systems, as scenarios name them."""
    of_systems = select(CalibrationRow.id).join(StorageSystemRow).where(StorageSystemRow.name.in_(system_names))
    return [str(each) for each in session.scalars(of_systems)]


def delete_scenario(database: Database, scenario_id: UUID, *, by: Actor) -> None:
    """Delete a scenario: the token's own, or anybody's with the scope admin.

    Raises NotFound or MissingScope.
    """
    with database.writing() as session:
        row = require_scenario(session.get(ScenarioRow, scenario_id, with_for_update=True), scenario_id)
        require_own(row, by)
        session.delete(row)
        by.record(session, "delete", f"scenario {scenario_id}")


def no_scenario(scenario_id: object) -> InvalidInput:
    """Return the error for an id without a scenario."""
    return NotFound.of(
        "id", "must be the id of a saved scenario", value=scenario_id, remedy="list them with GET /v1/scenarios"
    )


def require_scenario(row: ScenarioRow | None, scenario_id: UUID) -> ScenarioRow:
    """Check the scenario found under an id. Raises NotFound where there is none."""
    if row is None:
        raise no_scenario(scenario_id)
    return row


def _require_kept(row: ScenarioRow | None, key: str) -> ScenarioRow:
    if row is None:
        raise Conflict.of(
            "idempotency-key",
            "saved a scenario that has been deleted",
            value=key,
            remedy="give a new key to save it again",
        )
    return row
