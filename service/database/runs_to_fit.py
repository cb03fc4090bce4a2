"""Which runs a calibration looks at: those that were named, or the newest of a window that were not withdrawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from sqlalchemy import Select, func, select
from sqlalchemy.orm import joinedload

from service.database.connection import Database
from service.database.runs import RunFilter, of_system
from service.database.storage_systems import storage_system
from service.database.tables import RunDocumentRow, RunRow, WithdrawalRow
from service.errors import NotFound
from sizing.errors import InvalidInput
from sizing.units import binary_bytes_text

MAX_RUNS = 1000
"""What a calibration may name, as MAX_POINTS bounds its rows."""
MAX_DOCUMENT_BYTES = 256 * 1024**2
"""Of the runs that are looked at together."""


@dataclass(frozen=True, slots=True)
class RunsWanted:
    """Which runs are to be fitted: by their ids, or the `latest` of those published in a window."""

    run_ids: Sequence[str] | None = None
    published_since: datetime | None = None
    published_before: datetime | None = None
    latest: int | None = None


@dataclass(frozen=True, slots=True)
class RunsFound:
    """Runs with their documents, the newest first, and why others are left out, by their ids."""

    rows: Sequence[RunRow]
    left_out: dict[str, str]


def runs_to_fit(database: Database, system_name: str, wanted: RunsWanted) -> RunsFound:
    """The runs that are wanted and may speak for a storage system.

    Raises NotFound where an id is not that of a run of the system, InvalidInput where named runs are too many.
    """
    query = RunFilter(published_since=wanted.published_since, published_before=wanted.published_before).of(
        of_system(storage_system(database, system_name))
    )
    if wanted.run_ids is not None:
        query = query.where(RunRow.run_id.in_(wanted.run_ids))
    with database.reading() as session:
        withdrawn = session.execute(
            query.join(WithdrawalRow).with_only_columns(RunRow.run_id, WithdrawalRow.reason)
            .order_by(RunRow.id.desc()).limit(MAX_RUNS)
        )  # fmt: skip
        left_out = {run_id: f"was withdrawn: {reason}" for run_id, reason in withdrawn}
        sizes = [(run_id, size) for run_id, size in session.execute(_sizes(query, wanted))]
        fitting = list(_fitting(sizes))
        if wanted.run_ids is not None:
            _require_all(system_name, wanted.run_ids, [run_id for run_id, _ in sizes], left_out)
            _require_fitting(sizes, fitting)
        left_out |= {
            run_id: f"is older than the newest with {binary_bytes_text(MAX_DOCUMENT_BYTES)} of documents"
            for run_id, _ in sizes[len(fitting) :]
        }
        chosen = select(RunRow).where(RunRow.run_id.in_(fitting)).order_by(RunRow.id.desc())
        return RunsFound(session.scalars(chosen.options(joinedload(RunRow.stored))).all(), left_out)


def _sizes(query: Select[RunRow], wanted: RunsWanted) -> Select[str, int]:
    """The newest runs that speak, with the lengths of their documents."""
    speaking = query.join(RunRow.stored).where(~RunRow.withdrawal.has()).order_by(RunRow.id.desc())
    return speaking.with_only_columns(RunRow.run_id, func.length(RunDocumentRow.document)).limit(
        min(wanted.latest or MAX_RUNS, MAX_RUNS)
    )


def _fitting(sizes: Sequence[tuple[str, int]]) -> Iterator[str]:
    """The runs whose documents can be looked at together."""
    for (run_id, _), total in zip(sizes, accumulate(size for _, size in sizes), strict=True):
        if total > MAX_DOCUMENT_BYTES:
            return
        yield run_id


def _require_all(system_name: str, asked: Sequence[str], found: Sequence[str], left_out: dict[str, str]) -> None:
    missing = {*asked} - {*found} - left_out.keys()
    if missing:
        raise NotFound.of(
            "run_ids",
            f"must be ids of runs of {system_name}",
            value=min(missing),
            remedy="list them with GET /v1/storage-systems/NAME/runs",
        )


def _require_fitting(sizes: Sequence[tuple[str, int]], fitting: Sequence[str]) -> None:
    if len(fitting) < len(sizes):
        raise InvalidInput.of(
            "run_ids",
            f"must be at most {MAX_RUNS:,} runs with {binary_bytes_text(MAX_DOCUMENT_BYTES)} of documents",
            value=f"{len(sizes):,} with {binary_bytes_text(sum(size for _, size in sizes))}",
            remedy="give fewer run_ids",
        )
