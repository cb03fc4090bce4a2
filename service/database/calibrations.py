"""Calibrations: what was fitted, from which runs, by which version of the code."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import joinedload

from service.database.audit import Actor
from service.database.connection import Database, list_newest
from service.database.runs import RunFilter, of_system
from service.database.storage_systems import find_system, storage_system
from service.database.tables import (
    CalibrationRow,
    CalibrationRunRow,
    MeasurementRow,
    RunDocumentRow,
    RunRow,
    StorageSystemRow,
    WithdrawalRow,
    new_id,
    now,
)
from service.errors import Conflict, MissingScope, NotFound
from service_client.documents import CalibrationSummary
from sizing import __version__
from sizing.errors import InvalidInput
from sizing.storage.calibration import Calibration
from sizing.units import binary_bytes_text

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
    """Save a new calibration made from `runs` by this version; `left_out`: reasons by the ids of other runs.

    Raises NotFound for the storage system, Conflict where one of the runs has just been deleted.
    """
    first = [{"run_id": run_id, "reason": reason} for run_id, reason in [*left_out.items()][:MAX_LEFT_OUT]]
    try:
        with database.writing() as session:
            row = CalibrationRow(
                id=new_id(),
                system=find_system(session, system_name),
                calibration=calibration.model_dump(mode="json"),
                left_out={"num_left_out": len(left_out), "left_out": first},
                code_version=__version__,
                created_at=now(),
                token_id=by.token_id,
            )
            session.add(row)
            session.flush()
            session.add_all(CalibrationRunRow(calibration_id=row.id, run_id=run.id) for run in runs)
            by.record(session, "calibrate", f"storage system {system_name}: calibration {row.id}")
    except IntegrityError:
        rule = "must be there until they are fitted; one has just been deleted"
        raise Conflict.of("run_ids", rule, value=None, remedy="ask again") from None
    return row


def read_calibration(database: Database, system_name: str, calibration_id: UUID) -> CalibrationRow:
    """Read a calibration by its id. Raises NotFound."""
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


def calibration_of_id(
    database: Database, text: str, *, field: str, among: Collection[str] | None = None
) -> Calibration:
    """Return the calibration that a `field` of a request names by its id.

    Raises InvalidInput where there is none, and MissingScope where it is of none of the storage systems `among`.
    """
    found = None
    with contextlib.suppress(ValueError), database.reading() as session:
        query = select(CalibrationRow.calibration, StorageSystemRow.name).join(CalibrationRow.system)
        found = session.execute(query.where(CalibrationRow.id == UUID(text))).one_or_none()
    if found is None:
        raise InvalidInput.of(
            field,
            "must be the id of a stored calibration",
            value=text,
            remedy="list them with GET /v1/storage-systems/NAME/calibrations",
        )
    document, system_name = found
    if among is not None and system_name not in among:
        rule = f"must be a calibration of the storage systems that the token is limited to, {', '.join(among)}"
        raise MissingScope.of(field, rule, value=text, remedy="use a token for its storage system")
    return Calibration.model_validate(document)


def list_calibrations(
    database: Database, system_name: str, *, limit: int, before: UUID | None
) -> Sequence[CalibrationRow]:
    """List at most `limit` calibrations of a storage system, the newest first. Raises NotFound for the system."""
    system = storage_system(database, system_name)
    query = select(CalibrationRow).where(CalibrationRow.system_id == system.id)
    with database.reading() as session:
        return list_newest(session, query, CalibrationRow.id, limit=limit, before=before)


def calibration_summary(row: CalibrationRow) -> CalibrationSummary:
    """Summarize a calibration without its fit."""
    return CalibrationSummary(
        id=row.id,
        created_at=row.created_at,
        code_version=row.code_version,
        run_ids=row.calibration["run_ids"],
        **(row.left_out or {}),
        engine=row.calibration["engine"],
        grade=row.calibration["grade"],
        inside_grade=(row.calibration.get("inside") or {}).get("grade"),
        beyond_grade=(row.calibration.get("beyond") or {}).get("grade"),
        profile=row.calibration["profile"],
    )


MAX_RUNS = 1000
"""Max runs that a calibration may name, as MAX_POINTS bounds its rows."""
MAX_DOCUMENT_BYTES = 256 * 1024**2
"""Max bytes of documents of the runs that are looked at together."""
MAX_MEASUREMENTS = 1000
"""Max measurements of the runs of a window: the time to fit grows with them, to 10 s, and storage of today shows in the
newest. One run has as many at most."""
MAX_NAMED_MEASUREMENTS = 2000
"""Max measurements of runs that are named: 1,600 take 9 s to fit, 4,000 longer than anyone may wait, during which the
process would answer nobody else."""


@dataclass(frozen=True, slots=True)
class FitRequest:
    """Request of the runs to fit: by their ids, or the `latest` of those published in a period."""

    run_ids: Sequence[str] | None = None
    published_since: datetime | None = None
    published_before: datetime | None = None
    latest: int | None = None


@dataclass(frozen=True, slots=True)
class RunSelection:
    """Runs to fit with their documents, the newest first, and the reasons why others are left out, by id."""

    rows: Sequence[RunRow]
    left_out: dict[str, str]


def select_runs(database: Database, system_name: str, request: FitRequest) -> RunSelection:
    """Select the runs of a request that may represent a storage system.

    Raises NotFound where an id is not that of a run of the system, InvalidInput where named runs are too many.
    """
    query = RunFilter(published_since=request.published_since, published_before=request.published_before).of(
        of_system(storage_system(database, system_name))
    )
    if request.run_ids is not None:
        query = query.where(RunRow.run_id.in_(request.run_ids))
    with database.reading() as session:
        withdrawn = session.execute(
            query.join(WithdrawalRow).with_only_columns(RunRow.run_id, WithdrawalRow.reason)
            .order_by(RunRow.id.desc()).limit(MAX_RUNS)
        )  # fmt: skip
        left_out = {run_id: f"was withdrawn: {reason}" for run_id, reason in withdrawn}
        sizes = [_Size(*row) for row in session.execute(_sizes(query, request.latest))]
        is_named = request.run_ids is not None
        run_ids = list(_take_first(sizes, max_measurements=MAX_NAMED_MEASUREMENTS if is_named else MAX_MEASUREMENTS))
        if request.run_ids is not None:
            _require_all(system_name, request.run_ids, known={*left_out, *(size.run_id for size in sizes)})
            _require_room(sizes, num_taken=len(run_ids))
        most = f"{MAX_MEASUREMENTS:,} measurements or {binary_bytes_text(MAX_DOCUMENT_BYTES)} of documents"
        left_out |= {size.run_id: f"is older than the newest with {most}" for size in sizes[len(run_ids) :]}
        rows = select(RunRow).where(RunRow.run_id.in_(run_ids)).order_by(RunRow.id.desc())
        return RunSelection(session.scalars(rows.options(joinedload(RunRow.stored))).all(), left_out)


class _Size(NamedTuple):
    """Size of a run that may be fitted: bytes of its document, and number of measurements."""

    run_id: str
    num_bytes: int
    num_measurements: int


def _sizes(query: Select[RunRow], latest: int | None) -> Select[str, int, int]:
    """Return the query for the sizes of runs that are not withdrawn, the `latest` ones, the newest first.

    Where nobody says how many: the newest of each token, then the second of each, so that none fills the window alone.
    """
    num_measurements = select(func.count()).where(MeasurementRow.run_id == RunRow.id).scalar_subquery()
    turn = func.row_number().over(partition_by=RunRow.token_id, order_by=RunRow.id.desc())
    order = [RunRow.id.desc()] if latest else [turn, RunRow.id.desc()]
    runs = query.join(RunRow.stored).where(~RunRow.withdrawal.has()).order_by(*order)
    return runs.with_only_columns(
        RunRow.run_id, func.length(RunDocumentRow.document), num_measurements, maintain_column_froms=True
    ).limit(min(latest or MAX_RUNS, MAX_RUNS))


def _take_first(sizes: Sequence[_Size], *, max_measurements: int) -> Iterator[str]:
    """Yield the ids of the first runs that together stay within the limits of bytes and measurements."""
    num_bytes = num_measurements = 0
    for size in sizes:
        num_bytes, num_measurements = num_bytes + size.num_bytes, num_measurements + size.num_measurements
        if num_bytes > MAX_DOCUMENT_BYTES or num_measurements > max_measurements:
            return
        yield size.run_id


def _require_all(system_name: str, run_ids: Sequence[str], *, known: Collection[str]) -> None:
    missing = {*run_ids} - {*known}
    if missing:
        raise NotFound.of(
            "run_ids",
            f"must be ids of runs of {system_name}",
            value=min(missing),
            remedy="list them with GET /v1/storage-systems/NAME/runs",
        )


def _require_room(sizes: Sequence[_Size], *, num_taken: int) -> None:
    if num_taken < len(sizes):
        raise InvalidInput.of(
            "run_ids",
            f"must be runs with at most {MAX_NAMED_MEASUREMENTS:,} measurements and "
            f"{binary_bytes_text(MAX_DOCUMENT_BYTES)} of documents together",
            value=f"{sum(size.num_measurements for size in sizes):,} measurements and "
            f"{binary_bytes_text(sum(size.num_bytes for size in sizes))}",
            remedy="give fewer run_ids",
        )
