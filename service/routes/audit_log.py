"""The audit log, for admins."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from service.access.scopes import Admin, OpenDatabase
from service.database import audit
from service.database.tables import AuditRow
from service.errors import explained
from service.http.problems import responses
from service.routes.pagination import PageWanted, page_of
from service_client.documents import AuditEntry, Page

router = APIRouter(prefix="/v1/audit-log", tags=["audit log"])


class AuditPage(Page[AuditEntry]):
    """Some of the changes, the newest first."""


@router.get("", responses=responses(401, 403, 422, 503), summary="List the changes")
def list_audit_log(
    page: Annotated[PageWanted, explained(PageWanted), Query()], database: OpenDatabase, _: Admin
) -> AuditPage:
    """Who changed what and when, newest first."""
    rows = audit.list_audit_log(database, limit=page.limit + 1, before=page.cursor)
    return page_of(AuditPage, rows, page.limit, _entry, lambda row: str(row.id))


def _entry(row: AuditRow) -> AuditEntry:
    return AuditEntry(
        id=row.id,
        at=row.at,
        token=row.token.name if row.token else None,
        action=row.action,
        subject=row.subject,
        request_id=row.request_id,
    )
