"""The tables. No SQL of one database only: they live in SQLite and PostgreSQL alike.

A change here needs a migration in `service/database/migrations/versions`; a test compares the two.
"""

from __future__ import annotations

import secrets
import time
import uuid
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from sqlalchemy import JSON, DateTime, Dialect, ForeignKey, LargeBinary, MetaData, String, TypeDecorator, Uuid
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from service.database.names import LONGEST_NAME

Scope = Literal["write", "admin"]
"""What a token allows: `write` to save scenarios and delete those it saved, `admin` also to delete any."""

SCOPES: tuple[Scope, ...] = get_args(Scope)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """The moment with its time zone."""
        return value.replace(tzinfo=UTC) if value and value.tzinfo is None else value


class Base(DeclarativeBase):
    """What all tables share: constraints with names that migrations can rely on, and types."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime, uuid.UUID: Uuid, dict[str, Any]: JSON, bytes: LargeBinary}  # noqa: RUF012


class TokenRow(Base):
    """A bearer token. Only the hash of its secret is kept."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(LONGEST_NAME), unique=True)
    secret_hash: Mapped[bytes]
    scope: Mapped[Scope] = mapped_column(String(20))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]

    @property
    def state(self) -> Literal["active", "expired", "revoked"]:
        """Whether the token holds."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now() else "active"


class ScenarioRow(Base):
    """A scenario as it was given, under a name."""

    __tablename__ = "scenarios"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(LONGEST_NAME))
    scenario: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)


def now() -> datetime:
    """The present moment, in UTC."""
    return datetime.now(UTC)


def new_id() -> uuid.UUID:
    """A UUID of version 7 (RFC 9562, section 5.7): later ones sort later, and none is used twice.

    >>> new_id().version
    7
    """
    milliseconds, random = time.time_ns() // 1_000_000, secrets.randbits(74)
    high, low = random >> 62, random & (1 << 62) - 1
    return uuid.UUID(int=milliseconds << 80 | 7 << 76 | high << 64 | 2 << 62 | low)
