"""The tables. No SQL of one database only: they live in SQLite and PostgreSQL alike.

A change here needs a migration in `service/database/migrations/versions`; a test compares the two.
"""

from __future__ import annotations

import secrets
import time
import uuid
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from sqlalchemy import (
    JSON,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    Uuid,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from service.database.names import MAX_DESCRIPTION_CHARACTERS, MAX_NAME_CHARACTERS
from sizing.schema_versions import FIRST_VERSION

Scope = Literal["publish", "write", "admin"]
"""What a token allows: `publish` benchmark runs, `write` anything and delete what it saved, `admin` also to delete
what others saved and to read the audit log."""

SCOPES: tuple[Scope, ...] = get_args(Scope)


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy gives it
        """The moment with its time zone."""
        return value.replace(tzinfo=UTC) if value and value.tzinfo is None else value


class ScenarioDocument(TypeDecorator[dict[str, Any]]):
    """A scenario as it was given, with the version of the defaults that held then.

    What was stored before documents said it is of the first version.
    """

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: dict[str, Any] | None, dialect: Dialect) -> dict[str, Any] | None:  # noqa: ARG002 - SQLAlchemy gives it
        """The document with its version."""
        return value and {"schema_version": FIRST_VERSION} | value


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
    type_annotation_map = {datetime: UtcDateTime, uuid.UUID: Uuid, dict[str, Any]: JSON, bytes: LargeBinary}  # noqa: RUF012 - SQLAlchemy reads it


class TokenRow(Base):
    """A bearer token. Only the hash of its secret is kept."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME_CHARACTERS), unique=True)
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
    name: Mapped[str] = mapped_column(String(MAX_NAME_CHARACTERS))
    scenario: Mapped[dict[str, Any]] = mapped_column(ScenarioDocument)
    created_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)


class StorageSystemRow(Base):
    """A storage system that runs are published for."""

    __tablename__ = "storage_systems"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME_CHARACTERS), unique=True)
    description: Mapped[str] = mapped_column(String(MAX_DESCRIPTION_CHARACTERS))
    created_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)


class RunRow(Base):
    """A benchmark run: its result document as it was sent, and the digest that tells a repeat from a conflict."""

    __tablename__ = "runs"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(String(64), unique=True)
    system_id: Mapped[int] = mapped_column(ForeignKey("storage_systems.id"), index=True)
    document: Mapped[str] = mapped_column(Text, deferred=True)
    digest: Mapped[bytes]
    published_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)

    system: Mapped[StorageSystemRow] = relationship(lazy="joined")
    measurements: Mapped[list[MeasurementRow]] = relationship(order_by="MeasurementRow.position", lazy="selectin")


class MeasurementRow(Base):
    """What lists and filters need of a run's measurement; its samples are in the document."""

    __tablename__ = "measurements"

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    engine: Mapped[str] = mapped_column(String(64))
    operation: Mapped[str] = mapped_column(String(20))
    num_nodes: Mapped[int]
    num_ranks: Mapped[int]
    bytes_per_second: Mapped[float] = mapped_column(Double)
    verified: Mapped[bool]


class CalibrationRow(Base):
    """A calibration: what was fitted, from which runs, by which version of the code."""

    __tablename__ = "calibrations"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    system_id: Mapped[int] = mapped_column(ForeignKey("storage_systems.id"), index=True)
    calibration: Mapped[dict[str, Any]]
    code_version: Mapped[str] = mapped_column(String(50))
    created_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)

    system: Mapped[StorageSystemRow] = relationship(lazy="joined")


class CalibrationRunRow(Base):
    """That a calibration rests on a run."""

    __tablename__ = "calibration_runs"

    calibration_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("calibrations.id"), primary_key=True)
    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True, index=True)


class AuditRow(Base):
    """One change: when, by which token (none at the terminal), what was done to what, in which request."""

    __tablename__ = "audit_log"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id"), index=True)
    action: Mapped[str] = mapped_column(String(50))
    subject: Mapped[str] = mapped_column(String(200))
    request_id: Mapped[str | None] = mapped_column(String(64))

    token: Mapped[TokenRow | None] = relationship(lazy="joined")


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
