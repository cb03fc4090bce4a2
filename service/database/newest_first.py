"""Pages of long lists, by what comes before a row and not by its number: they stay where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from uuid import UUID

from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

_Row = TypeVar("_Row")


def newest_first(
    session: Session,
    query: Select[_Row],
    row_id: InstrumentedAttribute[UUID],
    *,
    limit: int,
    before: UUID | None,
) -> Sequence[_Row]:
    """At most `limit` rows of a query, by their ids, which sort by time: from those before the id `before`."""
    if before is not None:
        query = query.where(row_id < before)
    return session.scalars(query.order_by(row_id.desc()).limit(limit)).all()
