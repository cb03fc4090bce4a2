"""The audit log, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from service.access.scopes import Admin, OpenDatabase
from service.database import audit
from service.database.audit import AuditFilter
from service.database.names import MAX_NAME_CHARACTERS
from service.database.tables import AuditRow
from service.errors import explained
from service.http.problems import responses
from service.routes.pagination import PageQuery, page_of
from service_client.documents import AuditEntry, Page
from sizing.units.inputs import Moment

router = APIRouter(prefix="/v1/audit-log", tags=["audit log"])


class AuditQuery(PageQuery):
    """Which entries of the audit log."""

    token: str | None = Field(
        None, max_length=MAX_NAME_CHARACTERS, description="Name of the token that made the change. Default: any."
    )
    action: str | None = Field(
        None, max_length=50, description="Action, or how it begins, such as delete. Default: any."
    )
    subject: str | None = Field(
        None, max_length=200, description="Object that changed, or how it begins, such as run. Default: any."
    )
    since: Moment | None = Field(None, description="Earliest time of the change. Default: any time.")
    before: Moment | None = Field(None, description="Time before which the change was made. Default: any time.")


class AuditPage(Page[AuditEntry]):
    """Some of the changes, the newest first."""


@router.get("", responses=responses(401, 403, 422, 503), summary="List the changes")
def list_audit_log(
    query: Annotated[AuditQuery, explained(AuditQuery), Query()], database: OpenDatabase, _: Admin
) -> AuditPage:
    """Who changed what and when, newest first."""
    chosen = AuditFilter(**query.model_dump(exclude={"limit", "cursor"}))
    rows = audit.list_audit_log(database, chosen, limit=query.limit + 1, before=query.cursor)
    return page_of(AuditPage, rows, query.limit, _entry, lambda row: str(row.id))


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        token=row.token.name if row.token else None,
        action=row.action,
        subject=row.subject,
        request_id=row.request_id,
    )
