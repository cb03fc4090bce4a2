"""The audit log, for admins."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from service.access import Admin, OpenDatabase
from service.database import audit
from service.database.tables import AuditRow
from service.errors import explained
from service.problems import responses
from service.routes.pages import PageWanted, page_of
from service_client.documents import Page

router = APIRouter(prefix="/v1/audit-log", tags=["audit log"])


class AuditEntry(BaseModel):
    """One change."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "019aa6c3-7d00-7000-8000-000000000001",
                    "at": "2026-11-21T12:00:00Z",
                    "token": "agents",
                    "action": "publish",
                    "subject": "run 20261121T120000Z-1a2b3c",
                    "request_id": "5f0c3f3a9b1e4d27",
                }
            ]
        }
    )

    id: UUID
    at: datetime
    token: str | None = Field(description="name of the token; null for a change made at the terminal")
    action: str
    subject: str
    request_id: str | None = Field(description="as in the service's log and in the answer's X-Request-Id")

    @classmethod
    def of(cls, row: AuditRow) -> AuditEntry:
        """The entry of a row."""
        return cls(
            id=row.id,
            at=row.at,
            token=row.token.name if row.token else None,
            action=row.action,
            subject=row.subject,
            request_id=row.request_id,
        )


class AuditPage(Page[AuditEntry]):
    """Some of the changes, the newest first."""


@router.get("", responses=responses(401, 403, 422, 503), summary="List the changes")
def list_audit_log(
    page: Annotated[PageWanted, explained(PageWanted), Query()], database: OpenDatabase, _: Admin
) -> AuditPage:
    """Who changed what and when, the newest first."""
    rows = audit.list_audit_log(database, limit=page.limit + 1, before=page.cursor)
    return page_of(AuditPage, rows, page.limit, AuditEntry.of, lambda row: str(row.id))
