"""Tables of the database. They use no SQL of one database only, as they live in SQLite and PostgreSQL alike.

A change here needs a migration in `service/database/migrations/versions`; a test compares the two.
"""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from service.database.names import MAX_DESCRIPTION_CHARACTERS, MAX_KEY_CHARACTERS, MAX_NAME_CHARACTERS
from service.settings import MAX_ISSUER_CHARACTERS
from service_client.terms import JobState, ReportForm, RunRetention, TokenScope
from sizing.errors import Problem
from sizing.schema_versions import FIRST_VERSION
from sizing.storage.rate_changes import MAX_SERIES_CHARACTERS

MAX_SUBJECT_CHARACTERS = 255
"""OpenID Connect Core 1.0, section 2."""
Scope = TokenScope
SCOPES: tuple[Scope, ...] = get_args(Scope)


class UtcDateTime(TypeDecorator[datetime]):
    """Time in UTC, whatever its offset is where it comes in. SQLite keeps no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy gives it
        """Convert the time to UTC."""
        return value.astimezone(UTC) if value is not None else None

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy gives it
        """Add the time zone to a stored time."""
        return value.replace(tzinfo=UTC) if value and value.tzinfo is None else value


class ScenarioDocument(TypeDecorator[dict[str, Any]]):
    """Scenario as it was given, with the version of the defaults that held then.

    What was stored before documents said it is of the first version.
    """

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: dict[str, Any] | None, dialect: Dialect) -> dict[str, Any] | None:  # noqa: ARG002 - SQLAlchemy gives it
        """Add the first version to a stored document without one."""
        return value and {"schema_version": FIRST_VERSION} | value


class Base(DeclarativeBase):
    """Base of all tables: constraint names that migrations can rely on, and column types."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime, uuid.UUID: Uuid, dict[str, Any]: JSON, bytes: LargeBinary}  # noqa: RUF012 - SQLAlchemy reads it


class SchemaSupportRow(Base):
    """Versions that work with this schema, in one row: those that know a revision."""

    __tablename__ = "schema_support"

    serves_from: Mapped[str] = mapped_column(String(32), primary_key=True)


class TokenRow(Base):
    """Bearer token. Only the hash of its secret is stored."""

    __tablename__ = "tokens"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME_CHARACTERS), unique=True)
    secret_hash: Mapped[bytes]
    scope: Mapped[Scope] = mapped_column(String(20))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]

    limits: Mapped[list[TokenSystemRow]] = relationship(order_by="TokenSystemRow.system_name", lazy="raise")

    @property
    def systems(self) -> list[str] | None:
        """Names of the storage systems that the token is limited to; None for a token of all. Needs `limits` read."""
        return [limit.system_name for limit in self.limits] or None

    @property
    def state(self) -> Literal["active", "expired", "revoked"]:
        """State of the token: active, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now() else "active"


class TokenSystemRow(Base):
    """Limit of a token to a storage system: by name, so that it stays limited where the system is deleted."""

    __tablename__ = "token_systems"

    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), primary_key=True)
    system_name: Mapped[str] = mapped_column(String(MAX_NAME_CHARACTERS), primary_key=True)


class PersonRow(Base):
    """Person who logs in at a provider. What they store belongs to a token of their name, whose secret nobody has."""

    __tablename__ = "people"
    __table_args__ = (UniqueConstraint("subject", "issuer"),)

    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), primary_key=True)
    issuer: Mapped[str] = mapped_column(String(MAX_ISSUER_CHARACTERS))
    subject: Mapped[str] = mapped_column(String(MAX_SUBJECT_CHARACTERS))
    sessions: Mapped[int]
    """How often all of their sessions have ended: those of before hold no longer."""

    token: Mapped[TokenRow] = relationship(lazy="joined")


class IdempotencyKeyRow(Base):
    """Idempotency key of a completed request, and what that made: the request sent again finds it."""

    __tablename__ = "idempotency_keys"

    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(MAX_KEY_CHARACTERS), primary_key=True)
    digest: Mapped[bytes]
    made_id: Mapped[uuid.UUID]
    at: Mapped[datetime]


class ScenarioRow(Base):
    """Scenario as it was given, under a name."""

    __tablename__ = "scenarios"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME_CHARACTERS))
    scenario: Mapped[dict[str, Any]] = mapped_column(ScenarioDocument)
    created_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)
    code_version: Mapped[str | None] = mapped_column(String(50))
    """What answered it when it was saved; None of what was saved before that was kept."""
    figures: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The figures of that answer, by name."""


class SharingLinkRow(Base):
    """Sharing link that reads one scenario without a token, and is deleted with it. Its secret is stored as a hash."""

    __tablename__ = "sharing_links"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    scenario_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("scenarios.id", ondelete="CASCADE"), index=True)
    secret_hash: Mapped[bytes]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)

    token: Mapped[TokenRow] = relationship(lazy="joined")

    @property
    def made_by(self) -> str:
        """Name of the token that made the link."""
        return self.token.name

    @property
    def holds(self) -> bool:
        """Whether the link has not expired."""
        return self.expires_at is None or self.expires_at > now()


class StorageSystemRow(Base):
    """Storage system that runs are published for."""

    __tablename__ = "storage_systems"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(MAX_NAME_CHARACTERS), unique=True)
    description: Mapped[str] = mapped_column(String(MAX_DESCRIPTION_CHARACTERS))
    created_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)
    keep_runs_seconds: Mapped[float | None] = mapped_column(Double)
    keep_num_runs: Mapped[int | None]

    token: Mapped[TokenRow] = relationship(lazy="joined")
    named_owners: Mapped[list[TokenRow]] = relationship(
        secondary="storage_system_owners", order_by="TokenRow.name", lazy="selectin"
    )

    @property
    def owners(self) -> list[str]:
        """Names of the tokens that may change the system: those that were named, or else the one that added it."""
        return [token.name for token in self.named_owners or [self.token]]

    @property
    def retention(self) -> RunRetention:
        """Retention of the system's runs."""
        return RunRetention(max_age_seconds=self.keep_runs_seconds, max_runs=self.keep_num_runs)


class StorageSystemOwnerRow(Base):
    """Right of a token to change a storage system."""

    __tablename__ = "storage_system_owners"

    system_id: Mapped[int] = mapped_column(ForeignKey("storage_systems.id"), primary_key=True)
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), primary_key=True, index=True)


class RunRow(Base):
    """Benchmark run, with the digest of its document, which distinguishes a repeat from a conflict."""

    __tablename__ = "runs"
    __table_args__ = (Index("ix_runs_system_id_id", "system_id", "id", "published_at"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(String(64), unique=True)
    system_id: Mapped[int] = mapped_column(ForeignKey("storage_systems.id"))
    digest: Mapped[bytes]
    published_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)

    system: Mapped[StorageSystemRow] = relationship(lazy="joined")
    token: Mapped[TokenRow] = relationship(lazy="selectin")
    withdrawal: Mapped[WithdrawalRow | None] = relationship(lazy="selectin")
    measurements: Mapped[list[MeasurementRow]] = relationship(order_by="MeasurementRow.position", lazy="selectin")
    stored: Mapped[RunDocumentRow] = relationship(lazy="raise")

    @property
    def publisher(self) -> str:
        """Name of the token that published the run."""
        return self.token.name

    @property
    def document(self) -> str:
        """Result document as it was sent. Needs `stored` read with the row."""
        return self.stored.document


class RunDocumentRow(Base):
    """Result document of a run as it was sent: in its own table, so that lists of runs do not read it."""

    __tablename__ = "run_documents"

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    document: Mapped[str] = mapped_column(Text)


class WithdrawalRow(Base):
    """Withdrawal of a run, with its reason. The run is kept, and left out of calibrations."""

    __tablename__ = "withdrawals"

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    reason: Mapped[str] = mapped_column(String(MAX_DESCRIPTION_CHARACTERS))
    at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)

    token: Mapped[TokenRow] = relationship(lazy="joined")

    @property
    def by(self) -> str:
        """Name of the token that withdrew the run."""
        return self.token.name


class MeasurementRow(Base):
    """Measurement of a run, as lists and filters need it. Its samples are in the document."""

    __tablename__ = "measurements"
    __table_args__ = (Index("ix_measurements_engine", "engine", "run_id", "num_nodes"),)

    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    engine: Mapped[str] = mapped_column(String(64))
    operation: Mapped[str] = mapped_column(String(20))
    num_nodes: Mapped[int]
    num_ranks: Mapped[int]
    bytes_per_second: Mapped[float] = mapped_column(Double)
    verified: Mapped[bool]
    series: Mapped[str | None] = mapped_column(String(MAX_SERIES_CHARACTERS))
    """Series in which it is compared over time; None where it says nothing of the storage."""


class CalibrationRow(Base):
    """Calibration: what was fitted, from which runs, by which version of the code."""

    __tablename__ = "calibrations"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    system_id: Mapped[int] = mapped_column(ForeignKey("storage_systems.id"), index=True)
    calibration: Mapped[dict[str, Any]]
    left_out: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    code_version: Mapped[str] = mapped_column(String(50))
    created_at: Mapped[datetime]
    token_id: Mapped[int] = mapped_column(ForeignKey("tokens.id"), index=True)

    system: Mapped[StorageSystemRow] = relationship(lazy="joined")


class CalibrationRunRow(Base):
    """Run from which a calibration was fitted."""

    __tablename__ = "calibration_runs"

    calibration_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("calibrations.id"), primary_key=True)
    run_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True, index=True)


class JobRow(Base):
    """Question that is answered later, by whichever process has taken it."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_state_ended_at", "state", "ended_at"),
        Index("ix_jobs_token_id", "token_id", "created_at"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(50))
    form: Mapped[ReportForm] = mapped_column(String(20))
    state: Mapped[JobState] = mapped_column(String(20))
    code_version: Mapped[str] = mapped_column(String(50))
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime]
    """When the process that has it last said so."""
    owner: Mapped[uuid.UUID | None]
    """Id of the server process that has it; None while nobody has, and of a version before."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    """How often computing it began, less the times that it was given back."""
    max_seconds: Mapped[float] = mapped_column(Double)
    problem_code: Mapped[str | None] = mapped_column(String(50))
    problems: Mapped[list[list[str]] | None] = mapped_column(JSON(none_as_null=True))
    """Field, rule, value and remedy of each."""
    result_bytes: Mapped[int | None]
    progress_fraction: Mapped[float | None] = mapped_column(Double)
    """Progress at the latest heartbeat; None of a question that does not tell, and of one that a version before
    answers."""
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id"))
    """Id of the token with which it was asked; None where that is not known."""

    @property
    def running_seconds(self) -> float:
        """Seconds of computing up to now, or to the end of the job."""
        return ((self.ended_at or now()) - self.started_at).total_seconds() if self.started_at else 0.0

    @property
    def code(self) -> str | None:
        """Kind of error, for programs."""
        return self.problem_code

    @property
    def detail(self) -> str | None:
        """All problems as sentences."""
        return "\n".join(problem.sentence for problem in self.refused_for) or None

    @property
    def refused_for(self) -> list[Problem]:
        """Problems of a job that failed or was interrupted."""
        return [Problem(*parts) for parts in self.problems or ()]


class JobQuestionRow(Base):
    """Question of a job that has not ended, as JSON: who can write it here can ask, and run no code."""

    __tablename__ = "job_questions"

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    question: Mapped[str] = mapped_column(Text)
    traceparent: Mapped[str | None] = mapped_column(String(55))
    """Request that it comes from (W3C Trace Context, section 3.2), where requests are traced."""


class JobPartRow(Base):
    """Part of the answer to a job that has not ended: of the chunk of its items `start` to before `stop`."""

    __tablename__ = "job_parts"

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    start: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    stop: Mapped[int] = mapped_column(BigInteger)
    versions: Mapped[str] = mapped_column(String(200))
    """Versions on which its bits depend: of the code, with a digest of it, and of libraries."""
    content: Mapped[bytes]
    """JSON."""


class JobResultRow(Base):
    """Result of a job: in its own table, so that reading a job's state does not read it."""

    __tablename__ = "job_results"

    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    content: Mapped[bytes]


class AuditRow(Base):
    """Entry of the audit log: when, by which token (none at the terminal), what was done to what, in which request."""

    __tablename__ = "audit_log"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    token_id: Mapped[int | None] = mapped_column(ForeignKey("tokens.id"), index=True)
    action: Mapped[str] = mapped_column(String(50))
    subject: Mapped[str] = mapped_column(String(200))
    request_id: Mapped[str | None] = mapped_column(String(64))

    token: Mapped[TokenRow | None] = relationship(lazy="joined")


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(UTC)


class _Ids:
    """Random UUIDs of version 7 that grow, whatever the clock does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        """Give the bits of an id without version and variant: 48 of the time in milliseconds, 74 random ones.

        Where the clock has not gone on since the last id, or was set back, it is the last one and a random step
        (RFC 9562, section 6.2, method 2).
        """
        fresh = (time.time_ns() // 1_000_000 << 74) + secrets.randbits(74)
        with self._lock:
            self._last = max(fresh, self._last + 1 + secrets.randbits(32))
            return self._last


_ids = _Ids()


def new_id() -> uuid.UUID:
    """Return a UUID of version 7 (RFC 9562, section 5.7): within a process later ones sort later, and each is unique.

    >>> new_id().version, new_id() < new_id()
    (7, True)
    """
    bits = _ids.next()
    milliseconds, high, low = bits >> 74, bits >> 62 & (1 << 12) - 1, bits & (1 << 62) - 1
    return uuid.UUID(int=milliseconds << 80 | 7 << 76 | high << 64 | 2 << 62 | low)
